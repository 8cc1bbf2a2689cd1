/**
 * Secrets at rest: AES-256-GCM under a key derived from a configured secret (HKDF-SHA-256, RFC 5869).
 *
 * A sealed value is version ‖ nonce ‖ tag ‖ ciphertext. It opens only under its own name, so values cannot be swapped
 * between rows. Nonces are random: 96 bits are safe for 2^32 values under one key.
 */

import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

const BYTE_ORDER_MARK = '\uFEFF'

export function withoutLineEnds(text: string): string {
  return (text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text).replace(/[\r\n]+$/, '')
}

/** Printable ASCII, as base64 and hexadecimal are. */
const IS_TEXT = /^[\x20-\x7e]*$/

/** The secret in a file. Random bytes stay as they are: one in 128 ends with a line end. */
export function secretIn(file: Buffer): Buffer {
  const text = withoutLineEnds(file.toString('utf8'))
  return IS_TEXT.test(text) ? Buffer.from(text) : file
}

export interface SecretBox {
  seal(plain: Buffer, name: string): Buffer
  /** Undefined for another key, another name, or damaged bytes. */
  open(sealed: Buffer, name: string): Buffer | undefined
}

const VERSION = 1
const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16
const HEAD_BYTES = 1 + NONCE_BYTES + TAG_BYTES

/** @param purpose separates the keys of several boxes over one secret */
export function createSecretBox(secret: string | Buffer, purpose: string): SecretBox {
  const key = Buffer.from(hkdfSync('sha256', secret, '', purpose, KEY_BYTES))
  return {
    seal(plain, name) {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(name))
      const ciphertext = Buffer.concat([cipher.update(plain), cipher.final()])
      return Buffer.concat([Buffer.of(VERSION), nonce, cipher.getAuthTag(), ciphertext])
    },
    open(sealed, name) {
      if (sealed.length < HEAD_BYTES || sealed[0] !== VERSION) return undefined
      const nonce = sealed.subarray(1, 1 + NONCE_BYTES)
      const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES })
      decipher.setAAD(Buffer.from(name)).setAuthTag(sealed.subarray(1 + NONCE_BYTES, HEAD_BYTES))
      try {
        return Buffer.concat([decipher.update(sealed.subarray(HEAD_BYTES)), decipher.final()])
      } catch {
        return undefined // the tag does not fit: wrong key, wrong name or changed bytes
      }
    },
  }
}
