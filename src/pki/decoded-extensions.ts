/** The extensions of a certificate as plain values (RFC 5280 §4.2): what each known OID adds. */

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
} from './extensions.ts'
import { type GeneralName, valuesOfKind } from './general-names.ts'
import { EXTENSION, type KeyUsage } from './oids.ts'

/** Lists are empty and optional members undefined where an extension is absent. Buffers view the parsed bytes. */
export interface DecodedExtensions {
  /** OIDs of critical extensions that are not decoded here. */
  unknownCriticalExtensions: readonly string[]
  isCa: boolean
  pathLength: number | undefined
  keyUsages: readonly KeyUsage[]
  /** Configuration names; dotted OIDs where there is none. */
  extendedKeyUsages: readonly string[]
  subjectAltNames: readonly GeneralName[]
  /** The dNSName entries of `subjectAltNames`, as they stand. */
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

type Decode = (value: Buffer) => Partial<DecodedExtensions>

const DECODERS: ReadonlyMap<string, Decode> = new Map<string, Decode>([
  [EXTENSION.basicConstraints, parseBasicConstraints],
  [EXTENSION.keyUsage, (value) => ({ keyUsages: parseKeyUsage(value) })],
  [EXTENSION.extendedKeyUsage, (value) => ({ extendedKeyUsages: parseExtendedKeyUsage(value) })],
  [EXTENSION.subjectAltName, decodeSubjectAltName],
  [EXTENSION.authorityKeyIdentifier, (value) => ({ authorityKeyIdentifier: parseAuthorityKeyIdentifier(value) })],
  [EXTENSION.subjectKeyIdentifier, (value) => ({ subjectKeyIdentifier: parseSubjectKeyIdentifier(value) })],
  [EXTENSION.crlDistributionPoints, (value) => ({ crlDistributionPointUrls: parseCrlDistributionPoints(value) })],
  [EXTENSION.authorityInfoAccess, parseAuthorityInfoAccess],
  [EXTENSION.certificatePolicies, (value) => ({ policyOids: parseCertificatePolicies(value) })],
])

/** @throws DerError when a known extension is malformed */
export function decodeExtensions(extensions: readonly Extension[]): DecodedExtensions {
  const unknownCriticalExtensions: string[] = []
  const decoded: DecodedExtensions = {
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
    if (decode) Object.assign(decoded, decode(value))
    else if (critical) unknownCriticalExtensions.push(oid)
  }
  return decoded
}

function decodeSubjectAltName(value: Buffer): Partial<DecodedExtensions> {
  const subjectAltNames = parseSubjectAltName(value)
  return {
    subjectAltNames,
    dnsNames: valuesOfKind(subjectAltNames, 'dNSName'),
    ipAddresses: valuesOfKind(subjectAltNames, 'iPAddress'),
  }
}
