/** Certificate extensions as plain values (RFC 5280 §4.2), with a decoder for each known OID. */

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

/**
 * Lists are empty and optional members undefined where an extension is absent. Buffers view the
 * parsed bytes.
 */
export interface DecodedExtensions {
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
export function decodeExtensions(extensions: readonly Extension[], exact: boolean): DecodedExtensions {
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
