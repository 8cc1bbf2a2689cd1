/**
 * The number of the newest CRL that each key has signed, on disk before the signature leaves:
 * whatever the front asks for, before and after a restart, numbers only rise (RFC 5280 §5.2.3).
 *
 * A small JSON file, replaced as a whole: written beside, synced, renamed, its folder synced.
 */

import { readFileSync } from 'node:fs'
import { open, rename } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod/v4'
import { SignerRefusal, SignerUnavailable } from './protocol.ts'

/** Key identifier → number, both in lower-case hexadecimal. */
const Numbers = z.record(z.string().regex(/^(?:[0-9a-f]{2})+$/), z.string().regex(/^[0-9a-f]{1,40}$/))

export interface CrlNumbers {
  /**
   * Takes `number` for a list of this key; it is used up then, whatever becomes of the list.
   * @throws SignerRefusal when it is not above the newest, SignerUnavailable
   * when it cannot be written down
   */
  take(keyIdentifier: Buffer, number: bigint): Promise<void>
}

/** @throws Error in one sentence when the file is there and cannot be read: numbers could fall */
export function openCrlNumbers(file: string): CrlNumbers {
  const numbers = readNumbers(file)
  let writing: Promise<void> = Promise.resolve()

  return {
    async take(keyIdentifier, number) {
      const key = keyIdentifier.toString('hex')
      const newest = BigInt(`0x${numbers.get(key) ?? '0'}`)
      if (number <= newest)
        throw new SignerRefusal(`CRL number ${number} is not above ${newest}, the newest one signed`)
      // In memory at once, so that of two lists with one number the second is refused.
      numbers.set(key, number.toString(16))
      const text = JSON.stringify(Object.fromEntries(numbers))
      // A write that failed was its own caller's; this one writes all numbers anew.
      writing = writing.catch(() => undefined).then(() => replaceFile(file, text))
      try {
        await writing
      } catch (cause) {
        throw new SignerUnavailable('the CRL number could not be written down', { cause })
      }
    },
  }
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

async function replaceFile(file: string, text: string): Promise<void> {
  const beside = `${file}.new`
  const handle = await open(beside, 'w', 0o640)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await rename(beside, file)
  const folder = await open(path.dirname(file), 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
