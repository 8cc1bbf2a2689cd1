/**
 * Encrypts a new key file: EncryptedPrivateKeyInfo (RFC 5958 §3) by PBES2 (RFC 8018 §6.2) with
 * PBKDF2 (§5.2) and AES-256-CBC. Node's own export uses only 2,048 iterations. A root key lies
 * offline for ten years, and only its passphrase protects a stolen file.
 */

import { createCipheriv, type KeyObject, pbkdf2, randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import { TAG } from '../../src/shared/pki/der.ts'
import { encodeDer } from '../../src/shared/pki/der-writer.ts'
import { encodePem } from '../../src/shared/pki/pem.ts'

/**
 * OWASP's Password Storage Cheat Sheet requires this of PBKDF2 with HMAC-SHA-256. The signer pays
 * the cost once, when it starts.
 */
const ITERATIONS = 600_000
const SALT_BYTES = 16
const KEY_BYTES = 32
const IV_BYTES = 16

const OID = {
  pbes2: '1.2.840.113549.1.5.13',
  pbkdf2: '1.2.840.113549.1.5.12',
  hmacWithSha256: '1.2.840.113549.2.9',
  aes256Cbc: '2.16.840.1.101.3.4.1.42',
} as const

const NOTHING = Buffer.alloc(0)
const deriveKey = promisify(pbkdf2)

/** Returns PEM. Wipes its own buffers with the plain key; the caller owns the KeyObject. */
export async function encryptKey(privateKey: KeyObject, passphrase: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES)
  const iv = randomBytes(IV_BYTES)
  const key = await deriveKey(passphrase, salt, ITERATIONS, KEY_BYTES, 'sha256')
  const plain = privateKey.export({ format: 'der', type: 'pkcs8' })
  try {
    const cipher = createCipheriv('aes-256-cbc', key, iv)
    const encrypted = Buffer.concat([cipher.update(plain), cipher.final()])
    return encodePem('ENCRYPTED PRIVATE KEY', encryptedKeyInfo(salt, iv, encrypted))
  } finally {
    key.fill(0)
    plain.fill(0)
  }
}

function encryptedKeyInfo(salt: Buffer, iv: Buffer, encrypted: Buffer): Buffer {
  return encodeDer((writer) => {
    const algorithm = (oid: string, writeParameters: () => void) =>
      writer.sequence(() => {
        writer.oid(oid)
        writeParameters()
      })
    const derivation = () => {
      writer.octetString(salt)
      writer.unsignedInteger(bigEndian(ITERATIONS))
      // RFC 8018 appendix B.1.2: the parameters are NULL, not absent.
      algorithm(OID.hmacWithSha256, () => writer.primitive(TAG.null, NOTHING))
    }
    writer.sequence(() => {
      algorithm(OID.pbes2, () =>
        writer.sequence(() => {
          algorithm(OID.pbkdf2, () => writer.sequence(derivation))
          algorithm(OID.aes256Cbc, () => writer.octetString(iv))
        }),
      )
      writer.octetString(encrypted)
    })
  })
}

function bigEndian(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
