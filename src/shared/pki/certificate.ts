/**
 * Certificates (RFC 5280 §4.1): assembling, reading, verifying and naming. The TBSCertificate has its known extensions
 * decoded.
 */

import { hash, KeyObject } from 'node:crypto'
import {
  type AlgorithmIdentifier,
  parseSpki,
  readAlgorithmIdentifier,
  readSpki,
  SIGNATURE_ALGORITHMS,
  type SignatureAlgorithm,
  type Spki,
  verifySignature,
} from './algorithms.ts'
import { contextConstructedTag, contextTag, DerError, DerReader, readSingle, TAG } from './der.ts'
import { encodeDer } from './der-writer.ts'
import {
  type Extension,
  parseAuthorityInfoAccess,
  parseAuthorityKeyIdentifier,
  parseBasicConstraints,
  parseCertificatePolicies,
  parseCrlDistributionPoints,
  parseExtendedKeyUsage,
  parseKeyUsage,
  parseSubjectAltName,
  parseSubjectKeyIdentifier,
  readExtensions,
} from './extensions.ts'
import { type GeneralName, type Name, readName, valuesOfKind } from './name.ts'
import { EXTENSION, type KeyUsage } from './oids.ts'
import { readTime, type Time } from './time.ts'

/** RFC 5280 §4.1.2.2: at most 20 octets, including the sign octet. */
export const MAX_SERIAL_OCTETS = 20

/** Buffers are views of `der`. */
export interface Certificate {
  der: Buffer
  tbs: TbsCertificate
  tbsDer: Buffer
  /** Undefined for an unsupported algorithm; its OID is in `tbs.signatureAlgorithm`. */
  signatureAlgorithm: SignatureAlgorithm | undefined
  signature: Buffer
}

/** `signature` in its X.509 form: DER for ECDSA, plain octets otherwise. */
export function assembleCertificate(tbs: Buffer, signatureAlgorithm: SignatureAlgorithm, signature: Buffer): Buffer {
  return encodeDer((writer) =>
    writer.sequence(() => {
      writer.raw(tbs)
      writer.raw(SIGNATURE_ALGORITHMS[signatureAlgorithm].identifierDer)
      writer.bitStringOctets(signature)
    }),
  )
}

/** Reads a certificate that fills the whole Buffer, by whatever CA. @throws DerError */
export function parseCertificate(der: Buffer): Certificate {
  const reader = readSingle(der, TAG.sequence, 'Certificate', false)
  const tbsStart = reader.offset
  const tbs = readTbsCertificate(reader)
  const tbsDer = der.subarray(tbsStart, reader.offset)
  const algorithmAt = reader.offset
  const { algorithm, der: identifierDer } = readAlgorithmIdentifier(reader)
  // RFC 5280 §4.1.1.2: the unsigned copy must equal the signed one.
  if (!identifierDer.equals(tbs.signatureAlgorithm.der)) {
    throw new DerError('signatureAlgorithm differs from the one inside the TBSCertificate', algorithmAt)
  }
  const signature = reader.bitStringOctets()
  reader.finish('Certificate')
  return { der, tbs, tbsDer, signatureAlgorithm: algorithm, signature }
}

/**
 * Whether the issuer's key made the signature. A key in DER is imported at each call, so frequent
 * callers pass a KeyObject.
 * @throws DerError when `issuerKey` is no SubjectPublicKeyInfo
 */
export function verifyCertificateSignature(certificate: Certificate, issuerKey: KeyObject | Buffer): boolean {
  const key = issuerKey instanceof KeyObject ? issuerKey : parseSpki(issuerKey)
  return verifySignature(certificate.signatureAlgorithm, certificate.tbsDer, key, certificate.signature)
}

/** Lower-case hexadecimal SHA-256 of the whole certificate. */
export function fingerprintSha256(der: Buffer): string {
  return hash('sha256', der, 'hex')
}

/** Buffers are views of the parsed bytes. */
export interface TbsCertificate extends DecodedExtensions {
  version: number
  /** Content octets of the INTEGER: big-endian two's complement, a sign octet in front where the magnitude needs it. */
  serialNumber: Buffer
  signatureAlgorithm: AlgorithmIdentifier
  issuerDer: Buffer
  issuer: Name
  subjectDer: Buffer
  subject: Name
  notBefore: Date
  notAfter: Date
  notBeforeForm: Time['form']
  notAfterForm: Time['form']
  spki: Spki
  extensions: readonly Extension[]
}

