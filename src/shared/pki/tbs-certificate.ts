/**
 * TBSCertificate (RFC 5280 §4.1): builds the one of a leaf, and reads any with its known extensions
 * decoded.
 */

import { hash } from 'node:crypto'
import {
  type AlgorithmIdentifier,
  readAlgorithmIdentifier,
  SIGNATURE_ALGORITHMS,
  type SignatureAlgorithm,
} from './algorithms.ts'
import { type DecodedExtensions, decodeExtensions } from './decoded-extensions.ts'
import { contextConstructedTag, contextTag, DerError, DerReader } from './der.ts'
import { type DerWriter, encodeDer } from './der-writer.ts'
import {
  type Extension,
  readExtensions,
  writeAuthorityInfoAccess,
  writeAuthorityKeyIdentifier,
  writeCertificatePolicies,
  writeCrlDistributionPoints,
  writeExtendedKeyUsage,
  writeKeyUsage,
  writeLeafBasicConstraints,
  writeSubjectAltName,
  writeSubjectKeyIdentifier,
} from './extensions.ts'
import { EMPTY_NAME, encodeCommonName, type Name, readName } from './name.ts'
import type { ExtendedKeyUsage, KeyUsage } from './oids.ts'
import { parseSpki, readSpki, type Spki } from './spki.ts'
import { readTime, type Time, writeTime } from './time.ts'

/** RFC 5280 §4.1.2.2: at most 20 octets, including the sign octet. */
export const MAX_SERIAL_OCTETS = 20

/** The members before the extensions, for leaf and CA certificates. */
export interface TbsFields {
  /** Big-endian magnitude, positive. */
  serialNumber: Buffer
  /** The algorithm that the issuer will sign with. */
  signatureAlgorithm: SignatureAlgorithm
  /** The issuer's subject, copied byte for byte. */
  issuerNameDer: Buffer
  notBefore: Date
  /** Inclusive: the last valid second. */
  notAfter: Date
  /** DER of the SubjectPublicKeyInfo, copied byte for byte. */
  spki: Buffer
}

export interface TbsCertificateInput extends TbsFields {
  /** The issuer's subjectKeyIdentifier. */
  authorityKeyIdentifier: Buffer
  /** Without it the subject is empty and the SAN is critical. */
  commonName?: string | undefined
  dnsNames: readonly string[]
  ipAddresses: readonly string[]
  /**
   * Used as given; `keyUsagesFor` narrows a profile's list to the key. Empty omits the extension.
   */
  keyUsages: readonly KeyUsage[]
  /** Empty omits the extension. */
  extendedKeyUsages: readonly ExtendedKeyUsage[]
  crlDistributionPointUrls?: readonly string[] | undefined
  caIssuersUrls?: readonly string[] | undefined
  ocspUrls?: readonly string[] | undefined
  policyOids?: readonly string[] | undefined
}

/**
 * DER of a leaf TBSCertificate.
 * @throws RangeError for input that no certificate can express, DerError when `spki` is no
 *   SubjectPublicKeyInfo
 */
export function buildTbsCertificate(input: TbsCertificateInput): Buffer {
  if (input.dnsNames.length + input.ipAddresses.length === 0) throw new RangeError('a certificate needs a name')
  checkSerialNumber(input.serialNumber)
  const subject = input.commonName === undefined ? EMPTY_NAME : encodeCommonName(input.commonName)
  const { keyBits } = parseSpki(input.spki)
  return encodeDer((writer) =>
    writer.sequence(() => {
      writeUpToExtensions(writer, input, subject)
      writer.constructed(contextConstructedTag(3), () => writer.sequence(() => writeExtensions(writer, input, keyBits)))
    }),
  )
}

/**
 * The members of a v3 TBSCertificate from version to subjectPublicKeyInfo, in the order of
 * RFC 5280 §4.1.
 */
export function writeUpToExtensions(writer: DerWriter, fields: TbsFields, subjectDer: Buffer): void {
  writer.constructed(contextConstructedTag(0), () => writer.smallInteger(2))
  writer.unsignedInteger(fields.serialNumber)
  writer.raw(SIGNATURE_ALGORITHMS[fields.signatureAlgorithm].identifierDer)
  writer.raw(fields.issuerNameDer)
  writer.sequence(() => {
    writeTime(writer, fields.notBefore)
    writeTime(writer, fields.notAfter)
  })
  writer.raw(subjectDer)
  writer.raw(fields.spki)
}

