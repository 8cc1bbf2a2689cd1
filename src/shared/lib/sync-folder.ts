/** Puts the names in a folder on disk, so that a new file outlives a loss of power. */

import { open } from 'node:fs/promises'

export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder)
  await handle.sync().finally(() => handle.close())
}
