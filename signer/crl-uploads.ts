/**
 * Uploads of TBSCertLists: few at a time, each checked and hashed piece by piece, and in the end refused or signed. An
 * upload ends when its client is silent for a minute or disconnects.
 *
 * A compromised front can leave revocations out; only the database could tell. It cannot sign for another issuer, for the
 * future or for too long. Nor can it use up later numbers or bring back an older list: the caller compares `number` with the
 * newest one signed (crl-numbers.ts).
 */

import { createHash, randomBytes } from 'node:crypto'
import { CLOCKS_DIFFER_MS } from '../src/shared/lib/clocks.ts'
import { isWeaker, SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from '../src/shared/pki/algorithms.ts'
import { lintCrlEntry, lintCrlExtensions, lintCrlHeader } from '../src/shared/pki/crl-lint.ts'
import { DerError } from '../src/shared/pki/der.ts'
import { type CrlHeader, type ReadCrlEntry, TbsCertListReader } from '../src/shared/pki/tbs-cert-list-reader.ts'
import { checkCrlForms } from './extension-forms.ts'
import { type Issuer, issuerKeyOf } from './issuers.ts'
import type { StreamedSignature } from './keys/signing-key.ts'
import { isCrlUrlAllowed, type SigningPolicy } from './policy.ts'
import { CRL_PIECE_BYTES } from './protocol/methods.ts'
import { SignerRefusal, SignerUnavailable } from './protocol/signer-errors.ts'
import type { RevocationEntry } from './records/record.ts'
import { type IsRecorded, type RecordedRevocations, SerialSet } from './serial-tables.ts'

/** Building a list of millions of entries takes minutes between its thisUpdate and this check. */
const MAX_AGE_MS = 3_600_000

export interface CrlFacts {
  number: bigint
  entries: number
  /** For a list that covers only one distribution point. */
  urls: readonly string[]
  /** Entries that no record holds yet, without those that were taken. */
  added: readonly RevocationEntry[]
}

/** Every method throws SignerRefusal; do not use the object after that. */
export class CrlExamination {
  readonly #policy: SigningPolicy
  readonly #now: Date
  readonly #reader: TbsCertListReader
  #header: CrlHeader | undefined
  readonly #serials = new SerialSet()
  readonly #isRecorded: IsRecorded
  readonly #added: RevocationEntry[] = []
  #entries = 0

  /** @param bytes length of the whole TBSCertList, as announced */
  constructor(policy: SigningPolicy, now: Date, bytes: number, isRecorded: IsRecorded) {
    this.#policy = policy
    this.#isRecorded = isRecorded
    this.#now = now
    this.#reader = new TbsCertListReader({
      header: (header) => {
        refuseIf(header.length !== bytes && `the TBSCertList has ${header.length} bytes, not the ${bytes} announced`)
        refuseIf(checkHeader(header, policy, this.#now))
        this.#header = header
      },
      entry: (entry) => this.#examine(entry),
    })
  }

  /** Undefined until the header has arrived. */
  get signatureAlgorithm(): CrlHeader['signatureAlgorithm']['algorithm'] {
    return this.#header?.signatureAlgorithm.algorithm
  }

  push(piece: Buffer): void {
    readingDer(() => this.#reader.push(piece))
  }

  /** @returns `count` entries that no record holds yet, once there are as many; otherwise none */
  takeAdded(count: number): RevocationEntry[] {
    return this.#added.length < count ? [] : this.#added.splice(0, count)
  }

  finish(): CrlFacts {
    const found = readingDer(() => this.#reader.finish())
    const finding = lintCrlExtensions(found)
    refuseIf(finding && `lint: ${finding}`)
    const { issuer } = this.#policy
    refuseIf(
      !found.authorityKeyIdentifier?.equals(issuer.keyIdentifier) &&
        'authorityKeyIdentifier is not the key identifier of the issuer',
    )
    refuseIf(checkCrlForms(found))
    const urls = found.issuingDistributionPoint?.urls ?? []
    const other = urls.find((url) => !isCrlUrlAllowed(url, this.#policy))
    refuseIf(other && `the distribution point ${other} is not allowed`)
    const number = BigInt(`0x${found.number!.toString('hex')}`)
    return { number, entries: this.#entries, urls, added: this.#added }
  }

  #examine(entry: ReadCrlEntry): void {
    this.#entries += 1
    const finding = lintCrlEntry(entry, this.#header!.thisUpdate.at)
    if (finding !== undefined) throw new SignerRefusal(`lint: entry ${this.#entries}: ${finding}`)
    if (!this.#serials.add(entry.serialNumber))
      throw new SignerRefusal(
        `entry ${this.#entries}: serial number ${entry.serialNumber.toString('hex')} stands twice`,
      )
    const { revokedAt, reason = 0 } = entry
    const serial = withoutSign(entry.serialNumber)
    if (!this.#isRecorded(serial, reason))
      this.#added.push([serial.toString('hex'), Math.floor(revokedAt.at.getTime() / 1000), reason])
  }
}

function checkHeader(header: CrlHeader, policy: SigningPolicy, now: Date): string | undefined {
  const { issuer } = policy
  if (!issuer.maySignCrls) return 'the key usage of the issuer does not allow signing CRLs'
  if (!header.issuerDer.equals(issuer.nameDer)) return 'issuer name is not, byte for byte, the subject of the issuer'
  const { algorithm } = header.signatureAlgorithm
  const { keyKind } = SIGNATURE_ALGORITHMS[issuer.signatureAlgorithm]
  if (algorithm === undefined || SIGNATURE_ALGORITHMS[algorithm].keyKind !== keyKind)
    return `signature algorithm ${algorithm ?? header.signatureAlgorithm.oid} is none of the issuer's key`
  if (isWeaker(algorithm, issuer.signatureAlgorithm))
    return `signature algorithm ${algorithm} is weaker than ${issuer.signatureAlgorithm}, that of the issuer`
  const finding = lintCrlHeader(header)
  if (finding !== undefined) return `lint: ${finding}`
  return checkTimes(header.thisUpdate.at, header.nextUpdate!.at, policy, now)
}

/** Compares with our own clock, so that an intruder cannot get lists for a later time. */
function checkTimes(thisUpdate: Date, nextUpdate: Date, policy: SigningPolicy, now: Date): string | undefined {
  const ageMs = now.getTime() - thisUpdate.getTime()
  const seconds = Math.round(Math.abs(ageMs) / 1000)
  if (ageMs > MAX_AGE_MS) return `thisUpdate is ${seconds} s behind the clock of the signer`
  if (ageMs < -CLOCKS_DIFFER_MS) return `thisUpdate is ${seconds} s ahead of the clock of the signer`
  if (thisUpdate < policy.issuer.notBefore || thisUpdate > policy.issuer.notAfter)
    return 'thisUpdate is outside the validity of the issuer'
  const validityMs = nextUpdate.getTime() - thisUpdate.getTime()
  if (validityMs > policy.maxCrlValidityMs)
    return `nextUpdate is ${validityMs / 1000} s after thisUpdate; ${policy.maxCrlValidityMs / 1000} s are allowed`
  return undefined
}

/** The serial number as it is written elsewhere: without the octet of zeros that keeps an INTEGER positive. */
const withoutSign = (octets: Buffer): Buffer => (octets.length > 1 && octets[0] === 0 ? octets.subarray(1) : octets)

function refuseIf(refusal: string | false | undefined): void {
  if (refusal) throw new SignerRefusal(refusal)
}

function readingDer<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof DerError) throw new SignerRefusal(`not a TBSCertList: ${error.message}`)
    throw error
  }
}

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

  /** @throws SignerUnavailable when the id is unknown, as after a restart: the client begins again */
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
