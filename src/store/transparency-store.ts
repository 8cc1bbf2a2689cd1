/** SQL of certificate transparency: the chain that is submitted, and what a log has signed. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import type { EventData } from '../domain/event.ts'
import { rowsOf, sql } from './slonik.ts'

const Chain = z.object({ der: z.instanceof(Buffer), chain: z.array(z.instanceof(Buffer)) })

/** @returns the certificate and its issuers upwards; undefined when there is no such certificate */
export async function findSubmittedChain(
  db: CommonQueryMethods,
  certificateId: string,
): Promise<readonly [Buffer, ...Buffer[]] | undefined> {
  const row = await db.maybeOne(rowsOf(Chain)`
    SELECT c.der, i.chain FROM certificates c JOIN issuers i ON i.fingerprint = c.issuer_fingerprint
     WHERE c.id = ${certificateId}`)
  return row ? [row.der, ...row.chain] : undefined
}

export interface RecordedTimestamp {
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
