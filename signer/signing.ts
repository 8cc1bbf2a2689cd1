/**
 * Turns an accepted request into a recorded signature: rate limit, key, audit chain, in this order.
 */

import { LruMap } from '../src/shared/lib/caching.ts'
import type { AuditChain, LinePlace } from './audit/chain.ts'
import type { AuditLine, AuditRecord } from './audit/line.ts'
import type { Counters } from './counters.ts'
import { type Issuer, inTurn } from './issuers.ts'
import { SignerRefusal, SignerUnavailable } from './protocol/signer-errors.ts'
import type { SignerRecord } from './records/record.ts'
import type { RecordFiles } from './records/record-files.ts'

/** About 20 MB. */
const REMEMBERED = 65_536

/**
 * Remembers serial numbers of the newest certificates, so that no number is signed with two
 * contents. See docs/decisions/serial-numbers-the-signer-remembers.md.
 */
export class SignedSerials {
  readonly #contents: LruMap<string, string>

  constructor(remembered = REMEMBERED) {
    this.#contents = new LruMap(remembered)
  }

  /**
   * Call it before using the key. A request may repeat its content, as after a lost connection.
   * @param sha256 hash of the TBSCertificate
   * @throws SignerRefusal
   */
  claim(issuer: string, serial: string, sha256: string): void {
    const key = `${issuer} ${serial}`
    const signed = this.#contents.get(key)
    if (signed !== undefined && signed !== sha256)
      throw new SignerRefusal(`the serial number ${serial} has been signed with other content`)
    if (signed === undefined) this.#contents.set(key, sha256)
  }

  /** Restores the memory from the newest audit lines, at the start. */
  recall(lines: readonly AuditLine[]): void {
    for (const { method, issuer, serial, sha256 } of lines)
      if (method === 'signCertificate') this.#contents.set(`${issuer} ${serial}`, sha256)
  }
}

export interface SigningService {
  /** A reread of the configuration replaces the whole map. */
  issuers: ReadonlyMap<string, Issuer>
  audit: AuditChain<SignerRecord>
  records: RecordFiles
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
  /** What goes into the record files with the audit line; nothing for a test signature. */
  describe?(signature: Buffer): (place: LinePlace) => SignerRecord
  /** In the time of `performance.now()`. */
  deadlineAt: number
}

/**
 * Calls `make`, and returns the signature once its audit line is on disk.
 * @throws SignerUnavailable: too many per second, too late, audit chain down
 */
export async function signAndRecord(
  { audit, counters }: SigningService,
  { issuer, make, record, describe, deadlineAt }: Signing,
): Promise<Buffer> {
  // Checked first: without the chain, the key would make signatures that cannot be recorded.
  if (audit.failure) throw new SignerUnavailable(audit.failure.message)
  if (issuer.bucket && !issuer.bucket.take(performance.now())) {
    throw new SignerUnavailable(`issuer ${issuer.id} has reached its signatures per second`)
  }
  const { key, queue } = issuer
  // A key that signs in place, in a few microseconds, has no queue.
  const made = queue ? inTurn(queue, waitUntil(key, deadlineAt), make) : make()
  // Await only a promise: awaiting a Buffer would let all other requests of this read sign before
  // the audit line is written.
  const signature = Buffer.isBuffer(made) ? made : await made
  await audit.append({ ...record, issuer: issuer.id }, describe?.(signature))
  counters.signatures += 1
  return signature
}

function waitUntil({ maxWaitMs }: Issuer['key'], deadlineAt: number): number {
  return maxWaitMs === undefined ? deadlineAt : Math.min(deadlineAt, performance.now() + maxWaitMs)
}
