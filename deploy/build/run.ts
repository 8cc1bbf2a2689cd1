/** Runs a program of the system to its end. */

import { spawnSync } from 'node:child_process'

const MAX_BYTES = 2 ** 30

/** @throws Error with the end of what the program said */
export function bytesOf(file: string, args: readonly string[], cwd: string): Buffer {
  const { status, error, stdout, stderr } = spawnSync(file, args, { cwd, maxBuffer: MAX_BYTES })
  if (status === 0) return stdout
  const said = error?.message ?? `${stdout}${stderr}`.trim().split('\n').slice(-20).join('\n')
  throw new Error(`${file} ${args.join(' ')} failed:\n${said}`)
}

export const run = (file: string, args: readonly string[], cwd: string): string => String(bytesOf(file, args, cwd))

/** An archive of the same files is the same byte for byte. */
export const reproducible = (epoch: number): string[] => [
  ...['--create', '--format=gnu', '--sort=name', `--mtime=@${epoch}`],
  ...['--owner=0', '--group=0', '--numeric-owner', '--mode=u+rw,go=rX'],
]
