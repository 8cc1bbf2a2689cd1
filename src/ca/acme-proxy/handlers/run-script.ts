/**
 * Runs a script of the operator without a shell, with a time limit.
 *
 * It gets a small environment: the service's own may hold the secrets of the configuration file.
 */

import { spawn } from 'node:child_process'

export interface Script {
  file: string
  timeoutMs: number
  /** Names of further variables that it gets from the service's environment. */
  passedVariables: readonly string[]
}

const PASSED = ['PATH', 'HOME', 'LANG', 'TZ']
/** For the log. */
const MAX_OUTPUT = 500

/**
 * @param variables for scripts that want more than their arguments
 * @throws Error with the end of what the script printed
 */
export async function runScript(
  { file, timeoutMs, passedVariables }: Script,
  words: readonly string[],
  variables: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<void> {
  const names = [...PASSED, ...passedVariables]
  const inherited = Object.fromEntries(names.flatMap((name) => passedVariable(name)))
  const overdue = AbortSignal.timeout(timeoutMs)
  const { code, output } = await ended(file, words, { ...inherited, ...variables }, AbortSignal.any([signal, overdue]))
  signal.throwIfAborted()
  if (overdue.aborted) throw new Error(`${file} did not end within ${timeoutMs / 1000} seconds`)
  if (code !== 0) throw new Error(`${file} ended with ${code}${output === '' ? '' : `: ${output}`}`)
}

const passedVariable = (name: string): [string, string][] => {
  const value = process.env[name]
  return value === undefined ? [] : [[name, value]]
}

/** In a process group of its own, so that its children end with it. */
function ended(
  file: string,
  words: readonly string[],
  env: Record<string, string>,
  signal: AbortSignal,
): Promise<{ code: number | string; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(file, words, { env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    const keepEnd = (chunk: Buffer) => {
      output = (output + chunk.toString('utf8')).slice(-MAX_OUTPUT)
    }
    child.stdout.on('data', keepEnd)
    child.stderr.on('data', keepEnd)
    const kill = () => {
      if (child.pid !== undefined) killGroup(child.pid)
    }
    signal.addEventListener('abort', kill, { once: true })
    if (signal.aborted) kill()
    child.on('error', (error) => {
      signal.removeEventListener('abort', kill)
      reject(new Error(`${file} cannot be started: ${(error as NodeJS.ErrnoException).code ?? error.message}`))
    })
    // Not 'close': a child that it left in the background may hold its output for ever.
    child.on('exit', (code, killedBy) => {
      signal.removeEventListener('abort', kill)
      child.stdout.destroy()
      child.stderr.destroy()
      resolve({ code: code ?? killedBy ?? 'unknown', output: output.replace(/\p{C}+/gu, ' ').trim() })
    })
  })
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}
