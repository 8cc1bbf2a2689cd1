/**
 * Submits issued certificates to a transparency log (RFC 6962 §4.1), each log on its own.
 *
 * 1. the chain comes from the database
 * 2. the log's answer is checked with its key; a wrong signature is a dead letter
 * 3. the timestamp is recorded, with the event `ct.submission`
 */

import type { KeyObject } from 'node:crypto'
import type { CommonQueryMethods, DatabasePool } from 'slonik'
import * as z from 'zod/v4'
import type { EventData } from '../domain/event.ts'
import { isSignedBy, parseSignedTimestamp } from '../shared/pki/sct.ts'
import { rowsOf, sql } from '../store/slonik.ts'
import { ReceiverBusy, RefusedForGood, withBackoff } from './backoff.ts'
import type { ExternalConsumer } from './consumer.ts'
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
