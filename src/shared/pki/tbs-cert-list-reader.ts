/**
 * Reads a TBSCertList (RFC 5280 §5.1) strictly and in pieces: memory for one value suffices for any length.
 *
 * Pieces may cut values anywhere. A value longer than any CRL needs is refused before it is collected.
 */

import { type AlgorithmIdentifier, readAlgorithmIdentifier } from './algorithms.ts'
import { contextConstructedTag, contextTag, DerError, DerReader, readSingle, TAG } from './der.ts'
import { type Extension, parseAuthorityKeyIdentifier, readDistributionPointName, readExtensions } from './extensions.ts'
import { type Name, readName } from './name.ts'
import { CRL_EXTENSION } from './oids.ts'
import { encodeCrlEntries } from './tbs-cert-list.ts'
import { readTime, type Time } from './time.ts'

/** The members before the entries. Buffers are copies. */
export interface CrlHeader {
  version: number
  signatureAlgorithm: AlgorithmIdentifier
  issuerDer: Buffer
  issuer: Name
  thisUpdate: Time
  nextUpdate: Time | undefined
  /** Octets of the whole TBSCertList, from its first length. */
  length: number
}

/** Buffers are views that the next piece may overwrite. */
export interface ReadCrlEntry {
  /** Content octets of the INTEGER. */
  serialNumber: Buffer
  revokedAt: Time
  /** Undefined where there is no reasonCode. */
  reason: number | undefined
  /** OIDs of all other extensions of the entry. */
  otherExtensions: readonly string[]
}

export interface CrlExtensions {
  extensions: readonly Extension[]
  authorityKeyIdentifier: Buffer | undefined
  /** Content octets of the INTEGER. */
  number: Buffer | undefined
  issuingDistributionPoint: IssuingDistributionPoint | undefined
}

interface IssuingDistributionPoint {
  critical: boolean
  urls: readonly string[]
  /** The list is limited to some kinds of certificates or reasons, or covers other issuers. */
  isRestricted: boolean
}

interface CrlHandlers {
  header(header: CrlHeader): void
  entry(entry: ReadCrlEntry): void
}

/** A Name and a few extensions have hundreds of octets, an entry less than fifty. */
const MAX_VALUE_OCTETS = 16 * 1024
const TIMES: readonly number[] = [TAG.utcTime, TAG.generalizedTime]
const EXTENSIONS_TAG = contextConstructedTag(0)

interface Tlv {
  tag: number
  contentAt: number
  end: number
}

/** `push` and `finish` throw DerError and the errors of the handlers. Do not use a reader that has thrown. */
export class TbsCertListReader {
  readonly #handlers: CrlHandlers
  #step: 'header' | 'entries' | 'extensions' | 'end' = 'header'
  #pending: Buffer = Buffer.alloc(0)
  /** Octets of the TBSCertList that have not arrived yet. */
  #missing = 0
  #entriesLeft = 0
  #extensions: CrlExtensions | undefined

  constructor(handlers: CrlHandlers) {
    this.#handlers = handlers
  }

