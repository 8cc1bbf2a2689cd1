/** Runs the real daemon as a process of its own, which ends with the process that started it. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { noteStart } from '../support/used-parts.ts'

export const SIGNER_PROGRAM = fileURLToPath(new URL('../../signer/start.cjs', import.meta.url))

export interface Daemon {
  process: ChildProcess
  /** Everything written so far, both streams. */
  output(): string
  /** Resolves when it has written this: a log line and an answer that belong together come by two ways. */
  wrote(what: RegExp): Promise<void>
  /** Sends the signal and waits for the end. @returns exit code or signal name. */
  stop(signal?: NodeJS.Signals): Promise<number | string>
}

/** Resolves at the line "signer ready". @throws Error with the output when the daemon ends before. */
export async function startDaemon(
  config: string,
  nodeOptions: readonly string[] = [],
  env: NodeJS.ProcessEnv = {},
  program = SIGNER_PROGRAM,
): Promise<Daemon> {
  const child = spawn(process.execPath, [...nodeOptions, program, '--with-parent', '-c', config], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  })
  const startedAt = performance.now()
  const lines: string[] = []
  const ended = once(child, 'close')
  child.stderr.on('data', (chunk: Buffer) => lines.push(chunk.toString('utf8')))
  await new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      lines.push(line)
      if (!line.includes('"signer ready"')) return
      noteStart('signer', startedAt, child.pid)
      resolve()
    })
    ended.then(() => reject(new Error(`the daemon ended early:\n${lines.join('\n')}`)), reject)
  })
  return {
    process: child,
    output: () => lines.join('\n'),
    async wrote(what) {
      while (!what.test(lines.join('\n'))) {
        if (child.exitCode !== null || child.signalCode !== null)
          throw new Error(`the daemon ended without ${what}:\n${lines.join('\n')}`)
        await sleep(10)
      }
    },
    async stop(signal = 'SIGTERM') {
      if (child.exitCode === null && child.signalCode === null) child.kill(signal)
      const [code, name] = (await ended) as [number | null, NodeJS.Signals | null]
      return code ?? name ?? 'unknown'
    },
  }
}
