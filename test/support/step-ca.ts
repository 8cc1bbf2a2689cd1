/** step-ca (from Debian's package of its library) with a CA that the test gives, in a folder of its own, on loopback. */

import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import path from 'node:path'
import type { DevCaFiles } from '../../src/dev/dev-ca-certificates.ts'
import { type Daemon, startDaemon, waitFor } from './daemon.ts'
import { buildGoProgram } from './go-program.ts'
import { mustRun } from './run-command.ts'

export interface StepCaOptions {
  folder: string
  ca: DevCaFiles
  port: number
  /** Names of ACME provisioners; of those in `strict`, accounts need an external account binding. */
  provisioners: readonly string[]
  strict: readonly string[]
  /** Name → address, as in /etc/hosts; step-ca asks http-01 at port 80. */
  hosts: Readonly<Record<string, string>>
}

export interface StepCa {
  /** Its badger database. */
  database: string
  directoryUrl(provisioner: string): string
  /** Before it is started. */
  addKey(kid: string): Promise<{ kid: string; hmacKey: string }>
  start(): Promise<Daemon>
}

/** It gets an /etc/hosts of its own, by a mount that nobody else sees. */
export function requireMounts(): { skip: string | false } {
  const { status } = spawnSync('unshare', ['--mount', 'true'], { stdio: 'ignore' })
  if (status === 0) return { skip: false }
  const reason = 'mount namespaces cannot be made here; to enable: run as root'
  if (process.env['CHANCERY_REQUIRE_ALL'] === '1') throw new Error(`${reason} (CHANCERY_REQUIRE_ALL=1 skips nothing)`)
  return { skip: reason }
}

export async function makeStepCa(options: StepCaOptions): Promise<StepCa> {
  const { folder, ca, port, provisioners, strict, hosts } = options
  const file = (name: string) => path.join(folder, name)
  const program = file('step-ca')
  const database = file('step-ca-database')
  await buildGoProgram('test/support/step-ca', program)
  const lines = Object.entries({ localhost: '127.0.0.1', ...hosts }).map(([name, address]) => `${address} ${name}\n`)
  writeFileSync(file('hosts'), lines.join(''))
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
      const script = `mount --bind ${file('hosts')} /etc/hosts && exec ${program} ${file('ca.json')}`
      const daemon = startDaemon('unshare', ['--mount', 'sh', '-c', script], { logFile: file('step-ca.log') })
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
