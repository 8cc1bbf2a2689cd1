/**
 * One signer on an audit chain: flock(2) on a file beside it. The kernel frees it when the process ends, however it ends.
 * Node.js has no flock(2), so flock(1) asks: the lock belongs to the open file that both have, and stays with this process.
 */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, realpathSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { openForAppending } from './append-file.ts'

/** A former signer has 5 s to end, as when its service was killed. */
const [TRIES, RETRY_MS] = [20, 250]
const IS_TAKEN = 1

/**
 * @returns false where there is no flock(1), or the file system has no locks: then the first line of another stops the chain
 * @throws Error in a sentence while another process has the chain
 */
export async function lockChain(file: string): Promise<boolean> {
  const fd = openForAppending(`${existsSync(file) ? realpathSync(file) : file}.lock`)
  for (let tries = 1; tries <= TRIES; tries++) {
    const child = spawn('flock', ['-n', '3'], { stdio: ['ignore', 'ignore', 'ignore', fd] })
    const [code] = await once(child, 'exit').catch(() => [])
    if (code !== IS_TAKEN) return code === 0
    await sleep(RETRY_MS)
  }
  closeSync(fd)
  throw new Error(`another signer works on the audit chain ${file}; a second one would stop both`)
}
