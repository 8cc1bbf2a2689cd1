/**
 * The secret that seals the HMAC keys of binding credentials: a file, or `admin_api.token_secret`.
 */

import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { Config } from '../../config/schema.ts'
import { describeFileError } from '../../shared/lib/file-error.ts'
import { createSecretBox, type SecretBox } from '../../shared/lib/secret-box.ts'

/** A shorter file is a mistake, such as a truncated file or a password. */
const MIN_EAB_SECRET_BYTES = 32

/**
 * Seals the HMAC keys of binding credentials; undefined when no secret is configured.
 *
 * @throws Error when the file cannot be read or is too short
 */
export function eabSecretBox({ acme, admin_api }: Config): SecretBox | undefined {
  const secret = acme.eab_key_file === null ? admin_api.token_secret : namedEabSecret(acme.eab_key_file)
  return secret === null ? undefined : createSecretBox(secret, 'chancery: HMAC keys of binding credentials')
}

function namedEabSecret(file: string): Buffer {
  try {
    return readEabSecret(path.resolve(file))
  } catch (cause) {
    throw new Error(`acme.eab_key_file: ${(cause as Error).message}`, { cause })
  }
}

/** @throws Error in one sentence when it cannot be read or is too short */
export function readEabSecret(file: string): Buffer {
  let secret: Buffer
  try {
    secret = readFileSync(file)
  } catch (cause) {
    throw new Error(`${file}: cannot be read: ${describeFileError(cause)}`, { cause })
  }
  if (secret.length >= MIN_EAB_SECRET_BYTES) return secret
  throw new Error(`${file} has ${secret.length} bytes; it needs at least ${MIN_EAB_SECRET_BYTES}`)
}
