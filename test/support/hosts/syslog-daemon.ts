/** Debian's rsyslog for a test: UDP, TCP and TLS, everything below a folder of the test. */

import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import path from 'node:path'
import { freePort } from '../free-port.ts'
import { type Daemon, startDaemon, waitFor } from './daemon.ts'

export interface SyslogDaemon {
  ports: { udp: number; tcp: number; tls: number }
  /** Its certificate, which is its own authority. */
  caFile: string
  /** Priority, application, message id, structured data and message of each line. */
  lines(): string[]
  start(): Promise<void>
  /** SIGKILL. */
  kill(): Promise<void>
  stop(): Promise<void>
}

export async function syslogDaemon(folder: string): Promise<SyslogDaemon> {
  const file = (name: string) => path.join(folder, name)
  const ports = { udp: await freePort(), tcp: await freePort(), tls: await freePort() }
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost']
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', file('key.pem')]
  execFileSync('openssl', ['req', '-x509', '-days', '2', ...key, ...subject, '-out', file('cert.pem')], {
    stdio: 'ignore',
  })
  writeFileSync(file('rsyslog.conf'), configuration(folder, ports))
  writeFileSync(file('received'), '')
  let daemon: Daemon | undefined
  return {
    ports,
    caFile: file('cert.pem'),
    lines: () => readFileSync(file('received'), 'utf8').split('\n').slice(0, -1),
    async start() {
      const started = startDaemon('rsyslogd', ['-n', '-f', file('rsyslog.conf'), '-i', 'NONE'], {
        logFile: file('output'),
      })
      daemon = started
      for (const port of [ports.tcp, ports.tls])
        await waitFor('rsyslog listens', started, async () => ((await accepts(port)) ? true : undefined))
    },
    async kill() {
      const ended = new Promise((resolve) => daemon?.process.once('exit', resolve))
      daemon?.process.kill('SIGKILL')
      await ended
    },
    async stop() {
      if (daemon?.process.exitCode === null && daemon.process.signalCode === null) await daemon.stop()
    },
  }
}

const configuration = (folder: string, { udp, tcp, tls }: SyslogDaemon['ports']) => `
global(
  workDirectory="${folder}"
  defaultNetstreamDriverCAFile="${folder}/cert.pem"
  defaultNetstreamDriverCertFile="${folder}/cert.pem"
  defaultNetstreamDriverKeyFile="${folder}/key.pem"
)
module(load="imudp")
module(load="imptcp")
module(load="imtcp" streamDriver.name="ossl" streamDriver.mode="1" streamDriver.authMode="anon")
template(name="line" type="string" string="%pri% %app-name% %msgid% %structured-data% %msg%\\n")
ruleset(name="all") { action(type="omfile" file="${folder}/received" template="line") }
input(type="imudp" address="127.0.0.1" port="${udp}" ruleset="all")
input(type="imptcp" address="127.0.0.1" port="${tcp}" ruleset="all")
input(type="imtcp" address="127.0.0.1" port="${tls}" ruleset="all")
`

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true))
    socket.once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}
