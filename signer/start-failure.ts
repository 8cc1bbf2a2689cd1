/** What keeps the daemon from starting, told by the key of the configuration that leads to it. */

import path from 'node:path'

/** For files and folders that are made when missing; others say more in their own words. */
const REASONS: Record<string, (place: string) => string> = {
  ENOENT: (place) => `there is no folder ${path.dirname(place)}; make it, owned by the user of the signer`,
  EACCES: (place) =>
    `permission denied at ${place} for uid ${process.getuid?.()}; the folder has to belong to the user of the signer`,
  EROFS: (place) => `${place} is on a file system that is read-only`,
  ENOTDIR: (place) => `a part of the path ${place} is not a folder`,
}

/** @throws Error in one sentence that begins with `key`, whatever `open` threw */
export async function atKey<T>(key: string, open: () => T | Promise<T>): Promise<T> {
  try {
    return await open()
  } catch (cause) {
    throw new Error(`${key}: ${describe(cause)}`, { cause })
  }
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code, path: place } = (error.cause ?? error) as NodeJS.ErrnoException
  const reason = code === undefined || place === undefined ? undefined : REASONS[code]
  return reason === undefined ? error.message : reason(place!)
}