/** Reads an exact TBSCertificate that fills the whole Buffer: it will be signed. @throws DerError */
export function parseTbsCertificate(der: Buffer): TbsCertificate {
  const reader = new DerReader(der)
  const tbs = readTbsCertificate(reader)
  reader.finish('TBSCertificate')
  return tbs
}

/** Reads the next value of `outer` as TBSCertificate. @throws DerError */
function readTbsCertificate(outer: DerReader): TbsCertificate {
  const reader = outer.sequence()
  const version = readVersion(reader)
  const serialNumber = reader.integer()
  const signatureAlgorithm = readAlgorithmIdentifier(reader)
  const issuer = readName(reader)
  const validity = reader.sequence()
  const notBefore = readTime(validity)
  const notAfter = readTime(validity)
  validity.finish('Validity')
  const subject = readName(reader)
  const spki = readSpki(reader)
  refuseUniqueIdentifiers(reader)
  const extensions = readExtensionList(reader, version)
  reader.finish('TBSCertificate')
  const decoded = decodeExtensions(extensions, outer.exact)
  // One by one: a spread of so many members is slow in V8.
  return {
    version,
    serialNumber,
    signatureAlgorithm,
    issuerDer: issuer.der,
    issuer: issuer.name,
    subjectDer: subject.der,
    subject: subject.name,
    notBefore: notBefore.at,
    notAfter: notAfter.at,
    notBeforeForm: notBefore.form,
    notAfterForm: notAfter.form,
    spki,
    extensions,
    unknownCriticalExtensions: decoded.unknownCriticalExtensions,
    isCa: decoded.isCa,
    pathLength: decoded.pathLength,
    keyUsages: decoded.keyUsages,
    extendedKeyUsages: decoded.extendedKeyUsages,
    subjectAltNames: decoded.subjectAltNames,
    dnsNames: decoded.dnsNames,
    ipAddresses: decoded.ipAddresses,
    authorityKeyIdentifier: decoded.authorityKeyIdentifier,
    subjectKeyIdentifier: decoded.subjectKeyIdentifier,
    crlDistributionPointUrls: decoded.crlDistributionPointUrls,
    ocspUrls: decoded.ocspUrls,
    caIssuersUrls: decoded.caIssuersUrls,
    policyOids: decoded.policyOids,
  }
}

/** Hexadecimal serial number, lower case, without the sign octet, as in databases and logs. */
export function serialNumberHex(serialNumber: Buffer): string {
  const hex = serialNumber.toString('hex')
  return serialNumber.length > 1 && serialNumber[0] === 0 ? hex.slice(2) : hex
}

function readVersion(reader: DerReader): number {
  const at = reader.offset
  const explicit = reader.enterOptional(contextConstructedTag(0))
  if (!explicit) return 1
  const version = explicit.smallInteger() + 1
  explicit.finish('Version')
  // X.690 §11.5: v1 is the default and therefore never written.
  if (version === 1 || version > 3) throw new DerError('certificate version must be v1 (left out), v2 or v3', at)
  return version
}

function refuseUniqueIdentifiers(reader: DerReader): void {
  const tag = reader.peek()
  // RFC 5280 §4.1.2.8: conforming CAs never write unique identifiers.
  if (tag === contextTag(1) || tag === contextTag(2)) {
    throw new DerError('unique identifiers are not used in certificates', reader.offset)
  }
}

function readExtensionList(reader: DerReader, version: number): Extension[] {
  const at = reader.offset
  const explicit = reader.enterOptional(contextConstructedTag(3))
  if (!explicit) return []
  if (version !== 3) throw new DerError('only a v3 certificate has extensions', at)
  const extensions = readExtensions(explicit.sequence())
  explicit.finish('Extensions')
  return extensions
}

