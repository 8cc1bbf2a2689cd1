/** X.509 v3 extensions (RFC 5280 §4.2) of leaf certificates: one reader and one writer per kind. */

import type { KeyKind } from './algorithms.ts'
import { contextConstructedTag, contextTag, DerError, DerReader, readSingle, TAG } from './der.ts'
import type { DerWriter } from './der-writer.ts'
import {
  type GeneralName,
  readGeneralName,
  readGeneralNames,
  valuesOfKind,
  writeDnsName,
  writeIpAddress,
  writeUri,
} from './name.ts'
import {
  ACCESS_METHOD,
  EXTENDED_KEY_USAGES,
  EXTENSION,
  type ExtendedKeyUsage,
  KEY_USAGES,
  type KeyUsage,
} from './oids.ts'

/** `value` is the content of the OCTET STRING. */
export interface Extension {
  oid: string
  critical: boolean
  value: Buffer
}

/**
 * Extensions up to the end of `reader`: at least one, none twice (RFC 5280 §4.2).
 * @throws DerError
 */
export function readExtensions(reader: DerReader): Extension[] {
  if (reader.exact && reader.done) throw new DerError('Extensions is empty', reader.offset)
  const seen = new Set<string>()
  return reader.list('Extensions', () => {
    const at = reader.offset
    const extension = readExtension(reader.sequence())
    if (seen.has(extension.oid)) throw new DerError(`extension ${extension.oid} stands twice`, at)
    seen.add(extension.oid)
    return extension
  })
}

function readExtension(reader: DerReader): Extension {
  const oid = reader.oid()
  const critical = reader.peek() === TAG.boolean ? readCritical(reader) : false
  const value = reader.octetString()
  reader.finish('Extension')
  return { oid, critical, value }
}

/** X.690 §11.5: DER leaves out a value equal to its default, so an explicit FALSE is not DER. */
function readCritical(reader: DerReader): boolean {
  const at = reader.offset
  const isCritical = reader.boolean()
  if (reader.exact && !isCritical) throw new DerError('critical FALSE must be left out', at)
  return isCritical
}

export function writeExtension(writer: DerWriter, oid: string, critical: boolean, writeValue: () => void): void {
  writer.sequence(() => {
    writer.oid(oid)
    if (critical) writer.boolean(true)
    writer.constructed(TAG.octetString, writeValue)
  })
}

/** RFC 5280 §4.2.1.9. @throws DerError */
export function parseBasicConstraints(
  value: Buffer,
  exact: boolean,
): { isCa: boolean; pathLength: number | undefined } {
  const reader = readSingle(value, TAG.sequence, 'BasicConstraints')
  const at = reader.offset
  const isWritten = reader.peek() === TAG.boolean
  const isCa = isWritten && reader.boolean()
  if (exact && isWritten && !isCa) throw new DerError('cA FALSE must be left out', at)
  const pathLength = reader.peek() === TAG.integer ? reader.smallInteger() : undefined
  reader.finish('BasicConstraints')
  return { isCa, pathLength }
}

/** An empty sequence: cA is FALSE by default. */
export function writeLeafBasicConstraints(writer: DerWriter): void {
  writeExtension(writer, EXTENSION.basicConstraints, true, () => writer.sequence(() => {}))
}

/**
 * RFC 5280 §4.2.1.3: no bit beyond the nine, and in exact bytes at least one, without trailing zeros.
 * @throws DerError
 */
export function parseKeyUsage(value: Buffer, exact: boolean): KeyUsage[] {
  const reader = new DerReader(value)
  const { unusedBits, bytes } = reader.bitString()
  reader.finish('KeyUsage')
  const bits = bytes.length * 8 - unusedBits
  const lastBit = bits > 0 ? bytes[(bits - 1) >> 3]! & (0x80 >> ((bits - 1) & 7)) : 0
  // X.690 §11.2.2: trailing zero bits of a named bit list are removed.
  if (exact && lastBit === 0) throw new DerError('KeyUsage is not a minimal list of bits', 0)
  if (bits > KEY_USAGES.length && (bytes[1]! & 0x7f || bytes.length > 2))
    throw new DerError('KeyUsage has unknown bits', 0)
  return KEY_USAGES.filter((_, bit) => bit < bits && (bytes[bit >> 3]! & (0x80 >> (bit & 7))) !== 0)
}

export function writeKeyUsage(writer: DerWriter, usages: readonly KeyUsage[]): void {
  writeExtension(writer, EXTENSION.keyUsage, true, () =>
    writer.namedBits(usages.map((usage) => KEY_USAGES.indexOf(usage))),
  )
}

