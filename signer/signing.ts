/**
 * Turns an accepted request into a recorded signature: rate limit, key, audit chain, in this order.
 */

import type { AuditChain } from './audit/chain.ts'
import type { AuditRecord } from './audit/line.ts'
import type { Counters } from './counters.ts'
import type { Issuer } from './issuers.ts'
import { SignerRefusal, SignerUnavailable } from './protocol/errors.ts'
import type { SignedSerials } from './signed-serials.ts'

export interface SigningService {
  /** A reread of the configuration replaces the whole map. */
  issuers: ReadonlyMap<string, Issuer>
  audit: AuditChain
  serials: SignedSerials
  counters: Counters
}

/** @throws SignerRefusal */
export function requireIssuer({ issuers }: SigningService, id: string): Issuer {
  const issuer = issuers.get(id)
  if (!issuer) throw new SignerRefusal(`there is no issuer ${id}`)
  return issuer
}

export interface Signing {
  issuer: Issuer
  make(): Buffer | Promise<Buffer>
  record: Omit<AuditRecord, 'issuer'>
  /** In the time of `performance.now()`. */
  deadlineAt: number
}

/**
 * Calls `make`, and returns the signature once its audit line is on disk.
 * @throws SignerUnavailable: too many per second, too late, audit chain down
 */
export async function signAndRecord(
  { audit, counters }: SigningService,
  { issuer, make, record, deadlineAt }: Signing,
): Promise<Buffer> {
  // Checked first: without the chain, the key would make signatures that cannot be recorded.
  if (audit.failure) throw new SignerUnavailable(audit.failure.message)
  if (issuer.bucket && !issuer.bucket.take(performance.now())) {
    throw new SignerUnavailable(`issuer ${issuer.id} has reached its signatures per second`)
  }
  const { key, queue } = issuer
  const made = queue ? queue.run(waitUntil(key, deadlineAt), make) : make()
  // Await only real promises: an await would delay the audit line until all requests of one read of the socket are signed.
  const signature = Buffer.isBuffer(made) ? made : await made
  await audit.append({ ...record, issuer: issuer.id })
  counters.signatures += 1
  return signature
}

function waitUntil({ maxWaitMs }: Issuer['key'], deadlineAt: number): number {
  return maxWaitMs === undefined ? deadlineAt : Math.min(deadlineAt, performance.now() + maxWaitMs)
}
