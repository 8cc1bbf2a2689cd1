/** A program that resolves names by an /etc/hosts of its own: a mount that nobody else sees. */

import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { skipUnlessAllRequired } from '../requirements.ts'

export function requireMounts(): { skip: string | false } {
  const { status } = spawnSync('unshare', ['--mount', 'true'], { stdio: 'ignore' })
  if (status === 0) return { skip: false }
  return skipUnlessAllRequired('mount namespaces cannot be made here; to enable: run as root')
}

/** Name → address. */
export type Hosts = Readonly<Record<string, string>>

/** @param hostsFile is written, and has to stay */
export function withHosts(
  hostsFile: string,
  hosts: Hosts,
  program: string,
  args: readonly string[],
): [string, string[]] {
  const lines = Object.entries({ localhost: '127.0.0.1', ...hosts }).map(([name, address]) => `${address} ${name}\n`)
  writeFileSync(hostsFile, lines.join(''))
  const script = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'
  return ['unshare', ['--mount', 'sh', '-c', script, 'sh', hostsFile, program, ...args]]
}
