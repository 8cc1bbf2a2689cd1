/**
 * From an accepted request to a signature that may leave: rate, key, audit chain, in this order.
 */

import type { AuditChain } from './audit/chain.ts'
import type { AuditRecord } from './audit/line.ts'
import type { Counters } from './counters.ts'
import type { Issuer } from './issuers.ts'
import { SignerRefusal, SignerUnavailable } from './protocol.ts'
import type { SignedSerials } from './signed-serials.ts'

export interface SigningService {
  /** Replaced as a whole when the configuration is read again. */
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
 * Has `make` sign and returns the signature once its line is on disk.
 * @throws SignerUnavailable: too many per second, too late, audit chain down.
 */
export async function signAndRecord(
  { audit, counters }: SigningService,
  { issuer, make, record, deadlineAt }: Signing,
): Promise<Buffer> {
  // Before the key is used: with the chain down, signatures would be made that cannot be recorded.
  if (audit.failure) throw new SignerUnavailable(audit.failure.message)
  if (issuer.bucket && !issuer.bucket.take(performance.now())) {
    throw new SignerUnavailable(`issuer ${issuer.id} has reached its signatures per second`)
  }
  const { key, queue } = issuer
  const made = queue ? queue.run(waitUntil(key, deadlineAt), make) : make()
  // No `await` for what is there already: it would put off the audit line until
  // the whole chunk has been signed.
  const signature = Buffer.isBuffer(made) ? made : await made
  await audit.append({ ...record, issuer: issuer.id })
  counters.signatures += 1
  return signature
}

function waitUntil({ maxWaitMs }: Issuer['key'], deadlineAt: number): number {
  return maxWaitMs === undefined ? deadlineAt : Math.min(deadlineAt, performance.now() + maxWaitMs)
}
