/**
 * Turns an accepted request into a recorded signature: rate limit, key, audit chain, in this order.
 */

import type { AuditChain, LinePlace } from './audit/chain.ts'
import type { AuditRecord } from './audit/line.ts'
import type { Counters } from './counters.ts'
import { type Issuer, inTurn, type TokenBucket } from './issuers.ts'
import { SignerRefusal, SignerUnavailable } from './protocol/signer-errors.ts'
import type { SignerRecord } from './records/record.ts'
import type { RecordFiles } from './records/record-files.ts'
import type { RecordedRevocations } from './records/recorded-revocations.ts'
import type { Signed, SignedSerials } from './signed-serials.ts'

export interface SigningService {
  /** A reread of the configuration replaces the whole map. */
  issuers: ReadonlyMap<string, Issuer>
  audit: AuditChain<SignerRecord>
  records: RecordFiles
  recorded: RecordedRevocations
  serials: SignedSerials
  counters: Counters
}

/** @throws SignerRefusal */
export function requireIssuer({ issuers }: SigningService, id: string): Issuer {
  const issuer = issuers.get(id)
  if (!issuer) throw new SignerRefusal(`there is no issuer ${id}`)
  return issuer
}

interface Signing {
  issuer: Issuer
  /** Makes the signature with `issuer.key`. */
  make(): Buffer | Promise<Buffer>
  record: Omit<AuditRecord, 'issuer'>
  /** Makes the record that is written with the audit line; a test signature has none. */
  describe?(signature: Buffer): (place: LinePlace) => SignerRecord
  /** The issuer's where absent. */
  bucket?: TokenBucket | undefined
  /** In the time of `performance.now()`. */
  deadlineAt: number
}

/**
 * Calls `make`, and returns the signature once its audit line is on disk.
 * @throws SignerUnavailable: too many per second, too late, audit chain down
 */
export async function signAndRecord(
  { audit, counters }: SigningService,
  { issuer, bucket = issuer.bucket, make, record, describe, deadlineAt }: Signing,
): Promise<Signed> {
  // Checked first: without the chain, the key would make signatures that cannot be recorded.
  if (audit.failure) throw new SignerUnavailable(audit.failure.message)
  if (bucket && !bucket.take(performance.now())) {
    throw new SignerUnavailable(`issuer ${issuer.id} has reached its signatures per second`)
  }
  const { key, queue } = issuer
  // A key that signs in place, in a few microseconds, has no queue.
  const made = queue ? inTurn(queue, waitUntil(key, deadlineAt), make) : make()
  // Await only a promise: awaiting a Buffer would let all other requests of this read sign before
  // the audit line is written.
  const signature = Buffer.isBuffer(made) ? made : await made
  const sequence = await audit.append({ ...record, issuer: issuer.id }, describe?.(signature))
  counters.signatures += 1
  return { signature, sequence }
}

function waitUntil({ maxWaitMs }: Issuer['key'], deadlineAt: number): number {
  return maxWaitMs === undefined ? deadlineAt : Math.min(deadlineAt, performance.now() + maxWaitMs)
}
