/**
 * PKCS#10 certification requests (RFC 2986) with requested extensions (RFC 2985 §5.4.2): reading,
 * proof of possession, and writing of a plain one.
 *
 * A certificate keeps nothing of a request but its key and names that were ordered, so the rest is
 * read as Go and OpenSSL read it (test/corpus/csrs.ts). The key is exact: it is copied.
 */

import { readAlgorithmIdentifier, readSpki, type SignatureAlgorithm, type Spki, verifySignature } from './algorithms.ts'
import { assembleCertificate } from './certificate.ts'
import { contextConstructedTag, DerError, DerReader, readSingle, TAG } from './der.ts'
import { encodeDer } from './der-writer.ts'
import {
  type Extension,
  parseExtendedKeyUsage,
  parseKeyUsage,
  readExtensions,
  writeSubjectAltName,
} from './extensions.ts'
import {
  commonNamesOf,
  EMPTY_NAME,
  formatName,
  type GeneralName,
  type GeneralNameKind,
  readGeneralName,
  readName,
} from './name.ts'
import { EXTENSION, EXTENSION_REQUEST, MICROSOFT_EXTENSION_REQUEST } from './oids.ts'

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
  /** The request's own, in order, without blank ones. */
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
  /** Names that appear more than once (dNSName compared without case); the caller decides whether that matters. */
  duplicateSans: string[]
  /** Names in extension requests that name nothing here, but may for another reader. */
  furtherSubjectAltNames: GeneralName[]
  /**
   * Undefined when the extension is not requested, `unreadable` when it has no readable value. This and what
   * follows is of all extension requests, since readers choose different ones.
   */
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

/** Go reads it into an int. */
const VERSION_OCTETS = 8

function readCsr(der: Buffer): Csr {
  const outer = readSingle(der, TAG.sequence, 'CertificationRequest', false)
  const infoStart = outer.offset
  const info = outer.sequence()
  const certificationRequestInfo = der.subarray(infoStart, outer.offset)
  // RFC 2986 §4.1 allows 0 only; acme-client for Ruby sends 2, certbot's own tests 1.
  if (info.integer().length > VERSION_OCTETS)
    throw new CsrError('CSR cannot be read: its version has more than 64 bits')
  const subject = readName(info)
  const spki = readSpki(info)
  // RFC 2986 §4.1 has no request without the field; devices leave it out, and OpenSSL reads them.
  const attributes = info.enterOptional(contextConstructedTag(0))
  const requests = attributes ? readAttributes(attributes) : NO_REQUESTS
  info.finish('CertificationRequestInfo')
  const { algorithm, oid } = readAlgorithmIdentifier(outer)
  const signature = outer.bitStringOctets()
  outer.finish('CertificationRequest')
  const names = summarizeNames(namesIn(requests.naming))
  const extensions = [...requests.naming, ...requests.further.extensions]
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
    furtherSubjectAltNames: requests.further.names,
    keyUsages: usagesIn(requests, EXTENSION.keyUsage, (value) => parseKeyUsage(value, false)),
    extendedKeyUsages: usagesIn(requests, EXTENSION.extendedKeyUsage, parseExtendedKeyUsage),
    isCaRequested: extensions.some(({ oid, value }) => oid === EXTENSION.basicConstraints && saysCa(value)),
    extensionOids: extensions.map(({ oid }) => oid),
  }
}

/** An explicit FALSE is no DER and harmless. Anything else than TRUE or FALSE in its place counts as TRUE. */
const saysCa = (value: Buffer): boolean => value.length > 2 && !value.subarray(2).equals(EXPLICIT_FALSE)
const EXPLICIT_FALSE = Buffer.of(TAG.boolean, 1, 0)

interface ExtensionRequests {
  /** The first value of each request, in the standard attribute (RFC 2985 §5.4.2) or else in Microsoft's. */
  naming: Extension[]
  /** All other values of both attributes. */
  further: FurtherRequests
}

interface FurtherRequests {
  extensions: Extension[]
  names: GeneralName[]
  isReadable: boolean
}

