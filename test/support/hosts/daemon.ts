/** Somebody else's server for the time of a test: started in the foreground, ended with everything it started itself. */

import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { WAIT_MS } from '../patience.ts'

export interface Daemon {
  process: ChildProcess
  /** Standard output and standard error as they came. */
  output(): string
  /** SIGTERM, and SIGKILL to its whole process group when that was not enough. */
  stop(): Promise<void>
}

/** Some never end by themselves, and each of them costs its test this time. */
const GRACE_MS = WAIT_MS / 6
const POLL_MS = 50

/** @param logFile where its standard output and standard error go; a file, because some open /dev/stderr anew */
export function startDaemon(
  file: string,
  args: readonly string[],
  { logFile, env }: { logFile: string; env?: Record<string, string> },
): Daemon {
  const log = openSync(logFile, 'a')
  // A process group of its own, so that no worker of it is left behind.
  const child = spawn(file, args, { stdio: ['ignore', log, log], env: { ...process.env, ...env }, detached: true })
  closeSync(log)
  const ended = new Promise<void>((resolve) => {
    child.once('exit', () => resolve())
    child.once('error', () => resolve())
  })
  return {
    process: child,
    output: () => readFileSync(logFile, 'utf8'),
    async stop() {
      child.kill('SIGTERM')
      const timer = setTimeout(() => killGroup(child), GRACE_MS)
      await ended
      clearTimeout(timer)
    },
  }
}

function killGroup({ pid }: ChildProcess): void {
  if (pid !== undefined) process.kill(-pid, 'SIGKILL')
}

/**
 * Asks until there is an answer other than undefined.
 * @throws Error with what the server said, when it has ended or the time is over
 */
export async function waitFor<T>(
  what: string,
  { process: child, output }: Daemon,
  ask: () => T | undefined | Promise<T | undefined>,
  timeoutMs = WAIT_MS,
): Promise<T> {
  const deadline = Date.now() + timeoutMs
  for (;;) {
    const answer = await ask()
    if (answer !== undefined) return answer
    const ended = child.exitCode !== null || child.signalCode !== null
    if (ended || Date.now() > deadline)
      throw new Error(`${ended ? 'the server ended before' : 'timed out:'} ${what}\n${output()}`)
    await sleep(POLL_MS)
  }
}
