/**
 * Submits issued certificates to a transparency log (RFC 6962 §4.1), each log on its own.
 *
 * 1. the chain comes from the database
 * 2. the signed timestamp of the log's answer (§3.2) is checked with its key; a wrong signature is a dead letter
 * 3. the timestamp is recorded, with the event `ct.submission`
 */

import { createHash, type KeyObject, verify } from 'node:crypto'
import type { CommonQueryMethods, DatabasePool } from 'slonik'
import * as z from 'zod/v4'
import type { EventData } from '../domain/event.ts'
import { rowsOf, sql } from '../store/slonik.ts'
import { type ExternalConsumer, ReceiverBusy, RefusedForGood, withBackoff } from './consumer.ts'
import { jsonPoster, type PostAnswer } from './http-post.ts'

export interface TransparencyLog {
  /** It has no slash at its end. */
  url: string
  /** When undefined, what the log answers is recorded without a check. */
  key: KeyObject | undefined
  timeoutMs: number
}

const CONCURRENCY = 8
/** A log's reason is stored for the operator. */
const MAX_REASON = 200

export function transparencyConsumer({ url, key, timeoutMs }: TransparencyLog, db: DatabasePool): ExternalConsumer {
  const post = jsonPoster('the log', `${url}/ct/v1/add-chain`)
  return withBackoff({
    name: `ct-submission ${url}`,
    kinds: ['certificate.issuance'],
    concurrency: CONCURRENCY,
    timeoutMs,
    async deliver([{ subject: certificateId }], signal) {
      const chain = await findSubmittedChain(db, certificateId)
      if (!chain) throw new RefusedForGood('the certificate is not in the database')
      const body = JSON.stringify({ chain: chain.map((der) => der.toString('base64')) })
      const sct = timestampOf(await post(body, signal))
      if (key && !isSignedBy(key, chain[0], sct)) throw new RefusedForGood('the log’s signature is wrong')
      await recordTimestamp(db, { certificateId, logUrl: url, sct, verified: key !== undefined })
    },
  })
}

function timestampOf({ status, retryAfter, text }: PostAnswer) {
  if (status === 200) {
    const sct = parseSignedTimestamp(text)
    if (!sct) throw new RefusedForGood('the log’s answer is no signed timestamp')
    return sct
  }
  const isLater = status >= 500 || status === 408 || status === 429
  const message = `the log answered ${status}`
  throw isLater ? new ReceiverBusy(message, retryAfter) : new RefusedForGood(`${message}: ${text.slice(0, MAX_REASON)}`)
}

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
function parseSignedTimestamp(json: string): SignedTimestamp | undefined {
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
function isSignedBy(key: KeyObject, certificate: Buffer, sct: SignedTimestamp): boolean {
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

const Chain = z.object({ der: z.instanceof(Buffer), chain: z.array(z.instanceof(Buffer)) })

/** @returns the certificate and its issuers upwards; undefined when there is no such certificate */
async function findSubmittedChain(
  db: CommonQueryMethods,
  certificateId: string,
): Promise<readonly [Buffer, ...Buffer[]] | undefined> {
  const row = await db.maybeOne(rowsOf(Chain)`
    SELECT c.der, i.chain FROM certificates c JOIN issuers i ON i.fingerprint = c.issuer_fingerprint
     WHERE c.id = ${certificateId}`)
  return row ? [row.der, ...row.chain] : undefined
}

interface RecordedTimestamp {
  certificateId: string
  logUrl: string
  /** Times in milliseconds since 1970. */
  sct: { logId: Buffer; timestamp: number; extensions: Buffer; signature: Buffer }
  verified: boolean
}

const None = z.object({})

/** Its event is emitted once for a certificate and a log. */
export async function recordTimestamp(
  db: CommonQueryMethods,
  { certificateId, logUrl, sct, verified }: RecordedTimestamp,
): Promise<void> {
  const { logId, timestamp, extensions, signature } = sct
  const told: Pick<EventData<'ct.submission'>, 'ct_log_url' | 'sct'> = {
    ct_log_url: logUrl,
    sct: {
      id: logId.toString('base64'),
      timestamp,
      extensions: extensions.toString('base64'),
      signature: signature.toString('base64'),
      verified,
    },
  }
  await db.query(rowsOf(None)`
    WITH added AS (
      INSERT INTO signed_certificate_timestamps
        (certificate_id, log_url, log_id, signed_at, extensions, signature, verified)
      VALUES (${certificateId}, ${logUrl}, ${sql.binary(logId)}, to_timestamp(${timestamp}::float8 / 1000),
        ${sql.binary(extensions)}, ${sql.binary(signature)}, ${verified})
      ON CONFLICT DO NOTHING RETURNING certificate_id
    )
    SELECT emit_event('ct.submission', c.id::text, c.account_id,
                      ${JSON.stringify(told)}::jsonb || jsonb_build_object('row', jsonb_build_object('serial_number', c.serial_number)))
      FROM added a JOIN certificates c ON c.id = a.certificate_id`)
}
