/** A disk that can really be full: a small tmpfs in a mount namespace of its own. */

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'

export const canMount = spawnSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'none', '/tmp']).status === 0

export interface SmallDisk {
  /** Reached by way of /proc. */
  folder: string
  stop(): void
}

/** @param folder exists; other processes still see what was there before */
export async function startDisk(folder: string, bytes: number): Promise<SmallDisk> {
  const script = `mount -t tmpfs -o size=${bytes} none ${folder} && echo mounted && read end`
  const child = spawn('unshare', ['-m', 'sh', '-c', script], { stdio: ['pipe', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  return { folder: `/proc/${child.pid}/root${folder}`, stop: () => void child.stdin.end() }
}
