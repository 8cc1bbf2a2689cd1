/** Runs somebody else's program to its end, within a time, without blocking this process. */

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { WAIT_MS } from './patience.ts'

export interface CommandResult {
  code: number | null
  /** Standard output and standard error as they came. */
  output: string
}

export interface CommandOptions {
  env?: Record<string, string>
  timeoutMs?: number
}

/** For what never ends; a machine that is busy with other tests does not reach it. */
const TIMEOUT_MS = 4 * WAIT_MS

export function runCommand(
  file: string,
  args: readonly string[],
  options: CommandOptions = {},
): Promise<CommandResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...options.env },
      timeout: options.timeoutMs ?? TIMEOUT_MS,
      killSignal: 'SIGKILL',
    })
    let output = ''
    const keep = (chunk: Buffer) => {
      output += chunk.toString()
    }
    child.stdout.on('data', keep)
    child.stderr.on('data', keep)
    child.once('error', reject)
    child.once('close', (code) => resolve({ code, output }))
  })
}

/** @throws AssertionError with what the program said, unless it ended with 0 */
export async function mustRun(file: string, args: readonly string[], options: CommandOptions = {}): Promise<string> {
  const { code, output } = await runCommand(file, args, options)
  assert.equal(code, 0, `${file} ${args.join(' ')}\n${output}`)
  return output
}
