/**
 * Keeps the number of each key's newest CRL, on disk before the signature leaves. Numbers only rise
 * (RFC 5280 §5.2.3), across restarts and for any request of the front.
 *
 * The store is a small JSON file. Each change writes a new file, syncs and renames it, and syncs
 * the folder.
 */

import { readFileSync } from 'node:fs'
import * as z from 'zod/v4'
import { MAX_CRL_NUMBER_LEAD_SECONDS } from '../src/shared/pki/tbs-cert-list.ts'
import { SignerRefusal, SignerUnavailable } from './protocol/signer-errors.ts'
import { replacer } from './replace-file.ts'

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
  const numbers = readNumbers(file)
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

/** From the newest one on as well: after a clock that was ahead, numbers go on rising from there. */
function requireNear(number: bigint, newest: bigint): void {
  const seconds = BigInt(Math.floor(Date.now() / 1000))
  const near = newest > seconds ? newest : seconds
  if (number > near + BigInt(MAX_CRL_NUMBER_LEAD_SECONDS))
    throw new SignerRefusal(
      `CRL number ${number} is more than ${MAX_CRL_NUMBER_LEAD_SECONDS} above ${near}, the newest one signed or the clock of the signer`,
    )
}

function readNumbers(file: string): Map<string, string> {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return new Map()
    throw new Error(`${file}: cannot be read (${(error as NodeJS.ErrnoException).code})`, { cause: error })
  }
  try {
    return new Map(Object.entries(Numbers.parse(JSON.parse(text))))
  } catch (cause) {
    throw new Error(`${file}: is not the file of CRL numbers that was written there`, { cause })
  }
}
