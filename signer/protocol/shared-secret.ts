/** The file with the secret that the daemon and its clients share. */

import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'
import { describeFileError } from '../../src/shared/lib/file-error.ts'
import { secretIn } from '../../src/shared/lib/secret-text.ts'

const MIN_SECRET_BYTES = 32

/**
 * Reads the shared secret. The group may read it, because the two programs may run as two users.
 * @throws Error in one sentence when it is unreadable, short, or open to others than owner and
 * group.
 */
export function readSharedSecret(file: string): Buffer {
  let fd: number
  try {
    fd = openSync(file, 'r')
  } catch (cause) {
    throw new Error(`${file}: cannot be read: ${describeFileError(cause)}`, { cause })
  }
  try {
    const stats = fstatSync(fd)
    if (!stats.isFile()) throw new Error(`${file}: is not a file`)
    const { mode } = stats
    if ((mode & 0o037) !== 0) {
      throw new Error(`${file}: mode ${(mode & 0o777).toString(8)} is too open for a secret; use 600 or 640`)
    }
    const secret = secretIn(readFileSync(fd))
    if (secret.length >= MIN_SECRET_BYTES) return secret
    throw new Error(`${file}: ${secret.length} bytes are too few for a secret; use at least ${MIN_SECRET_BYTES}`)
  } finally {
    closeSync(fd)
  }
}
