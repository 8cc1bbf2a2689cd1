/**
 * Submits issued certificates to a transparency log (RFC 6962 §4.1), each log on its own.
 *
 * 1. the chain comes from the database
 * 2. the log's answer is checked with its key; a wrong signature is a dead letter
 * 3. the timestamp is recorded, with the event `ct.submission`
 */

import type { KeyObject } from 'node:crypto'
import type { DatabasePool } from 'slonik'
import { isSignedBy, parseSignedTimestamp } from '../shared/pki/sct.ts'
import { findSubmittedChain, recordTimestamp } from '../store/transparency-store.ts'
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