const NO_REQUESTS: ExtensionRequests = { naming: [], further: { extensions: [], names: [], isReadable: true } }

/**
 * The requested extensions among the attributes. No extension may come twice in those that name, since readers would
 * choose another. Other attributes are ignored.
 */
function readAttributes(attributes: DerReader): ExtensionRequests {
  const standard: DerReader[] = []
  const ofMicrosoft: DerReader[] = []
  attributes.list('Attributes', () => {
    const attribute = attributes.sequence()
    const oid = attribute.oid()
    const values = attribute.enter(TAG.set)
    attribute.finish('Attribute')
    if (values.done) return
    if (oid === EXTENSION_REQUEST) standard.push(values)
    if (oid === MICROSOFT_EXTENSION_REQUEST) ofMicrosoft.push(values)
  })
  let naming = standard.flatMap((values) => readExtensions(values.sequence()))
  const oids = new Set(naming.map(({ oid }) => oid))
  if (oids.size < naming.length) throw new CsrError('CSR requests an extension twice')
  if (naming.length === 0) naming = ofMicrosoft.slice(-1).flatMap((values) => readExtensions(values.sequence()))
  return { naming, further: readFurther([...standard, ...ofMicrosoft]) }
}

/** The other attributes. They name nothing here, so they may have any form. */
function readFurther(attributes: readonly DerReader[]): FurtherRequests {
  const extensions: Extension[] = []
  try {
    for (const values of attributes) while (!values.done) extensions.push(...readExtensions(values.sequence()))
    return { extensions, names: namesIn(extensions), isReadable: true }
  } catch (error) {
    if (error instanceof DerError) return { extensions, names: [], isReadable: false }
    throw error
  }
}

function namesIn(extensions: readonly Extension[]): GeneralName[] {
  return extensions.flatMap(({ oid, value }) => (oid === EXTENSION.subjectAltName ? readNames(value) : []))
}

/** Perhaps none. */
function readNames(value: Buffer): GeneralName[] {
  const names = new DerReader(value, 0, value.length, 0, false).sequence()
  return names.list('SubjectAltName', readGeneralName)
}

/** No CSR profile authorizes it, and no other CA gets to read it. */
export const UNREADABLE = 'unreadable'

function usagesIn(
  { naming, further }: ExtensionRequests,
  oid: string,
  parse: (value: Buffer) => string[],
): string[] | undefined {
  const requested = [...naming, ...further.extensions].filter((extension) => extension.oid === oid)
  if (requested.length === 0 && further.isReadable) return undefined
  const usages = requested.flatMap(({ value }) => usagesOf(() => parse(value)))
  return [...new Set([...usages, ...(further.isReadable ? [] : [UNREADABLE])])]
}

function usagesOf(parse: () => string[]): string[] {
  try {
    return parse()
  } catch (error) {
    if (error instanceof DerError) return [UNREADABLE]
    throw error
  }
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

interface CsrInput {
  /** DER of the SubjectPublicKeyInfo. */
  spki: Buffer
  dnsNames: readonly string[]
  ipAddresses: readonly string[]
  signatureAlgorithm: SignatureAlgorithm
  /** Signs with the key of `spki`; the signature in its X.509 form. */
  sign(certificationRequestInfo: Buffer): Buffer
}

/** DER of a request with an empty subject, and names as its requested extension (RFC 2985 §5.4.2). */
export function buildCsr({ spki, dnsNames, ipAddresses, signatureAlgorithm, sign }: CsrInput): Buffer {
  const info = encodeDer((writer) =>
    writer.sequence(() => {
      writer.smallInteger(0)
      writer.raw(EMPTY_NAME)
      writer.raw(spki)
      writer.constructed(contextConstructedTag(0), () =>
        writer.sequence(() => {
          writer.oid(EXTENSION_REQUEST)
          writer.constructed(TAG.set, () =>
            writer.sequence(() => writeSubjectAltName(writer, { dnsNames, ipAddresses }, false)),
          )
        }),
      )
    }),
  )
  // Both structures are a signed part, an algorithm and a signature.
  return assembleCertificate(info, signatureAlgorithm, sign(info))
}
