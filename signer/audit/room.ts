/** Whether a write failed for want of room, and whether there is room again. */

import { open, rm } from 'node:fs/promises'
import { MAX_GROUP_BYTES } from './tail.ts'

/** A disk that is full (ENOSPC), and a quota that is used up (EDQUOT). Both pass. */
const NO_ROOM: readonly unknown[] = ['ENOSPC', 'EDQUOT']

export const isWantOfRoom = (error: unknown): boolean => NO_ROOM.includes((error as NodeJS.ErrnoException).code)

/** Tried with as much as one group has: what is left of a block would take a few lines only. */
export async function hasRoom(file: string): Promise<boolean> {
  const trial = `${file}.room`
  try {
    const handle = await open(trial, 'w', 0o640)
    try {
      await handle.writeFile(Buffer.alloc(MAX_GROUP_BYTES))
      await handle.sync()
    } finally {
      await handle.close()
    }
    return true
  } catch {
    return false
  } finally {
    await rm(trial, { force: true }).catch(() => undefined)
  }
}
