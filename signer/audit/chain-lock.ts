/** One signer on an audit chain: a lock on a file beside it. */

import { closeSync, existsSync, realpathSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { tryLock } from '../../src/shared/lib/files.ts'
import { openForAppending } from './append-file.ts'

/** A former signer has 5 s to end, as when its service was killed. */
const [TRIES, RETRY_MS] = [20, 250]

/**
 * @returns false where there is no flock(1), or the file system has no locks: then the first line of another stops the chain
 * @throws Error in a sentence while another process has the chain
 */
export async function lockChain(file: string): Promise<boolean> {
  const fd = openForAppending(`${existsSync(file) ? realpathSync(file) : file}.lock`)
  for (let tries = 1; tries <= TRIES; tries++) {
    const isOurs = tryLock(fd)
    if (isOurs !== false) return isOurs === true
    await sleep(RETRY_MS)
  }
  closeSync(fd)
  throw new Error(`another signer works on the audit chain ${file}; a second one would stop both`)
}