/**
 * The leftmost 160 bits of the SHA-256 of the key's BIT STRING (RFC 7093 §2, method 1).
 * RFC 5280 uses SHA-1, which FIPS builds drop; relying parties only compare the octets.
 */
export function subjectKeyIdentifier(keyBits: Buffer): Buffer {
  // Through text: a Buffer from `hash` takes twice the time.
  return Buffer.from(hash('sha256', keyBits, 'hex').slice(0, 40), 'hex')
}

function checkSerialNumber(serialNumber: Buffer): void {
  const first = serialNumber.findIndex((octet) => octet !== 0)
  if (first === -1) throw new RangeError('a serial number must be positive')
  const octets = serialNumber.length - first + (serialNumber[first]! >= 0x80 ? 1 : 0)
  if (octets > MAX_SERIAL_OCTETS) throw new RangeError(`a serial number has at most ${MAX_SERIAL_OCTETS} octets`)
}

/** In their order in the certificate. Only three differ between certificates of one profile. */
function writeExtensions(writer: DerWriter, input: TbsCertificateInput, keyBits: Buffer): void {
  const { keyUsages, extendedKeyUsages, authorityKeyIdentifier } = input
  const { crlDistributionPointUrls = [], caIssuersUrls = [], ocspUrls = [], policyOids = [] } = input
  writeShared(writer, `usages ${keyUsages.join()} ${extendedKeyUsages.join()}`, (shared) => {
    if (keyUsages.length > 0) writeKeyUsage(shared, keyUsages)
    if (extendedKeyUsages.length > 0) writeExtendedKeyUsage(shared, extendedKeyUsages)
    writeLeafBasicConstraints(shared)
  })
  writeSubjectKeyIdentifier(writer, subjectKeyIdentifier(keyBits))
  writeShared(
    writer,
    `issuer ${authorityKeyIdentifier.toString('hex')} ${JSON.stringify([ocspUrls, caIssuersUrls])}`,
    (shared) => {
      writeAuthorityKeyIdentifier(shared, authorityKeyIdentifier)
      if (ocspUrls.length + caIssuersUrls.length > 0) writeAuthorityInfoAccess(shared, ocspUrls, caIssuersUrls)
    },
  )
  // RFC 5280 §4.2.1.6: critical exactly when the subject is empty.
  writeSubjectAltName(writer, input, input.commonName === undefined)
  if (policyOids.length > 0)
    writeShared(writer, `policies ${JSON.stringify(policyOids)}`, (shared) =>
      writeCertificatePolicies(shared, policyOids),
    )
  if (crlDistributionPointUrls.length > 0)
    writeShared(writer, `lists ${JSON.stringify(crlDistributionPointUrls)}`, (shared) =>
      writeCrlDistributionPoints(shared, crlDistributionPointUrls),
    )
}

/**
 * Encoded extensions that certificates share, by their input. Few: profiles × issuers × CRL shards.
 */
const SHARED_EXTENSIONS = new Map<string, Buffer>()
const MAX_SHARED_EXTENSIONS = 1024

function writeShared(writer: DerWriter, key: string, write: (writer: DerWriter) => void): void {
  let der = SHARED_EXTENSIONS.get(key)
  if (!der) {
    der = Buffer.from(encodeDer(write))
    if (SHARED_EXTENSIONS.size < MAX_SHARED_EXTENSIONS) SHARED_EXTENSIONS.set(key, der)
  }
  writer.raw(der)
}

/** Buffers are views of the parsed bytes. */
export interface TbsCertificate extends DecodedExtensions {
  version: number
  /**
   * Content octets of the INTEGER: big-endian two's complement, a sign octet in front where the
   * magnitude needs it.
   */
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

/** Reads the next value of `reader` as TBSCertificate. @throws DerError */
export function readTbsCertificate(outer: DerReader): TbsCertificate {
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
