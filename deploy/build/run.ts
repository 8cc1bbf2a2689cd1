/** Runs a program of the system to its end. */

import { spawnSync } from 'node:child_process'

/** @throws Error with the end of what the program said */
export function run(file: string, args: readonly string[], cwd: string): string {
  const { status, error, stdout, stderr } = spawnSync(file, args, { cwd, encoding: 'utf8', maxBuffer: 1 << 26 })
  if (status === 0) return stdout
  const said = error?.message ?? `${stdout}${stderr}`.trim().split('\n').slice(-20).join('\n')
  throw new Error(`${file} ${args.join(' ')} failed (Debian's debhelper and dpkg-dev are needed):\n${said}`)
}
