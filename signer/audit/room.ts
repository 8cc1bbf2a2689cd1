/** Tells whether a write failed on a full disk, and whether there is room again. */

import { open, rm } from 'node:fs/promises'
import { MAX_GROUP_BYTES } from './tail.ts'

/** A full disk (ENOSPC) or a used-up quota (EDQUOT). Both conditions pass. */
const NO_ROOM: readonly unknown[] = ['ENOSPC', 'EDQUOT']

export const isWantOfRoom = (error: unknown): boolean => NO_ROOM.includes((error as NodeJS.ErrnoException).code)

/** Writes a trial file of one full group: the rest of a block would hold only a few lines. */
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
    // The next try writes over a trial that stayed.
    await rm(trial, { force: true }).catch(() => undefined)
  }
}
