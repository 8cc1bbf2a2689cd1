/** step-ca (from Debian's package of its library) with a CA that the test gives, in a folder of its own, on loopback. */

import { readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import path from 'node:path'
import type { DevCaFiles } from '../../../src/dev/dev-ca-certificates.ts'
import { type Daemon, startDaemon, waitFor } from '../hosts/daemon.ts'
import { goProgram } from '../hosts/go-program.ts'
import { type Hosts, withHosts } from '../hosts/own-hosts.ts'
import { mustRun } from '../run-command.ts'

export interface StepCaOptions {
  folder: string
  ca: DevCaFiles
  port: number
  /** Names of ACME provisioners; of those in `strict`, accounts need an external account binding. */
  provisioners: readonly string[]
  strict: readonly string[]
  /** step-ca asks http-01 at port 80. */
  hosts: Hosts
}

export interface StepCa {
  /** Its badger database. */
  database: string
  directoryUrl(provisioner: string): string
  /** Before it is started. */
  addKey(kid: string): Promise<{ kid: string; hmacKey: string }>
  start(): Promise<Daemon>
}

export async function makeStepCa(options: StepCaOptions): Promise<StepCa> {
  const { folder, ca, port, provisioners, strict, hosts } = options
  const file = (name: string) => path.join(folder, name)
  const program = await goProgram('test/support/cas/step-ca')
  const database = file('step-ca-database')
  const config = {
    root: ca.root,
    crt: ca.intermediate,
    key: ca.intermediateKey,
    address: `127.0.0.1:${port}`,
    dnsNames: ['127.0.0.1'],
    db: { type: 'badgerv2', dataSource: database },
    authority: {
      provisioners: provisioners.map((name) => ({ type: 'ACME', name, requireEAB: strict.includes(name) })),
    },
  }
  writeFileSync(file('ca.json'), JSON.stringify(config))
  const directoryUrl = (provisioner: string) => `https://127.0.0.1:${port}/acme/${provisioner}/directory`
  return {
    database,
    directoryUrl,
    async addKey(kid) {
      const output = await mustRun(program, [file('ca.json'), kid])
      const [, hmacKey = ''] = /^key (\S+)$/m.exec(output) ?? []
      return { kid, hmacKey }
    },
    async start() {
      const command = withHosts(file('hosts'), hosts, program, [file('ca.json')])
      const daemon = startDaemon(...command, { logFile: file('step-ca.log') })
      const url = directoryUrl(provisioners[0] ?? '')
      await waitFor('step-ca answers', daemon, () => download(url, ca.root).catch(() => undefined))
      return daemon
    },
  }
}

/** The body of a page of status 200. */
export function download(url: string, rootFile: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { ca: readFileSync(rootFile), agent: false }, async (answer) => {
      const parts = await answer.toArray()
      if (answer.statusCode === 200) resolve(Buffer.concat(parts))
      else reject(new Error(`${url} answers ${answer.statusCode}`))
    })
    asked.on('error', reject).end()
  })
}
