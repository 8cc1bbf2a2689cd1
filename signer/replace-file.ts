/** Writes a whole file so that a crash leaves the old content or the new one. */

import { open, rename, rm } from 'node:fs/promises'
import path from 'node:path'

/** Durable when it resolves. Mode 0640. */
export async function replaceFile(file: string, content: string | Uint8Array): Promise<void> {
  const beside = `${file}.new`
  try {
    await writeDurably(beside, content)
  } catch (error) {
    // A part of it would take room on a disk that is full. The error that counts is the first one.
    await rm(beside, { force: true }).catch(() => undefined)
    throw error
  }
  await rename(beside, file)
  const folder = await open(path.dirname(file), 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

async function writeDurably(file: string, content: string | Uint8Array): Promise<void> {
  const handle = await open(file, 'w', 0o640)
  try {
    await handle.writeFile(content)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** @returns a function that replaces the content of `file`, one call after the other */
export function replacer(file: string): (content: string) => Promise<void> {
  let last: Promise<void> = Promise.resolve()
  return (content) => {
    // An earlier failure was reported to its own caller.
    last = last.catch(() => undefined).then(() => replaceFile(file, content))
    return last
  }
}
