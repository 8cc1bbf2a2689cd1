/**
 * Numbers of CRLs, on disk before the signature leaves. The newest of each key only rises (RFC 5280 §5.2.3), across restarts
 * and for any request of the front. From the newest of each distribution point a service whose database was set back learns
 * which lists are in use.
 *
 * Each of the two is a small JSON file. A change writes a new file, syncs and renames it, and syncs the folder.
 */

import { readFileSync } from 'node:fs'
import * as z from 'zod/v4'
import { boundedArray } from '../src/shared/lib/bounded.ts'
import { replacer } from '../src/shared/lib/files.ts'
import { MAX_CRL_NUMBER_LEAD_SECONDS } from '../src/shared/pki/tbs-cert-list.ts'
import { SignerRefusal, SignerUnavailable } from './protocol/signer-errors.ts'

/** Key identifier → number, both in lower-case hexadecimal. */
const Numbers = z.record(z.string().regex(/^(?:[0-9a-f]{2})+$/), z.string().regex(/^[0-9a-f]{1,40}$/))

export interface CrlNumbers {
  /**
   * Uses up `number` for this key, even if the list then fails.
   * @throws SignerRefusal when it is not above the newest, or too far above it and the clock
   * @throws SignerUnavailable when the disk write fails
   */
  take(keyIdentifier: Buffer, number: bigint): Promise<void>
}

/** @throws Error in one sentence when the file exists but is unreadable: numbers could fall */
export function openCrlNumbers(file: string): CrlNumbers {
  const numbers = new Map(Object.entries(readWritten(file, Numbers, 'CRL numbers') ?? {}))
  const replace = replacer(file)

  return {
    async take(keyIdentifier, number) {
      const key = keyIdentifier.toString('hex')
      const newest = BigInt(`0x${numbers.get(key) ?? '0'}`)
      if (number <= newest)
        throw new SignerRefusal(`CRL number ${number} is not above ${newest}, the newest one signed`)
      requireNear(number, newest)
      // The memory is updated first. So the second of two lists with one number is refused.
      numbers.set(key, number.toString(16))
      try {
        await replace(JSON.stringify(Object.fromEntries(numbers)))
      } catch (cause) {
        throw new SignerUnavailable('the CRL number could not be written down', { cause })
      }
    },
  }
}

/** A clock may have been ahead: the next numbers then rise from the newest one. */
function requireNear(number: bigint, newest: bigint): void {
  const seconds = BigInt(Math.floor(Date.now() / 1000))
  const near = newest > seconds ? newest : seconds
  if (number > near + BigInt(MAX_CRL_NUMBER_LEAD_SECONDS))
    throw new SignerRefusal(
      `CRL number ${number} is more than ${MAX_CRL_NUMBER_LEAD_SECONDS} above ${near}, the newest one signed or the clock of the signer`,
    )
}

/**
 * @param holds what the file holds, for the message
 * @returns undefined when there is no file yet
 * @throws Error in one sentence
 */
function readWritten<T>(file: string, schema: z.ZodType<T>, holds: string): T | undefined {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new Error(`${file}: cannot be read (${(error as NodeJS.ErrnoException).code})`, { cause: error })
  }
  try {
    return schema.parse(JSON.parse(text))
  } catch (cause) {
    throw new Error(`${file}: is not the file of ${holds} that was written there`, { cause })
  }
}

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
  const lists = new Map(readWritten(file, Lists, 'signed CRLs')?.map((list) => [`${list.key} ${list.url}`, list]))
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
