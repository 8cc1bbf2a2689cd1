/** A program that does one thing and ends: git, a compiler, openssl. */

import { spawn } from 'node:child_process'

/**
 * @param signal Ends the program and what it has started; when they are gone, and write nowhere any more, it throws its reason.
 * @returns what the program wrote to standard output, trimmed. @throws Error with all it wrote when it fails.
 */
export async function outputOf(
  file: string,
  args: readonly string[],
  cwd: string,
  signal: AbortSignal,
  env: NodeJS.ProcessEnv = process.env,
): Promise<string> {
  signal.throwIfAborted()
  // A process group of its own: it can be ended as a whole, and Ctrl-C is for the bench.
  const child = spawn(file, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  const end = () => child.pid !== undefined && killIfThere(-child.pid, 'SIGTERM')
  signal.addEventListener('abort', end)
  let [output, everything] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
    everything += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    everything += text
  })
  try {
    const code = await new Promise((resolve, reject) => {
      child.once('error', reject)
      // All that hold the pipes have ended then.
      child.once('close', resolve)
    })
    if (code === 0) return output.trim()
  } finally {
    signal.removeEventListener('abort', end)
  }
  signal.throwIfAborted()
  throw new Error(`${file} ${args.join(' ')} failed in ${cwd}:\n${everything.trim()}`)
}

/** @param pid Of a process, or minus that of a process group. */
export function killIfThere(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