/** Usages that fit a leaf key of each kind (RFC 4055 §1.2, RFC 8813 §3, RFC 8410 §5). */
const LEAF_USAGES: Record<KeyKind, readonly KeyUsage[]> = {
  rsa: ['digital_signature', 'content_commitment', 'key_encipherment', 'data_encipherment'],
  ec: ['digital_signature', 'content_commitment', 'key_agreement', 'encipher_only', 'decipher_only'],
  ed25519: ['digital_signature', 'content_commitment'],
}

/** The usages that fit the kind of key: a profile lists usages for all key types at once. */
export function keyUsagesFor(keyKind: KeyKind, usages: readonly KeyUsage[]): KeyUsage[] {
  return usages.filter((usage) => LEAF_USAGES[keyKind].includes(usage))
}

const KEY_PURPOSE_NAMES: ReadonlyMap<string, string> = new Map(
  Object.entries(EXTENDED_KEY_USAGES).map(([name, { oid }]) => [oid, name]),
)

/** Configuration names of the purposes, or dotted OIDs (RFC 5280 §4.2.1.12). @throws DerError */
export function parseExtendedKeyUsage(value: Buffer): string[] {
  const reader = readSingle(value, TAG.sequence, 'ExtKeyUsageSyntax')
  if (reader.done) throw new DerError('ExtKeyUsageSyntax is empty', 0)
  return reader.list('ExtKeyUsageSyntax', () => {
    const oid = reader.oid()
    return KEY_PURPOSE_NAMES.get(oid) ?? oid
  })
}

export function writeExtendedKeyUsage(writer: DerWriter, purposes: readonly ExtendedKeyUsage[]): void {
  writeExtension(writer, EXTENSION.extendedKeyUsage, false, () =>
    writer.sequence(() => {
      for (const purpose of purposes) writer.oid(EXTENDED_KEY_USAGES[purpose].oid)
    }),
  )
}

/** RFC 5280 §4.2.1.6. @throws DerError */
export function parseSubjectAltName(value: Buffer): GeneralName[] {
  return readGeneralNames(readSingle(value, TAG.sequence, 'SubjectAltName'))
}

export function writeSubjectAltName(
  writer: DerWriter,
  names: { dnsNames: readonly string[]; ipAddresses: readonly string[] },
  critical: boolean,
): void {
  writeExtension(writer, EXTENSION.subjectAltName, critical, () =>
    writer.sequence(() => {
      for (const name of names.dnsNames) writeDnsName(writer, name)
      for (const address of names.ipAddresses) writeIpAddress(writer, address)
    }),
  )
}

/** RFC 5280 §4.2.1.2. @throws DerError */
export function parseSubjectKeyIdentifier(value: Buffer): Buffer {
  const reader = new DerReader(value)
  const identifier = reader.octetString()
  reader.finish('SubjectKeyIdentifier')
  return identifier
}

export function writeSubjectKeyIdentifier(writer: DerWriter, identifier: Buffer): void {
  writeExtension(writer, EXTENSION.subjectKeyIdentifier, false, () => writer.octetString(identifier))
}

/**
 * The keyIdentifier of RFC 5280 §4.2.1.1; undefined when issuer and serial alone name the key.
 * @throws DerError
 */
export function parseAuthorityKeyIdentifier(value: Buffer): Buffer | undefined {
  const reader = readSingle(value, TAG.sequence, 'AuthorityKeyIdentifier')
  const keyIdentifier = reader.peek() === contextTag(0) ? reader.content(contextTag(0)) : undefined
  const issuer = reader.enterOptional(contextConstructedTag(1))
  if (issuer) readGeneralNames(issuer)
  if (reader.peek() === contextTag(2)) reader.content(contextTag(2))
  reader.finish('AuthorityKeyIdentifier')
  return keyIdentifier
}

export function writeAuthorityKeyIdentifier(writer: DerWriter, keyIdentifier: Buffer): void {
  writeExtension(writer, EXTENSION.authorityKeyIdentifier, false, () =>
    writer.sequence(() => writer.primitive(contextTag(0), keyIdentifier)),
  )
}

/**
 * URIs of all distribution points (RFC 5280 §4.2.1.13); other names are ignored.
 * @throws DerError
 */
export function parseCrlDistributionPoints(value: Buffer): string[] {
  const points = readSingle(value, TAG.sequence, 'CRLDistributionPoints')
  if (points.done) throw new DerError('CRLDistributionPoints is empty', 0)
  return points.list('CRLDistributionPoints', () => readDistributionPoint(points.sequence())).flat()
}

