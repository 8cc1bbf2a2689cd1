/** Puts the names in a folder on disk: else a loss of power could take that of a new file. */

import { open } from 'node:fs/promises'

export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder)
  await handle.sync().finally(() => handle.close())
}
