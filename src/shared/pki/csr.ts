/**
 * PKCS#10 certification requests (RFC 2986) with requested extensions (RFC 2985 §5.4.2): reading
 * and proof of possession.
 *
 * A certificate keeps nothing of a request but its key and names that were ordered, so the rest is
 * read as Go and OpenSSL read it (test/corpus/csrs.ts). The key is exact: it is copied.
 */

import { readAlgorithmIdentifier, type SignatureAlgorithm } from './algorithms.ts'
import { contextConstructedTag, DerError, DerReader, readSingle, TAG } from './der.ts'
import { type Extension, parseExtendedKeyUsage, parseKeyUsage, readExtensions } from './extensions.ts'
import { type GeneralName, type GeneralNameKind, readGeneralName } from './general-names.ts'
import { commonNamesOf, formatName, readName } from './name.ts'
import { EXTENSION, EXTENSION_REQUEST, MICROSOFT_EXTENSION_REQUEST } from './oids.ts'
import { verifySignature } from './signature.ts'
import { readSpki, type Spki } from './spki.ts'

/** The bytes are no certification request. The message may be shown to a client. */
export class CsrError extends Error {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super(message, options)
    this.name = 'CsrError'
  }
}

/** Buffers are views of `der`. */
export interface Csr {
  der: Buffer
  /** The signed part. */
  certificationRequestInfo: Buffer
  subjectDer: Buffer
  /** In the text form of RFC 4514. */
  subjectText: string
  /** As in the request, in order, without blank ones. */
  commonNames: string[]
  spki: Spki
  /** Undefined for an unsupported algorithm, which the OID then names. */
  signatureAlgorithm: SignatureAlgorithm | undefined
  signatureAlgorithmOid: string
  signature: Buffer
  /** All requested names, as in the request, in order. */
  subjectAltNames: GeneralName[]
  /** Lower case, each once, without blank ones. */
  dnsNames: string[]
  /** Canonical text, each once. */
  ipAddresses: string[]
  /** Kinds that occur, each once. */
  sanTypes: GeneralNameKind[]
  /** Kinds that occur besides dNSName and iPAddress. */
  otherSanTypes: GeneralNameKind[]
  /**
   * Names that appear more than once (dNSName compared without case); the caller decides whether
   * that matters.
   */
  duplicateSans: string[]
  /** Undefined when the extension is not requested, `unreadable` when it has no readable value. */
  keyUsages: string[] | undefined
  /** Configuration names, or dotted OIDs for purposes without one; else as for `keyUsages`. */
  extendedKeyUsages: string[] | undefined
  /** Basic constraints with cA TRUE, in whatever encoding. */
  isCaRequested: boolean
  extensionOids: string[]
}

/**
 * Reads a request that fills the whole Buffer, without a check of the signature or the key.
 * Call `checkSubjectKey` first: it bounds the cost of `verifyCsrSignature`.
 * @throws CsrError
 */
export function parseCsr(der: Buffer): Csr {
  try {
    return readCsr(der)
  } catch (error) {
    if (error instanceof DerError) throw new CsrError(`CSR cannot be read: ${error.message}`, { cause: error })
    throw error
  }
}

/** Proof of possession: whether the key inside the request signed it. */
export function verifyCsrSignature(csr: Csr): boolean {
  return verifySignature(csr.signatureAlgorithm, csr.certificationRequestInfo, csr.spki, csr.signature)
}

