/**
 * Keeps the number of the newest CRL signed for each key and distribution point, on disk before the
 * signature leaves. A service whose database was set back learns from it which lists are in use.
 */

import { readFileSync } from 'node:fs'
import * as z from 'zod/v4'
import { boundedArray } from '../src/shared/lib/bounded.ts'
import { SignerUnavailable } from './protocol/signer-errors.ts'
import { replacer } from './replace-file.ts'

const HEX = /^[0-9a-f]+$/
const MOST = 4096
/** Longer ones are no URLs of this program's service. */
const MAX_URL = 2048
/** It has to fit into one frame. */
const MAX_BYTES = 512 * 1024

const Lists = boundedArray(
  z.strictObject({ key: z.string().regex(HEX), url: z.string().max(MAX_URL), number: z.string().regex(HEX) }),
  MOST,
)
type SignedList = z.infer<typeof Lists>[number]

export interface SignedCrls {
  /** JSON as the file has it; see `recordState` in METHODS. */
  readonly text: string
  /**
   * @param key `issuerKeyOf`
   * @param urls none for a complete list
   * @throws SignerUnavailable when the disk write fails
   */
  note(key: string, urls: readonly string[], number: bigint): Promise<void>
}

/** @throws Error in one sentence when the file exists but is damaged */
export function openSignedCrls(file: string): SignedCrls {
  const lists = new Map(readLists(file).map((list) => [`${list.key} ${list.url}`, list]))
  const replace = replacer(file)
  let text = JSON.stringify([...lists.values()])

  return {
    get text() {
      return text
    },
    async note(key, urls, number) {
      for (const url of urls.length > 0 ? urls : ['']) {
        if (url.length > MAX_URL) continue
        const name = `${key} ${url}`
        const newest = BigInt(`0x${lists.get(name)?.number ?? '0'}`)
        // The newest list at the end: the one that was not signed for longest goes first.
        lists.delete(name)
        lists.set(name, { key, url, number: (number > newest ? number : newest).toString(16) })
      }
      text = textOf(lists)
      try {
        await replace(text)
      } catch (cause) {
        throw new SignerUnavailable('the number of the CRL could not be written down', { cause })
      }
    },
  }
}

/** Drops the oldest when there are too many. */
function textOf(lists: Map<string, SignedList>): string {
  for (;;) {
    const text = JSON.stringify([...lists.values()])
    if (lists.size <= MOST && Buffer.byteLength(text) <= MAX_BYTES) return text
    const [oldest] = lists.keys()
    lists.delete(oldest!)
  }
}

function readLists(file: string): SignedList[] {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw new Error(`${file}: cannot be read (${(error as NodeJS.ErrnoException).code})`, { cause: error })
  }
  try {
    return Lists.parse(JSON.parse(text))
  } catch (cause) {
    throw new Error(`${file}: is not the file of signed CRLs that was written there`, { cause })
  }
}
