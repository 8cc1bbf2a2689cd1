/**
 * Turns an accepted request into a recorded signature. The order: whether the audit chain can be written, rate limit, key,
 * record and audit line.
 *
 * The serial numbers of the newest certificates are remembered, so that no number is signed with two contents. A repeated
 * request gets the signature that there is (docs/decisions/serial-numbers-the-signer-remembers.md).
 */

import { LruMap } from '../src/shared/lib/caching.ts'
import { messageOf } from '../src/shared/lib/errors.ts'
import { parseCertificate } from '../src/shared/pki/certificate.ts'
import type { AuditChain, LinePlace } from './audit/chain.ts'
import { type AuditLine, type AuditRecord, sha256Hex } from './audit/line.ts'
import { type Issuer, inTurn, issuerKeyOf, type TokenBucket } from './issuers.ts'
import type { MethodName, MethodParams, MethodResult } from './protocol/methods.ts'
import { SignerRefusal, SignerUnavailable } from './protocol/signer-errors.ts'
import {
  type CertificateLine,
  parseRecordLine,
  type RevocationEntry,
  revocationRecord,
  type SignerRecord,
} from './records/record.ts'
import type { RecordFiles } from './records/record-files.ts'
import { lineOf } from './records/record-stream.ts'
import type { RecordedRevocations } from './serial-tables.ts'

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
  describe?(place: LinePlace, signature: Buffer): SignerRecord
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
  const recordAt = describe && ((place: LinePlace) => describe(place, signature))
  const sequence = await audit.append({ ...record, issuer: issuer.id }, recordAt)
  counters.signatures += 1
  return { signature, sequence }
}

function waitUntil({ maxWaitMs }: Issuer['key'], deadlineAt: number): number {
  return maxWaitMs === undefined ? deadlineAt : Math.min(deadlineAt, performance.now() + maxWaitMs)
}

/** Resolves when they are on disk. @throws SignerUnavailable */
export async function noteEntries(
  { audit, recorded }: Pick<SigningService, 'audit' | 'recorded'>,
  { issuer, requester }: { issuer: Issuer; requester: string },
  entries: readonly RevocationEntry[],
): Promise<void> {
  const sha256 = sha256Hex(JSON.stringify(entries))
  const [id, key] = [issuer.id, issuerKeyOf(issuer)]
  const content = { issuer: id, serial: '', names: [`entries:${entries.length}`], sha256, requester }
  await audit.append({ method: 'noteRevocations', ...content }, (place) =>
    revocationRecord(place, { issuer: id, key }, entries),
  )
  recorded.add(key, entries)
}

export interface Counters {
  readonly startedAt: number
  signatures: number
  refusals: number
  /** Requests accepted and not yet answered, over all connections. */
  inFlight: number
  /** Open connections, those still in their handshake included. */
  connections: number
  lastError: { at: string; message: string } | undefined
}

export function createCounters(): Counters {
  return { startedAt: performance.now(), signatures: 0, refusals: 0, inFlight: 0, connections: 0, lastError: undefined }
}

/** A message may quote a client's input, but `health` must still fit into its frame. */
const MAX_MESSAGE_CHARACTERS = 500

/** Remembers the newest failure. Refusals do not count. */
export function noteError(counters: Counters, error: unknown): void {
  counters.lastError = {
    at: new Date().toISOString(),
    message: messageOf(error).slice(0, MAX_MESSAGE_CHARACTERS),
  }
}

interface Call {
  /** When the client stops waiting, in the time of `performance.now()`. */
  deadlineAt: number
  /** Identifies the client connection; every call of one connection has the same object. */
  connection: object
}

interface Reply<M extends MethodName> {
  meta: MethodResult<M>
  payload?: Buffer
}

/** Refuses by throwing SignerRefusal or SignerUnavailable. */
export type MethodHandler<M extends MethodName> = (
  params: MethodParams<M>,
  payload: Buffer,
  call: Call,
) => Reply<M> | Promise<Reply<M>>

export type MethodHandlers = { [M in MethodName]: MethodHandler<M> }

/** About 20 MB. */
const REMEMBERED = 65_536

interface Signed {
  signature: Buffer
  /** Number of its audit line. */
  sequence: number
}

/** A serial number and what is signed under it. */
interface Content {
  issuer: string
  serial: string
  /** Hash of the TBSCertificate. */
  sha256: string
}

interface Earlier {
  sha256: string
  /** The number of the audit line; undefined while there is none. */
  sequence?: number
  /** While it is under way. */
  signing?: Promise<Signed>
}

export class SignedSerials {
  readonly #signed: LruMap<string, Earlier>
  /** Bounded as the requests in flight. */
  readonly #underWay = new Map<string, Earlier>()

  constructor(remembered = REMEMBERED) {
    this.#signed = new LruMap(remembered)
  }

  /**
   * @returns an earlier request with the same content
   * @throws SignerRefusal when the content was another one
   */
  find({ issuer, serial, sha256 }: Content): Earlier | undefined {
    const key = `${issuer} ${serial}`
    const earlier = this.#underWay.get(key) ?? this.#signed.get(key)
    if (earlier !== undefined && earlier.sha256 !== sha256)
      throw new SignerRefusal(`the serial number ${serial} has been signed with other content`)
    return earlier
  }

  /**
   * Call it before using the key.
   * @throws SignerRefusal as `find`
   */
  claim(content: Content): void {
    this.find(content)
    const key = keyOf(content)
    if (!this.#signed.get(key)) this.#signed.set(key, { sha256: content.sha256 })
  }

  /** Lets later requests of the same content wait for this one. */
  begin(content: Content, signing: Promise<Signed>): void {
    const key = keyOf(content)
    const { sha256 } = content
    const earlier = { sha256, signing }
    this.#underWay.set(key, earlier)
    const end = () => {
      if (this.#underWay.get(key) === earlier) this.#underWay.delete(key)
    }
    signing.then(({ sequence }) => {
      end()
      this.#signed.set(key, { sha256, sequence })
    }, end)
  }

  /** Restores the memory from the newest audit lines, at the start. */
  recall(lines: readonly AuditLine[]): void {
    for (const { method, issuer, serial, sha256, seq, record } of lines)
      if (method === 'signCertificate')
        this.#signed.set(`${issuer} ${serial}`, { sha256, ...(record !== undefined && { sequence: seq }) })
  }
}

const keyOf = ({ issuer, serial }: Content): string => `${issuer} ${serial}`

/** @returns undefined when there is none, or its record is kept no longer */
export async function earlierSignature(
  { sha256, sequence, signing }: Earlier,
  { certificates }: RecordFiles,
): Promise<Buffer | undefined> {
  if (signing) {
    // The call that began it gets the failure; this one signs by itself.
    const signed = await signing.catch(() => undefined)
    return signed?.signature
  }
  if (sequence === undefined) return undefined
  const text = await lineOf(certificates, sequence)
  const line = text && parseRecordLine<CertificateLine>(text)
  if (!line) return undefined
  const { tbsDer, signature } = parseCertificate(Buffer.from(line.certificate, 'base64'))
  return sha256Hex(tbsDer) === sha256 ? signature : undefined
}