/**
 * URIs of an optional DistributionPointName at the start of `reader`; a name relative to the issuer has none.
 * @throws DerError
 */
export function readDistributionPointName(reader: DerReader): string[] {
  const name = reader.enterOptional(contextConstructedTag(0))
  const fullName = name?.enterOptional(contextConstructedTag(0))
  const urls = fullName ? urisOf(readGeneralNames(fullName)) : []
  if (name && !name.done) name.any()
  name?.finish('DistributionPointName')
  return urls
}

function readDistributionPoint(point: DerReader): string[] {
  const urls = readDistributionPointName(point)
  if (point.peek() === contextTag(1)) point.content(contextTag(1))
  const crlIssuer = point.enterOptional(contextConstructedTag(2))
  if (crlIssuer) readGeneralNames(crlIssuer)
  point.finish('DistributionPoint')
  return urls
}

/** One distribution point with all URLs, because they name the same CRL. */
export function writeCrlDistributionPoints(writer: DerWriter, urls: readonly string[]): void {
  writeExtension(writer, EXTENSION.crlDistributionPoints, false, () =>
    writer.sequence(() => writer.sequence(() => writeDistributionPointName(writer, urls))),
  )
}

/** `distributionPoint` as full names, in a DistributionPoint (§4.2.1.13) or an IssuingDistributionPoint (§5.2.5). */
export function writeDistributionPointName(writer: DerWriter, urls: readonly string[]): void {
  writer.constructed(contextConstructedTag(0), () =>
    writer.constructed(contextConstructedTag(0), () => {
      for (const url of urls) writeUri(writer, url)
    }),
  )
}

interface AuthorityInfoAccess {
  ocspUrls: string[]
  caIssuersUrls: string[]
}

/** RFC 5280 §4.2.2.1; other methods and locations other than URIs are ignored. @throws DerError */
export function parseAuthorityInfoAccess(value: Buffer): AuthorityInfoAccess {
  const descriptions = readSingle(value, TAG.sequence, 'AuthorityInfoAccess')
  if (descriptions.done) throw new DerError('AuthorityInfoAccess is empty', 0)
  const access: AuthorityInfoAccess = { ocspUrls: [], caIssuersUrls: [] }
  descriptions.list('AuthorityInfoAccess', () => {
    const description = descriptions.sequence()
    const method = description.oid()
    const urls = urisOf([readGeneralName(description)])
    description.finish('AccessDescription')
    if (method === ACCESS_METHOD.ocsp) access.ocspUrls.push(...urls)
    if (method === ACCESS_METHOD.caIssuers) access.caIssuersUrls.push(...urls)
  })
  return access
}

export function writeAuthorityInfoAccess(
  writer: DerWriter,
  ocspUrls: readonly string[],
  caIssuersUrls: readonly string[],
): void {
  const describe = (method: string, url: string) =>
    writer.sequence(() => {
      writer.oid(method)
      writeUri(writer, url)
    })
  writeExtension(writer, EXTENSION.authorityInfoAccess, false, () =>
    writer.sequence(() => {
      for (const url of ocspUrls) describe(ACCESS_METHOD.ocsp, url)
      for (const url of caIssuersUrls) describe(ACCESS_METHOD.caIssuers, url)
    }),
  )
}

/**
 * OIDs of the policies (RFC 5280 §4.2.1.4), none twice. Only the form of qualifiers is checked.
 * @throws DerError
 */
export function parseCertificatePolicies(value: Buffer): string[] {
  const policies = readSingle(value, TAG.sequence, 'CertificatePolicies')
  if (policies.done) throw new DerError('CertificatePolicies is empty', 0)
  const seen = new Set<string>()
  return policies.list('CertificatePolicies', () => {
    const at = policies.offset
    const policy = policies.sequence()
    const oid = policy.oid()
    if (!policy.done) policy.any()
    policy.finish('PolicyInformation')
    if (seen.has(oid)) throw new DerError(`policy ${oid} stands twice`, at)
    seen.add(oid)
    return oid
  })
}

export function writeCertificatePolicies(writer: DerWriter, oids: readonly string[]): void {
  writeExtension(writer, EXTENSION.certificatePolicies, false, () =>
    writer.sequence(() => {
      for (const oid of oids) writer.sequence(() => writer.oid(oid))
    }),
  )
}

function urisOf(names: readonly GeneralName[]): string[] {
  return valuesOfKind(names, 'uniformResourceIdentifier')
}
