/** Caddy (Debian: caddy) as an ACME service: its `acme_server` with a CA of its own, in a folder of its own, on loopback. */

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { freePort } from '../free-port.ts'
import { startDaemon, waitFor } from '../hosts/daemon.ts'
import { type Hosts, withHosts } from '../hosts/own-hosts.ts'

export interface CaddyCa {
  directoryUrl: string
  /** PEM file of its root, which vouches for its TLS certificate, too. */
  rootFile: string
  /** PEM files of what it issues with. */
  intermediate: { certificate: string; key: string }
  /** The bbolt file of its ACME server. */
  database: string
  port: number
  output(): string
  /** Its files stay until `stop`. */
  end(): Promise<void>
  stop(): Promise<void>
}

/**
 * It asks http-01 at port 80.
 * @param hosts the names that it knows; without them it asks the machine's name server, and only addresses are sure
 */
export async function startCaddyCa(hosts?: Hosts): Promise<CaddyCa> {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-caddy-ca-'))
  const [httpPort, httpsPort] = [await freePort(), await freePort()]
  const config = path.join(folder, 'Caddyfile')
  const globals = [
    'admin off',
    'skip_install_trust',
    'auto_https disable_redirects',
    'default_bind 127.0.0.1',
    `storage file_system "${folder}/store"`,
    `http_port ${httpPort}`,
    `https_port ${httpsPort}`,
  ]
  writeFileSync(config, `{\n${globals.join('\n')}\n}\nhttps://127.0.0.1:${httpsPort} {\ntls internal\nacme_server\n}\n`)
  const env = { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  const args = ['run', '--config', config, '--adapter', 'caddyfile']
  const command: [string, string[]] = hosts
    ? withHosts(path.join(folder, 'hosts'), hosts, 'caddy', args)
    : ['caddy', args]
  const daemon = startDaemon(...command, { logFile: path.join(folder, 'log'), env })
  const authority = path.join(folder, 'store', 'pki', 'authorities', 'local')
  const rootFile = path.join(authority, 'root.crt')
  const directoryUrl = `https://127.0.0.1:${httpsPort}/acme/local/directory`
  await waitFor('Caddy answers', daemon, async () =>
    existsSync(rootFile) && (await answers(directoryUrl, rootFile)) ? true : undefined,
  )
  return {
    directoryUrl,
    rootFile,
    intermediate: {
      certificate: path.join(authority, 'intermediate.crt'),
      key: path.join(authority, 'intermediate.key'),
    },
    database: path.join(folder, 'caddy', 'acme_server', 'local', 'db'),
    port: httpsPort,
    output: daemon.output,
    end: daemon.stop,
    async stop() {
      await daemon.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function answers(url: string, rootFile: string): Promise<boolean> {
  return new Promise((resolve) => {
    const asked = request(url, { ca: readFileSync(rootFile), agent: false }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode === 200))
    })
    asked.on('error', () => resolve(false)).end()
  })
}
