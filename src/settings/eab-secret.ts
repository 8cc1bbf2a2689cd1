/**
 * The secret that seals the HMAC keys of binding credentials: a file, or `admin_api.token_secret`.
 */

import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { Config } from '../config/schema.ts'
import { describeFileError } from '../shared/lib/file-error.ts'
import { createSecretBox, type SecretBox, secretIn, withoutLineEnds } from '../shared/lib/secret-box.ts'

/** A shorter file is a mistake, such as a truncated file or a password. */
const MIN_EAB_SECRET_BYTES = 32

/**
 * Seals the HMAC keys of binding credentials; undefined when no secret is configured.
 *
 * @throws Error when the file cannot be read or is too short
 */
export function eabSecretBox({ acme, admin_api }: Config): SecretBox | undefined {
  const secret = acme.eab_key_file === null ? admin_api.token_secret : namedEabSecret(acme.eab_key_file)
  return secret === null ? undefined : boxOf(secret)
}

/** The box over a secret that is not in the configuration. */
export const boxOf = (secret: string | Buffer) => createSecretBox(secret, 'chancery: HMAC keys of binding credentials')

/**
 * Boxes of a former secret: with every byte, and as a text without the line end that an editor
 * leaves.
 *
 * @throws Error in one sentence when the file cannot be read or is empty
 */
export function formerEabBoxes(file: string): SecretBox[] {
  const whole = readSecretFile(file)
  const line = withoutLineEnds(whole.toString('utf8'))
  if (line === '') throw new Error(`${file} is empty`)
  return [boxOf(whole), boxOf(line)]
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
  const secret = secretIn(readSecretFile(file))
  if (secret.length >= MIN_EAB_SECRET_BYTES) return secret
  throw new Error(`${file} has ${secret.length} bytes; it needs at least ${MIN_EAB_SECRET_BYTES}`)
}

function readSecretFile(file: string): Buffer {
  try {
    return readFileSync(file)
  } catch (cause) {
    throw new Error(`${file}: cannot be read: ${describeFileError(cause)}`, { cause })
  }
}
