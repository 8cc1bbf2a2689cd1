/** Signed certificate timestamps of transparency logs (RFC 6962 §3.2, §4.1). */

import { createHash, type KeyObject, verify } from 'node:crypto'

interface SignedTimestamp {
  /** SHA-256 of the log's key. */
  logId: Buffer
  /** Milliseconds since 1970. */
  timestamp: number
  extensions: Buffer
  /** The form is TLS 1.2's: hash, algorithm, length, signature. */
  signature: Buffer
}

const LOG_ID_BYTES = 32
const MAX_OPAQUE = 65_535
/** The hash code of TLS 1.2 (RFC 5246 §7.4.1.4.1); RFC 6962 §2.1.4 allows no other hash. */
const SHA256 = 4
const ALGORITHMS: Partial<Record<string, number>> = { rsa: 1, ec: 3 }

/** @returns undefined when it is not an answer to add-chain */
export function parseSignedTimestamp(json: string): SignedTimestamp | undefined {
  const answer = jsonObject(json)
  const { sct_version, timestamp } = answer
  const logId = base64(answer.id)
  const extensions = base64(answer.extensions)
  const signature = base64(answer.signature)
  if (sct_version !== 0 || typeof timestamp !== 'number' || !Number.isSafeInteger(timestamp) || timestamp < 0) return
  if (logId?.length !== LOG_ID_BYTES || !extensions || extensions.length > MAX_OPAQUE || !signature) return
  return { logId, timestamp, extensions, signature }
}

/** Whether the log with this key has signed it for the certificate. */
export function isSignedBy(key: KeyObject, certificate: Buffer, sct: SignedTimestamp): boolean {
  const spki = key.export({ type: 'spki', format: 'der' })
  if (!createHash('sha256').update(spki).digest().equals(sct.logId)) return false
  const { signature } = sct
  const algorithm = ALGORITHMS[key.asymmetricKeyType ?? '']
  if (signature.length < 4 || signature[0] !== SHA256 || signature[1] !== algorithm) return false
  if (signature.readUInt16BE(2) !== signature.length - 4) return false
  return verify('sha256', signedBytes(certificate, sct), key, signature.subarray(4))
}

/** Version 1, certificate_timestamp, the time, x509_entry, the certificate, the extensions. */
function signedBytes(
  certificate: Buffer,
  { timestamp, extensions }: Pick<SignedTimestamp, 'timestamp' | 'extensions'>,
): Buffer {
  const head = Buffer.alloc(15)
  head.writeBigUInt64BE(BigInt(timestamp), 2)
  head.writeUIntBE(certificate.length, 12, 3)
  const length = Buffer.alloc(2)
  length.writeUInt16BE(extensions.length)
  return Buffer.concat([head, certificate, length, extensions])
}

function jsonObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

function base64(value: unknown): Buffer | undefined {
  if (typeof value !== 'string' || !/^[A-Za-z0-9+/]*={0,2}$/.test(value)) return undefined
  return Buffer.from(value, 'base64')
}
