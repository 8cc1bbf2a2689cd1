/**
 * The embedded mode as `npm start` runs it, in a folder of its own: what it prints, where it listens, how it ends.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { freePort } from './free-port.ts'
import { WAIT_MS } from './patience.ts'
import { noteStart } from './used-parts.ts'
import { words } from './words.ts'

export interface EmbeddedService {
  directoryUrl: string
  /** The file that the welcome text names. */
  rootFile: string
  http01Port: number
  tlsAlpn01Port: number
  dataDir: string
  /** Everything on standard error, the welcome text included. */
  text(): string
  /** The command line that the welcome text prints for a client, as a shell reads it. */
  commandLine(client: 'curl' | 'certbot' | 'lego'): string
  process: ChildProcess
  /** Ctrl-C. @returns the exit code */
  interrupt(): Promise<number | null>
  /** Interrupts it if it still runs, and deletes its folder unless another start continues with it. */
  dispose(): Promise<void>
}

const CLI = path.resolve(import.meta.dirname, '../../../dist/src/cli/main.js')
/** Last line of the welcome text. */
const WELCOME_ENDS = /^Stop with Ctrl-C/

/**
 * @param former starts again on its data and ports; it must have ended.
 * @param flags further words of the command line
 */
export async function startEmbedded(former?: EmbeddedService, flags: readonly string[] = []): Promise<EmbeddedService> {
  const top = former ? path.dirname(former.dataDir) : mkdtempSync(path.join(tmpdir(), 'chancery-interop-'))
  // For root, the database server runs as another user, who must get through.
  chmodSync(top, 0o755)
  const dataDir = path.join(top, 'data')
  const port = former ? Number(new URL(former.directoryUrl).port) : await freePort()
  const http01Port = former?.http01Port ?? (await freePort())
  const tlsAlpn01Port = former?.tlsAlpn01Port ?? (await freePort())
  const ports = words`--port ${String(port)} --http01-port ${String(http01Port)} --tlsalpn01-port ${String(tlsAlpn01Port)}`
  const args = words`--enable-source-maps ${CLI} --dev --data-dir ${dataDir} ${ports} --log-level INFO ${flags}`
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  const exited = new Promise<number | null>((resolve) => child.once('close', resolve))
  const lines: string[] = []
  const startedAt = performance.now()
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => child.kill('SIGKILL'), WAIT_MS)
    createInterface({ input: child.stderr as NodeJS.ReadableStream }).on('line', (line) => {
      lines.push(line)
      if (!WELCOME_ENDS.test(line)) return
      clearTimeout(timer)
      noteStart('embedded service', startedAt, child.pid)
      resolve()
    })
    void exited.then((code) => reject(new Error(`the embedded mode ended (${code}):\n${lines.join('\n')}`)))
  })
  const find = (pattern: RegExp): string => {
    const found = pattern.exec(lines.join('\n'))?.[1]
    if (found === undefined) throw new Error(`the welcome text lacks ${pattern}:\n${lines.join('\n')}`)
    return found
  }
  const running = () => child.exitCode === null && child.signalCode === null

  const service: EmbeddedService = {
    directoryUrl: find(/^ +directory +(\S+)$/m),
    rootFile: find(/^ +root certificate +(\S+)$/m),
    http01Port,
    tlsAlpn01Port,
    dataDir,
    text: () => lines.join('\n'),
    // A backslash at the end of a line continues it.
    commandLine: (client) => find(new RegExp(`^ +${client} +((?:.*\\\\\\n)*.*)$`, 'm')),
    process: child,
    interrupt() {
      child.kill('SIGINT')
      return exited
    },
    async dispose() {
      if (running()) await service.interrupt()
      rmSync(top, { recursive: true, force: true })
    },
  }
  return service
}