  push(chunk: Buffer): void {
    this.#pending = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk])
    let before: number
    do {
      before = this.#pending.length
      this.#advance()
    } while (this.#pending.length < before)
    // Copied because the caller may reuse its chunk.
    this.#pending = Buffer.from(this.#pending)
  }

  /** @returns the extensions, perhaps empty */
  finish(): CrlExtensions {
    if (this.#step !== 'end' || this.#missing > 0) throw new DerError('TBSCertList is cut off', 0)
    return this.#extensions ?? decodeCrlExtensions([])
  }

  #advance(): void {
    if (this.#step === 'header') this.#readHeader()
    else if (this.#step === 'entries') this.#readEntries()
    else if (this.#step === 'extensions') this.#readExtensions()
    else if (this.#pending.length > 0) throw new DerError('TBSCertList has unexpected content at its end', 0)
  }

  #readHeader(): void {
    const bytes = this.#pending
    const found = measureHeader(bytes)
    if (!found) return
    const reader = new DerReader(bytes, found.start, found.end)
    const version = reader.peek() === TAG.integer ? reader.smallInteger() + 1 : 1
    const { oid, algorithm, der } = readAlgorithmIdentifier(reader)
    const issuer = readName(reader)
    const thisUpdate = readTime(reader)
    const nextUpdate = reader.done ? undefined : readTime(reader)
    this.#missing = found.total - found.behind
    this.#entriesLeft = found.entriesLength
    this.#pending = bytes.subarray(found.behind)
    this.#step = found.entriesLength > 0 ? 'entries' : this.#missing > 0 ? 'extensions' : 'end'
    this.#handlers.header({
      version,
      signatureAlgorithm: { oid, algorithm, der: Buffer.from(der) },
      issuerDer: Buffer.from(issuer.der),
      issuer: issuer.name,
      thisUpdate,
      nextUpdate,
      length: found.total,
    })
  }

  #readEntries(): void {
    const bytes = this.#pending
    let at = 0
    while (this.#entriesLeft > 0) {
      const tlv = readTlv(bytes, at, at + this.#entriesLeft)
      if (!tlv || tlv.end > bytes.length) break
      this.#handlers.entry(readEntry(bytes, at, tlv))
      this.#entriesLeft -= tlv.end - at
      at = tlv.end
    }
    this.#consume(at)
    if (this.#entriesLeft === 0) this.#step = this.#missing > 0 ? 'extensions' : 'end'
  }

  #readExtensions(): void {
    const tlv = readTlv(this.#pending, 0, this.#missing)
    if (!tlv || tlv.end > this.#pending.length) return
    this.#extensions = parseCrlExtensions(this.#pending.subarray(0, tlv.end))
    this.#consume(tlv.end)
    this.#step = 'end'
    if (this.#missing > 0) throw new DerError('TBSCertList has unexpected content at its end', tlv.end)
  }

  #consume(octets: number): void {
    this.#pending = this.#pending.subarray(octets)
    this.#missing -= octets
  }
}

/** Where header and entries begin and end; undefined until enough has arrived. @throws DerError */
function measureHeader(bytes: Buffer) {
  const outer = readTlv(bytes, 0, Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)
  if (!outer) return undefined
  if (outer.tag !== TAG.sequence) throw new DerError('TBSCertList is not a SEQUENCE', 0)
  const { contentAt: start, end: total } = outer
  let at = start
  // Version (optional), signature, issuer, thisUpdate, nextUpdate (optional). They are checked once all have arrived.
  for (let member = 0; member < 5; member++) {
    const isOptionalAbsent =
      (member === 0 && bytes[at] !== TAG.integer) || (member === 4 && !TIMES.includes(bytes[at] ?? TAG.utcTime))
    if (isOptionalAbsent) {
      if (at >= bytes.length && at < total) return undefined
      continue
    }
    if (member === 4 && at === total) break
    const tlv = readTlv(bytes, at, total)
    if (!tlv || tlv.end > bytes.length) return undefined
    at = tlv.end
  }
  if (at === total) return { start, end: at, behind: at, entriesLength: 0, total }
  if (at >= bytes.length) return undefined
  if (bytes[at] !== TAG.sequence) return { start, end: at, behind: at, entriesLength: 0, total }
  const entries = readTlv(bytes, at, total, Number.MAX_SAFE_INTEGER)
  if (!entries) return undefined
  // RFC 5280 §5.1.2.6
  if (entries.end === entries.contentAt) throw new DerError('revokedCertificates is empty instead of absent', at)
  return { start, end: at, behind: entries.contentAt, entriesLength: entries.end - entries.contentAt, total }
}

/**
 * Tag and length at `at`; undefined while incomplete.
 * @throws DerError when the value is too long or exceeds `limit`
 */
function readTlv(bytes: Buffer, at: number, limit: number, maxOctets = MAX_VALUE_OCTETS): Tlv | undefined {
  if (at >= limit) throw new DerError('a value is missing', at)
  if (bytes.length < at + 2) return undefined
  const first = bytes[at + 1]!
  let length = first
  let contentAt = at + 2
  if (first >= 0x80) {
    const octets = first & 0x7f
    if (octets === 0) throw new DerError('indefinite length is not DER', at)
    if (octets > 4) throw new DerError('length is too large', at)
    if (bytes.length < contentAt + octets) return undefined
    length = bytes.readUIntBE(contentAt, octets)
    contentAt += octets
    if (length < 0x80 || length < 2 ** (8 * (octets - 1))) throw new DerError('length is not minimal', at)
  }
  if (length > maxOctets) throw new DerError(`a value of ${length} octets is too long here`, at)
  if (contentAt + length > limit) throw new DerError('value runs past the end of what holds it', at)
  return { tag: bytes[at]!, contentAt, end: contentAt + length }
}

/** crlEntryExtensions with only a reason, without the reason's octet: nearly every entry has these bytes. */
const REASON_ONLY = encodeCrlEntries([{ serialNumber: Buffer.of(1), revokedAt: new Date(0), reason: 1 }]).subarray(
  -14,
  -1,
)

const DAY_MS = 86_400_000
/** Milliseconds of midnight by `YYMMDD` as a number: a million entries share a few hundred days. */
const MIDNIGHTS = new Map<number, number>()
const MAX_MIDNIGHTS = 4096

/**
 * Reads the common entry: a serial number below 128 octets, a UTCTime, and perhaps a reason; undefined for others. It
 * takes 0.7 µs with lint instead of 3 µs: a million entries would keep the signer busy for seconds.
 */
function readPlainEntry(bytes: Buffer, { tag, contentAt, end }: Tlv): ReadCrlEntry | undefined {
  if (tag !== TAG.sequence || bytes[contentAt] !== TAG.integer) return undefined
  const serialLength = bytes[contentAt + 1]!
  const serialAt = contentAt + 2
  const timeAt = serialAt + serialLength
  const behind = timeAt + 15
  if (serialLength === 0 || serialLength >= 0x80 || behind > end) return undefined
  const isPadded = serialLength > 1 && (bytes[serialAt] === 0) === bytes[serialAt + 1]! < 0x80
  if (isPadded && (bytes[serialAt] === 0 || bytes[serialAt] === 0xff)) return undefined
  const at = readPlainTime(bytes, timeAt)
  if (at === undefined) return undefined
  const hasReason = behind !== end
  if (hasReason && (end - behind !== REASON_ONLY.length + 1 || !startsWith(bytes, behind, REASON_ONLY)))
    return undefined
  return {
    serialNumber: bytes.subarray(serialAt, timeAt),
    revokedAt: { at: new Date(at), form: 'UTCTime' },
    reason: hasReason ? bytes[end - 1]! : undefined,
    otherExtensions: NO_EXTENSIONS,
  }
}

const NO_EXTENSIONS: readonly string[] = []

/** A UTCTime of the right length in milliseconds; undefined for anything doubtful. */
function readPlainTime(bytes: Buffer, at: number): number | undefined {
  if (bytes[at] !== TAG.utcTime || bytes[at + 1] !== 13 || bytes[at + 14] !== 0x5a) return undefined
  const day = twoDigits(bytes, at + 2) * 10_000 + twoDigits(bytes, at + 4) * 100 + twoDigits(bytes, at + 6)
  const [hour, minute, second] = [twoDigits(bytes, at + 8), twoDigits(bytes, at + 10), twoDigits(bytes, at + 12)]
  if (!(hour < 24 && minute < 60 && second < 60)) return undefined
  let midnight = MIDNIGHTS.get(day)
  if (midnight === undefined) {
    // The general reader knows which days exist.
    const time = readTime(new DerReader(bytes, at, at + 15)).at.getTime()
    midnight = Math.floor(time / DAY_MS) * DAY_MS
    if (MIDNIGHTS.size < MAX_MIDNIGHTS) MIDNIGHTS.set(day, midnight)
  }
  return midnight + hour * 3_600_000 + minute * 60_000 + second * 1000
}

/** NaN unless both octets are digits. */
function twoDigits(bytes: Buffer, at: number): number {
  const [tens, ones] = [bytes[at]! - 0x30, bytes[at + 1]! - 0x30]
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : Number.NaN
}

function startsWith(bytes: Buffer, at: number, start: Buffer): boolean {
  for (let i = 0; i < start.length; i++) if (bytes[at + i] !== start[i]) return false
  return true
}

function readEntry(bytes: Buffer, at: number, tlv: Tlv): ReadCrlEntry {
  return readPlainEntry(bytes, tlv) ?? readAnyEntry(new DerReader(bytes, at, tlv.end).sequence())
}

function readAnyEntry(reader: DerReader): ReadCrlEntry {
  const serialNumber = reader.integer()
  const revokedAt = readTime(reader)
  if (reader.done) return { serialNumber, revokedAt, reason: undefined, otherExtensions: NO_EXTENSIONS }
  const extensions = readExtensions(reader.sequence())
  reader.finish('revokedCertificates entry')
  const reasonCode = extensions.find(({ oid }) => oid === CRL_EXTENSION.reasonCode)
  return {
    serialNumber,
    revokedAt,
    reason: reasonCode && readReason(reasonCode),
    otherExtensions: extensions.filter((extension) => extension !== reasonCode).map(({ oid }) => oid),
  }
}

function readReason({ value, critical }: Extension): number {
  const reader = new DerReader(value)
  const content = reader.content(TAG.enumerated)
  reader.finish('CRLReason')
  // RFC 5280 §5.3.1
  if (critical) throw new DerError('reasonCode is critical', 0)
  if (content.length !== 1 || content[0]! >= 0x80) throw new DerError('CRLReason is no known reason', 0)
  return content[0]!
}

/** Reads entries that fill the whole Buffer. @throws DerError */
export function parseCrlEntries(der: Buffer): ReadCrlEntry[] {
  const entries: ReadCrlEntry[] = []
  for (let at = 0; at < der.length; ) {
    const tlv = readTlv(der, at, der.length)
    if (!tlv) throw new DerError('an entry is cut off', at)
    entries.push(readEntry(der, at, tlv))
    at = tlv.end
  }
  return entries
}

/** Reads the `[0]` at the end of a TBSCertList, filling the whole Buffer. @throws DerError */
export function parseCrlExtensions(der: Buffer): CrlExtensions {
  const explicit = readSingle(der, EXTENSIONS_TAG, 'crlExtensions')
  const extensions = readExtensions(explicit.sequence())
  explicit.finish('crlExtensions')
  return decodeCrlExtensions(
    extensions.map(({ oid, critical, value }) => ({ oid, critical, value: Buffer.from(value) })),
  )
}

function decodeCrlExtensions(extensions: readonly Extension[]): CrlExtensions {
  const find = (wanted: string) => extensions.find(({ oid }) => oid === wanted)
  const keyIdentifier = find(CRL_EXTENSION.authorityKeyIdentifier)
  const number = find(CRL_EXTENSION.crlNumber)
  const distributionPoint = find(CRL_EXTENSION.issuingDistributionPoint)
  return {
    extensions,
    authorityKeyIdentifier: keyIdentifier && parseAuthorityKeyIdentifier(keyIdentifier.value),
    number: number && parseInteger(number.value),
    issuingDistributionPoint: distributionPoint && parseIssuingDistributionPoint(distributionPoint),
  }
}

function parseInteger(value: Buffer): Buffer {
  const reader = new DerReader(value)
  const integer = reader.integer()
  reader.finish('CRLNumber')
  return integer
}

/** RFC 5280 §5.2.5. */
function parseIssuingDistributionPoint({ value, critical }: Extension): IssuingDistributionPoint {
  const reader = readSingle(value, TAG.sequence, 'IssuingDistributionPoint')
  const urls = readDistributionPointName(reader)
  const isRestricted = !reader.done
  for (let number = 1; number <= 5; number++)
    if (reader.peek() === contextTag(number)) reader.content(contextTag(number))
  reader.finish('IssuingDistributionPoint')
  return { critical, urls, isRestricted }
}
