/**
 * flock(2): the kernel frees it when the process ends, however it ends, and other containers see it, too.
 * Node.js has none, so flock(1) asks: the lock belongs to the open file that both have, and stays with this process.
 */

import { spawnSync } from 'node:child_process'

const IS_TAKEN = 1

/** @returns false while another process has it; undefined where there is no flock(1), or the file system has no locks */
export function tryLock(fd: number): boolean | undefined {
  const { status } = spawnSync('flock', ['-n', '3'], { stdio: ['ignore', 'ignore', 'ignore', fd] })
  return status === IS_TAKEN ? false : status === 0 || undefined
}

export const isLocked = (file: string): boolean => spawnSync('flock', ['-n', file, 'true']).status === IS_TAKEN
