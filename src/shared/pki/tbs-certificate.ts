/** Builds the TBSCertificate of a leaf (RFC 5280 §4.1). `certificate.ts` reads it. */

import { parseSpki, SIGNATURE_ALGORITHMS, type SignatureAlgorithm, subjectKeyIdentifier } from './algorithms.ts'
import { MAX_SERIAL_OCTETS } from './certificate.ts'
import { contextConstructedTag } from './der.ts'
import { type DerWriter, encodeDer } from './der-writer.ts'
import {
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
import { EMPTY_NAME, encodeCommonName } from './name.ts'
import type { ExtendedKeyUsage, KeyUsage } from './oids.ts'
import { writeTime } from './time.ts'

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
  /** Used as given; `keyUsagesFor` narrows a profile's list to the key. Empty omits the extension. */
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

/** The members of a v3 TBSCertificate from version to subjectPublicKeyInfo, in the order of RFC 5280 §4.1. */
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

/** Encoded extensions that certificates share, by their input. Few: profiles × issuers × CRL shards. */
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
