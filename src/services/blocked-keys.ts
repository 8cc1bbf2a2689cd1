/**
 * Loads `security.blocked_keys_file` at the start and at SIGHUP. The database keeps these keys
 * beside those blocked by revocations.
 */

import { createReadStream } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { describeFileError } from '../shared/lib/errors.ts'
import { replaceListedKeys } from '../store/blocked-key-list.ts'
import type { Database } from '../store/database.ts'

/** Debian's weak keys of the accepted sizes number about 300,000. */
const MAX_KEYS = 1_000_000
/** Bounds memory: a line without an end would be read as a whole. */
const MAX_FILE_BYTES = 256 * 1024 * 1024
const HASH = /^[0-9a-f]{64}$/

interface ListedKeys {
  keys: number
  added: number
  removed: number
}

/** @throws Error in one sentence that begins with the configuration key */
export async function loadBlockedKeys(file: string, db: Database): Promise<ListedKeys> {
  const absolute = path.resolve(file)
  let hashes: Set<string>
  try {
    hashes = await readBlockedKeys(absolute)
  } catch (cause) {
    throw new Error(`security.blocked_keys_file: ${absolute}: ${(cause as Error).message}`, { cause })
  }
  // Counted first, because the comparison with the stored keys empties the set.
  const keys = hashes.size
  return { keys, ...(await replaceListedKeys(db, hashes)) }
}

/**
 * Reads one SHA-256 of a SubjectPublicKeyInfo per line, in hexadecimal; `#` begins a comment.
 *
 * @throws Error in one sentence
 */
export async function readBlockedKeys(file: string): Promise<Set<string>> {
  const hashes = new Set<string>()
  const input = createReadStream(file, { encoding: 'utf8', end: MAX_FILE_BYTES })
  let number = 0
  try {
    for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
      number += 1
      const hash = line.replace(/#.*/, '').trim().toLowerCase()
      if (hash === '') continue
      if (!HASH.test(hash)) throw new Error(`line ${number} is no SHA-256 in 64 hexadecimal digits`)
      if (hashes.size === MAX_KEYS && !hashes.has(hash)) throw new Error(`has more than ${MAX_KEYS} keys`)
      hashes.add(hash)
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error
    throw new Error(`cannot be read: ${describeFileError(error)}`, { cause: error })
  } finally {
    input.destroy()
  }
  if (input.bytesRead > MAX_FILE_BYTES) throw new Error(`has more than ${MAX_FILE_BYTES} bytes`)
  return hashes
}
