/**
 * PKCS#10 certification requests (RFC 2986) with requested extensions (RFC 2985 §5.4.2): reading
 * and proof of possession.
 */

import { readAlgorithmIdentifier, type SignatureAlgorithm } from './algorithms.ts'
import { contextConstructedTag, DerError, type DerReader, readSingle, TAG } from './der.ts'
import {
  type Extension,
  parseExtendedKeyUsage,
  parseKeyUsage,
  parseSubjectAltName,
  readExtensions,
} from './extensions.ts'
import type { GeneralName, GeneralNameKind } from './general-names.ts'
import { commonNamesOf, formatName, readName } from './name.ts'
import { EXTENSION, EXTENSION_REQUEST, type KeyUsage } from './oids.ts'
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
  /** As in the request, in order. */
  commonNames: string[]
  spki: Spki
  /** Undefined for an unsupported algorithm, which the OID then names. */
  signatureAlgorithm: SignatureAlgorithm | undefined
  signatureAlgorithmOid: string
  signature: Buffer
  /** All requested names, as in the request, in order. */
  subjectAltNames: GeneralName[]
  /** Lower case, each once. */
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
  /** Undefined when the extension is not requested. */
  keyUsages: KeyUsage[] | undefined
  /**
   * Configuration names, or dotted OIDs for purposes without one. Undefined when the extension is
   * not requested.
   */
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
  const outer = readSingle(der, TAG.sequence, 'CertificationRequest')
  const infoStart = outer.offset
  const info = outer.sequence()
  const certificationRequestInfo = der.subarray(infoStart, outer.offset)
  // RFC 2986 §4.1 allows 0 only; acme-client for Ruby sends 2, certbot's own tests 1.
  if (info.smallInteger() > 2) throw new CsrError('CSR version must be 0 to 2')
  const subject = readName(info)
  const spki = readSpki(info)
  const extensions = readAttributes(info.enter(contextConstructedTag(0)))
  info.finish('CertificationRequestInfo')
  const { algorithm, oid } = readAlgorithmIdentifier(outer)
  const signature = outer.bitStringOctets()
  outer.finish('CertificationRequest')
  const names = summarizeNames(requested(extensions, EXTENSION.subjectAltName, parseSubjectAltName) ?? [])
  // One by one: a spread of so many members is slow in V8.
  return {
    der,
    certificationRequestInfo,
    subjectDer: subject.der,
    subjectText: formatName(subject.name),
    commonNames: commonNamesOf(subject.name),
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
    keyUsages: requested(extensions, EXTENSION.keyUsage, parseKeyUsage),
    extendedKeyUsages: requested(extensions, EXTENSION.extendedKeyUsage, parseExtendedKeyUsage),
    isCaRequested: extensions.some(({ oid, value }) => oid === EXTENSION.basicConstraints && saysCa(value)),
    extensionOids: extensions.map(({ oid }) => oid),
  }
}

/** An explicit FALSE is no DER and harmless. Anything else than TRUE or FALSE in its place counts as TRUE. */
const saysCa = (value: Buffer): boolean => value.length > 2 && !value.subarray(2).equals(EXPLICIT_FALSE)
const EXPLICIT_FALSE = Buffer.of(TAG.boolean, 1, 0)

/**
 * The requested extensions among the attributes; other attributes are ignored.
 * The order of the SET OF is not checked: some clients write it unsorted.
 */
function readAttributes(attributes: DerReader): Extension[] {
  let extensions: Extension[] | undefined
  attributes.list('Attributes', () => {
    const attribute = attributes.sequence()
    const isRequest = attribute.oid() === EXTENSION_REQUEST
    const values = attribute.enter(TAG.set)
    attribute.finish('Attribute')
    if (!isRequest) {
      values.list('Attribute', () => values.any())
    } else {
      if (extensions) throw new CsrError('CSR has more than one extensionRequest attribute')
      extensions = readExtensions(values.sequence())
      values.finish('extensionRequest')
    }
  })
  return extensions ?? []
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
