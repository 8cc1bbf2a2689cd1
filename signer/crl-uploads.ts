/**
 * Uploads of TBSCertLists: few at a time, each checked and hashed piece by piece. An upload ends
 * when its client is silent for a minute or disconnects.
 */

import { createHash, randomBytes } from 'node:crypto'
import type { SignatureAlgorithm } from '../src/shared/pki/algorithms.ts'
import { CrlExamination, type CrlFacts } from './crl-policy.ts'
import { type Issuer, issuerKeyOf } from './issuers.ts'
import type { StreamedSignature } from './keys/signing-key.ts'
import { CRL_PIECE_BYTES } from './protocol/methods.ts'
import { SignerRefusal, SignerUnavailable } from './protocol/signer-errors.ts'
import type { RevocationEntry } from './records/record.ts'
import type { IsRecorded, RecordedRevocations } from './records/recorded-revocations.ts'

/** Each instance builds one list at a time. Two lists overlap after a change of leader. */
const MAX_UPLOADS = 8
/** A client reads its next piece from a database. After a minute it will not return. */
const IDLE_MS = 60_000
/** A client that lost its connection repeats the request within this time, by its own deadline. */
const ANSWERED_MS = 10_000
const MAX_ANSWERED = 64

export class CrlUpload {
  readonly issuer: Issuer
  readonly requester: string
  /** Kept for a client that lost its connection and repeats the request. */
  signature: Promise<Buffer> | undefined
  readonly #bytes: number
  readonly #examination: CrlExamination
  readonly #digest = createHash('sha256')
  #received = 0
  /** Bytes received before the header ends; the header names the hash of the signature. */
  #early: Buffer[] = []
  #signing: StreamedSignature | undefined

  constructor(issuer: Issuer, requester: string, bytes: number, isRecorded: IsRecorded) {
    this.issuer = issuer
    this.requester = requester
    this.#bytes = bytes
    this.#examination = new CrlExamination(issuer.policy, new Date(), bytes, isRecorded)
  }

  /**
   * Takes the piece at `offset`, and ignores a repeated piece.
   * @returns how many bytes have arrived
   * @throws SignerRefusal; the caller must then forget the upload
   */
  append(offset: number, piece: Buffer): number {
    if (offset + piece.length <= this.#received) return this.#received
    if (offset !== this.#received || piece.length > CRL_PIECE_BYTES || offset + piece.length > this.#bytes) {
      throw new SignerRefusal('a piece of the CRL is out of its place or too long')
    }
    this.#examination.push(piece)
    this.#digest.update(piece)
    this.#received += piece.length
    const algorithm = this.#examination.signatureAlgorithm
    if (this.#signing) this.#signing.update(piece)
    else this.#early.push(Buffer.from(piece))
    if (!this.#signing && algorithm !== undefined) {
      this.#signing = beginSignature(this.issuer, algorithm)
      for (const early of this.#early.splice(0)) this.#signing.update(early)
    }
    return this.#received
  }

  /** Takes entries, as `takeAdded` of CrlExamination does. */
  takeAdded(count: number): RevocationEntry[] {
    return this.#examination.takeAdded(count)
  }

  /** Returns the facts, the SHA-256 and the signature function. @throws SignerRefusal */
  finish(): { facts: CrlFacts; sha256: string; sign(): Buffer | Promise<Buffer> } {
    const facts = this.#examination.finish()
    const signing = this.#signing
    // Frees the memory of the stream; `signature` stays.
    this.#signing = undefined
    // Cannot happen: `finish` above needs a header, and the header begins the signature.
    if (!signing) throw new SignerRefusal('the CRL has no header')
    return { facts, sha256: this.#digest.digest('hex'), sign: () => signing.finish() }
  }
}

/** A key that cannot stream gets one Buffer. `limits.crl_bytes` bounds its size. */
function beginSignature({ key, policy }: Issuer, algorithm: SignatureAlgorithm): StreamedSignature {
  const streamed = key.begin?.(algorithm)
  if (streamed) return streamed
  if (algorithm !== policy.issuer.signatureAlgorithm) {
    throw new SignerRefusal(`this key signs CRLs with ${policy.issuer.signatureAlgorithm} only`)
  }
  const pieces: Buffer[] = []
  return { update: (piece) => void pieces.push(Buffer.from(piece)), finish: () => key.sign(Buffer.concat(pieces)) }
}

export class CrlUploads {
  readonly #maxBytes: number
  readonly #recorded: RecordedRevocations
  readonly #uploads = new Map<string, { upload: CrlUpload; connection: object; timer: NodeJS.Timeout }>()
  /** Ids of signed uploads, kept for repeated requests; oldest first. */
  readonly #answered = new Set<string>()

  constructor(maxBytes: number, recorded: RecordedRevocations) {
    this.#maxBytes = maxBytes
    this.#recorded = recorded
  }

  /** @returns the id. @throws SignerRefusal, SignerUnavailable */
  begin(issuer: Issuer, requester: string, bytes: number, connection: object): string {
    if (bytes > this.#maxBytes) {
      throw new SignerRefusal(`a TBSCertList of ${bytes} bytes; at most ${this.#maxBytes} are accepted`)
    }
    if (this.#uploads.size - this.#answered.size >= MAX_UPLOADS)
      throw new SignerUnavailable('too many CRLs are being signed')
    const id = randomBytes(16).toString('hex')
    const timer = setTimeout(() => this.forget(id), IDLE_MS).unref()
    const isRecorded = this.#recorded.of(issuerKeyOf(issuer))
    this.#uploads.set(id, { upload: new CrlUpload(issuer, requester, bytes, isRecorded), connection, timer })
    return id
  }

  /**
   * @throws SignerUnavailable when the id is unknown, as after a restart: the client begins again
   */
  require(id: string): CrlUpload {
    const known = this.#uploads.get(id)
    if (!known) throw new SignerUnavailable('this CRL is not known here any more; begin again')
    known.timer.refresh()
    return known.upload
  }

  /** Marks an upload as signed. It no longer counts as open. */
  answer(id: string): void {
    const known = this.#uploads.get(id)
    if (!known || this.#answered.has(id)) return
    clearTimeout(known.timer)
    known.timer = setTimeout(() => this.forget(id), ANSWERED_MS).unref()
    this.#answered.add(id)
    const [oldest] = this.#answered
    if (this.#answered.size > MAX_ANSWERED && oldest !== undefined) this.forget(oldest)
  }

  /**
   * Forgets the uploads of a closed connection. Signed ones stay: the client may repeat its request
   * on another connection.
   */
  forgetUnsigned(gone: object): void {
    for (const [id, { upload, connection }] of this.#uploads)
      if (connection === gone && upload.signature === undefined) this.forget(id)
  }

  forget(id: string): void {
    this.#answered.delete(id)
    clearTimeout(this.#uploads.get(id)?.timer)
    this.#uploads.delete(id)
  }
}