function readCsr(der: Buffer): Csr {
  const outer = readSingle(der, TAG.sequence, 'CertificationRequest', false)
  const infoStart = outer.offset
  const info = outer.sequence()
  const certificationRequestInfo = der.subarray(infoStart, outer.offset)
  // RFC 2986 §4.1 allows 0 only; acme-client for Ruby sends 2, certbot's own tests 1.
  info.integer()
  const subject = readName(info)
  const spki = readSpki(info)
  // RFC 2986 §4.1 has no request without the field; devices leave it out, and OpenSSL reads them.
  const attributes = info.enterOptional(contextConstructedTag(0))
  const extensions = attributes ? readAttributes(attributes) : []
  info.finish('CertificationRequestInfo')
  const { algorithm, oid } = readAlgorithmIdentifier(outer)
  const signature = outer.bitStringOctets()
  outer.finish('CertificationRequest')
  const names = summarizeNames(requested(extensions, EXTENSION.subjectAltName, readNames) ?? [])
  // One by one: a spread of so many members is slow in V8.
  return {
    der,
    certificationRequestInfo,
    subjectDer: subject.der,
    subjectText: formatName(subject.name),
    commonNames: commonNamesOf(subject.name).filter((name) => name.trim() !== ''),
    spki,
    signatureAlgorithm: algorithm,
    signatureAlgorithmOid: oid,
    signature,
    subjectAltNames: names.subjectAltNames,
    dnsNames: names.dnsNames,
    ipAddresses: names.ipAddresses,
    sanTypes: names.sanTypes,
    otherSanTypes: names.otherSanTypes,
    duplicateSans: names.duplicateSans,
    keyUsages: requested(extensions, EXTENSION.keyUsage, (value) => usagesOf(() => parseKeyUsage(value, false))),
    extendedKeyUsages: requested(extensions, EXTENSION.extendedKeyUsage, (value) =>
      usagesOf(() => parseExtendedKeyUsage(value)),
    ),
    isCaRequested: extensions.some(({ oid, value }) => oid === EXTENSION.basicConstraints && saysCa(value)),
    extensionOids: extensions.map(({ oid }) => oid),
  }
}

/** An explicit FALSE is no DER and harmless. Anything else than TRUE or FALSE in its place counts as TRUE. */
const saysCa = (value: Buffer): boolean => value.length > 2 && !value.subarray(2).equals(EXPLICIT_FALSE)
const EXPLICIT_FALSE = Buffer.of(TAG.boolean, 1, 0)

/**
 * The requested extensions among the attributes: the first value of each request (RFC 2985 §5.4.2).
 * No extension may come twice, since readers would choose another. Other attributes are ignored.
 */
function readAttributes(attributes: DerReader): Extension[] {
  const extensions: Extension[] = []
  let ofMicrosoft: DerReader | undefined
  attributes.list('Attributes', () => {
    const attribute = attributes.sequence()
    const oid = attribute.oid()
    const values = attribute.enter(TAG.set)
    attribute.finish('Attribute')
    if (values.done) return
    if (oid === EXTENSION_REQUEST) extensions.push(...readExtensions(values.sequence()))
    if (oid === MICROSOFT_EXTENSION_REQUEST) ofMicrosoft = values
  })
  if (extensions.length === 0 && ofMicrosoft) return readExtensions(ofMicrosoft.sequence())
  const oids = new Set(extensions.map(({ oid }) => oid))
  if (oids.size < extensions.length) throw new CsrError('CSR requests an extension twice')
  return extensions
}

/** Perhaps none. */
function readNames(value: Buffer): GeneralName[] {
  const names = new DerReader(value, 0, value.length, 0, false).sequence()
  return names.list('SubjectAltName', readGeneralName)
}

/** No CSR profile authorizes it, and no other CA gets to read it. */
export const UNREADABLE = 'unreadable'

function usagesOf(parse: () => string[]): string[] {
  try {
    return parse()
  } catch (error) {
    if (error instanceof DerError) return [UNREADABLE]
    throw error
  }
}

function requested<T>(extensions: readonly Extension[], oid: string, parse: (value: Buffer) => T): T | undefined {
  for (const extension of extensions) if (extension.oid === oid) return parse(extension.value)
  return undefined
}

function summarizeNames(subjectAltNames: GeneralName[]) {
  const dnsNames = new Set<string>()
  const ipAddresses = new Set<string>()
  const others = new Set<string>()
  const sanTypes = new Set<GeneralNameKind>()
  const duplicateSans = new Set<string>()
  for (const { kind, value } of subjectAltNames) {
    if (kind === 'dNSName' && value.trim() === '') continue
    sanTypes.add(kind)
    const comparable = kind === 'dNSName' ? value.toLowerCase() : value
    const seen = kind === 'dNSName' ? dnsNames : kind === 'iPAddress' ? ipAddresses : others
    const key = seen === others ? `${kind}:${value}` : comparable
    if (seen.has(key)) duplicateSans.add(comparable)
    seen.add(key)
  }
  return {
    subjectAltNames,
    dnsNames: [...dnsNames],
    ipAddresses: [...ipAddresses],
    sanTypes: [...sanTypes],
    otherSanTypes: [...sanTypes].filter((kind) => kind !== 'dNSName' && kind !== 'iPAddress'),
    duplicateSans: [...duplicateSans],
  }
}
