/** Writes a whole file so that a crash leaves the old content or the new one. */

import { rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { syncFolder } from '../src/shared/lib/files.ts'

/** Durable when it resolves. Mode 0640. */
export async function replaceFile(file: string, content: string | Uint8Array): Promise<void> {
  const beside = `${file}.new`
  try {
    await writeFile(beside, content, { mode: 0o640, flush: true })
  } catch (error) {
    // A part of it would take room on a disk that is full. The error that counts is the first one.
    await rm(beside, { force: true }).catch(() => undefined)
    throw error
  }
  await rename(beside, file)
  await syncFolder(path.dirname(file))
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