/** Lists are empty and optional members undefined where an extension is absent. Buffers view the parsed bytes. */
interface DecodedExtensions {
  /** OIDs of critical extensions that are not decoded here. */
  unknownCriticalExtensions: readonly string[]
  isCa: boolean
  pathLength: number | undefined
  keyUsages: readonly KeyUsage[]
  /** Configuration names, or dotted OIDs for purposes without one. */
  extendedKeyUsages: readonly string[]
  subjectAltNames: readonly GeneralName[]
  /** The dNSName entries of `subjectAltNames`, unchanged. */
  dnsNames: readonly string[]
  /** The iPAddress entries, canonical text. */
  ipAddresses: readonly string[]
  authorityKeyIdentifier: Buffer | undefined
  subjectKeyIdentifier: Buffer | undefined
  crlDistributionPointUrls: readonly string[]
  ocspUrls: readonly string[]
  caIssuersUrls: readonly string[]
  policyOids: readonly string[]
}

type Decode = (decoded: Writable<DecodedExtensions>, value: Buffer, exact: boolean) => void
type Writable<T> = { -readonly [K in keyof T]: T[K] }

/** Each writes its members in place: merging objects would cost as much as parsing. */
const DECODERS: ReadonlyMap<string, Decode> = new Map<string, Decode>([
  [EXTENSION.basicConstraints, decodeBasicConstraints],
  [EXTENSION.keyUsage, into('keyUsages', parseKeyUsage)],
  [EXTENSION.extendedKeyUsage, into('extendedKeyUsages', parseExtendedKeyUsage)],
  [EXTENSION.subjectAltName, decodeSubjectAltName],
  [EXTENSION.authorityKeyIdentifier, into('authorityKeyIdentifier', parseAuthorityKeyIdentifier)],
  [EXTENSION.subjectKeyIdentifier, into('subjectKeyIdentifier', parseSubjectKeyIdentifier)],
  [EXTENSION.crlDistributionPoints, into('crlDistributionPointUrls', parseCrlDistributionPoints)],
  [EXTENSION.authorityInfoAccess, decodeAuthorityInfoAccess],
  [EXTENSION.certificatePolicies, into('policyOids', parseCertificatePolicies)],
])

function into<M extends keyof DecodedExtensions>(
  member: M,
  parse: (value: Buffer, exact: boolean) => DecodedExtensions[M],
): Decode {
  return (decoded, value, exact) => {
    decoded[member] = parse(value, exact)
  }
}

/** @throws DerError when a known extension is malformed */
function decodeExtensions(extensions: readonly Extension[], exact: boolean): DecodedExtensions {
  const unknownCriticalExtensions: string[] = []
  const decoded: Writable<DecodedExtensions> = {
    unknownCriticalExtensions,
    isCa: false,
    pathLength: undefined,
    keyUsages: [],
    extendedKeyUsages: [],
    subjectAltNames: [],
    dnsNames: [],
    ipAddresses: [],
    authorityKeyIdentifier: undefined,
    subjectKeyIdentifier: undefined,
    crlDistributionPointUrls: [],
    ocspUrls: [],
    caIssuersUrls: [],
    policyOids: [],
  }
  for (const { oid, critical, value } of extensions) {
    const decode = DECODERS.get(oid)
    if (decode) decode(decoded, value, exact)
    else if (critical) unknownCriticalExtensions.push(oid)
  }
  return decoded
}

function decodeBasicConstraints(decoded: Writable<DecodedExtensions>, value: Buffer, exact: boolean): void {
  const { isCa, pathLength } = parseBasicConstraints(value, exact)
  decoded.isCa = isCa
  decoded.pathLength = pathLength
}

function decodeSubjectAltName(decoded: Writable<DecodedExtensions>, value: Buffer): void {
  const subjectAltNames = parseSubjectAltName(value)
  decoded.subjectAltNames = subjectAltNames
  decoded.dnsNames = valuesOfKind(subjectAltNames, 'dNSName')
  decoded.ipAddresses = valuesOfKind(subjectAltNames, 'iPAddress')
}

function decodeAuthorityInfoAccess(decoded: Writable<DecodedExtensions>, value: Buffer): void {
  const { ocspUrls, caIssuersUrls } = parseAuthorityInfoAccess(value)
  decoded.ocspUrls = ocspUrls
  decoded.caIssuersUrls = caIssuersUrls
}
