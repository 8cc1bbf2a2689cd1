/** Files and folders that outlive a program: locks that the kernel frees, and names that are on disk. */

import { spawnSync } from 'node:child_process'
import { open } from 'node:fs/promises'

const IS_TAKEN = 1

/**
 * Takes flock(2): the kernel frees it when the process ends, however it ends, and other containers see it, too.
 * Node.js has none, so flock(1) asks: the lock belongs to the open file that both have, and stays with this process.
 *
 * @returns false while another process has it; undefined where there is no flock(1), or the file system has no locks
 */
export function tryLock(fd: number): boolean | undefined {
  const { status } = spawnSync('flock', ['-n', '3'], { stdio: ['ignore', 'ignore', 'ignore', fd] })
  return status === IS_TAKEN ? false : status === 0 || undefined
}

export const isLocked = (file: string): boolean => spawnSync('flock', ['-n', file, 'true']).status === IS_TAKEN

/** Puts the names in a folder on disk, so that a new file outlives a loss of power. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder)
  await handle.sync().finally(() => handle.close())
}
