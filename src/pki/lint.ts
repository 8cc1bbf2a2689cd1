/**
 * What must hold for any leaf certificate before a key signs it: RFC 5280 and those rules of the CA/Browser Forum
 * Baseline Requirements that are about form rather than about public trust.
 *
 * Works on what was parsed back from the bytes, so it sees what a client would see, not what the builder meant.
 */

import { CURVES } from './algorithms.ts'
import { keyUsagesFor } from './extensions.ts'
import { parseIpAddress } from './ip-address.ts'
import { commonNamesOf, MAX_COMMON_NAME_CHARACTERS } from './name.ts'
import { ANY_EXTENDED_KEY_USAGE, EXTENSION } from './oids.ts'
import { MAX_SERIAL_OCTETS, type TbsCertificate } from './tbs-certificate.ts'
import { timeFormOf } from './time.ts'

type Rule = (tbs: TbsCertificate) => string[]

/** Findings as sentences; an empty list means none. */
export function lintTbsCertificate(tbs: TbsCertificate): string[] {
  return RULES.flatMap((rule) => rule(tbs))
}

/** BR §7.1: at least 64 bits from a random generator; a shorter number cannot hold them. */
const MIN_SERIAL_BITS = 64

function lintSerialNumber({ serialNumber }: TbsCertificate): string[] {
  const negative = serialNumber[0]! >= 0x80
  const magnitude = serialNumber[0] === 0 ? serialNumber.subarray(1) : serialNumber
  return findings([
    [negative, 'the serial number is negative'],
    [magnitude.length === 0, 'the serial number is zero'],
    [serialNumber.length > MAX_SERIAL_OCTETS, () => `the serial number has more than ${MAX_SERIAL_OCTETS} octets`],
    // Counted in octets: a random 64-bit number starts with zero bits every second time.
    [
      magnitude.length > 0 && magnitude.length * 8 < MIN_SERIAL_BITS,
      () => `the serial number is shorter than ${MIN_SERIAL_BITS} bits`,
    ],
  ])
}

function lintVersionAndAlgorithm({ version, signatureAlgorithm }: TbsCertificate): string[] {
  return findings([
    [version !== 3, () => `the version is ${version}, not 3`],
    [
      signatureAlgorithm.algorithm === undefined,
      () => `the signature algorithm ${signatureAlgorithm.oid} is unknown or has wrong parameters`,
    ],
  ])
}

function lintIssuer({ issuer }: TbsCertificate): string[] {
  // RFC 5280 §4.1.2.4
  return findings([[issuer.length === 0, 'the issuer is empty']])
}

function lintValidity({ notBefore, notAfter, notBeforeForm, notAfterForm }: TbsCertificate): string[] {
  return findings([
    [notBefore >= notAfter, 'notBefore is not before notAfter'],
    [notBeforeForm !== timeFormOf(notBefore), () => `notBefore must be a ${timeFormOf(notBefore)}`],
    [notAfterForm !== timeFormOf(notAfter), () => `notAfter must be a ${timeFormOf(notAfter)}`],
  ])
}

function lintBasicConstraints(tbs: TbsCertificate): string[] {
  const extension = findExtension(tbs, EXTENSION.basicConstraints)
  return findings([
    [tbs.isCa, 'basicConstraints says CA'],
    [tbs.pathLength !== undefined, 'basicConstraints has a path length'],
    [extension !== undefined && !extension.critical, 'basicConstraints is not critical'],
  ])
}

function lintSubjectAltName(tbs: TbsCertificate): string[] {
  const extension = findExtension(tbs, EXTENSION.subjectAltName)
  if (!extension) return ['subjectAltName is missing']
  const emptySubject = tbs.subject.length === 0
  const seen = new Set<string>()
  const duplicates = new Set<string>()
  for (const { kind, value } of tbs.subjectAltNames) {
    const key = `${kind} ${value.toLowerCase()}`
    if (seen.has(key)) duplicates.add(key)
    seen.add(key)
  }
  return [
    ...findings([
      // RFC 5280 §4.2.1.6
      [emptySubject && !extension.critical, 'subjectAltName is not critical although the subject is empty'],
      [!emptySubject && extension.critical, 'subjectAltName is critical although the subject is not empty'],
    ]),
    ...[...duplicates].map((key) => `subjectAltName has ${key} twice`),
    ...tbs.dnsNames.flatMap(lintDnsName),
  ]
}

const LDH_LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i

/** Preferred name syntax (RFC 1034 §3.5 with RFC 1123 §2.1), a wildcard only as the whole first label (RFC 9525 §6.3). */
function lintDnsName(name: string): string[] {
  const labels = (name.startsWith('*.') ? name.slice(2) : name).split('.')
  return findings([
    [name.length > 253, () => `dNSName ${name} is longer than 253 characters`],
    [!labels.every((label) => LDH_LABEL.test(label)), () => `dNSName ${JSON.stringify(name)} is not a host name`],
    [parseIpAddress(name) !== undefined, () => `dNSName ${name} is an IP address`],
  ])
}

function lintCommonName(tbs: TbsCertificate): string[] {
  const names = new Set(tbs.subjectAltNames.map(({ value }) => value))
  const commonNames = commonNamesOf(tbs.subject)
  return [
    ...findings([[commonNames.length > 1, 'the subject has more than one commonName']]),
    ...commonNames.flatMap((commonName) =>
      findings([
        [!names.has(commonName), () => `commonName ${JSON.stringify(commonName)} is not among the subjectAltNames`],
        [
          [...commonName].length > MAX_COMMON_NAME_CHARACTERS,
          () => `commonName is longer than ${MAX_COMMON_NAME_CHARACTERS} characters`,
        ],
      ]),
    ),
  ]
}

function lintKeyIdentifiers(tbs: TbsCertificate): string[] {
  const isCritical = (oid: string) => findExtension(tbs, oid)?.critical === true
  return findings([
    [!tbs.authorityKeyIdentifier?.length, 'authorityKeyIdentifier is missing or names no key'],
    [!tbs.subjectKeyIdentifier?.length, 'subjectKeyIdentifier is missing or empty'],
    // RFC 5280 §4.2.1.1, §4.2.1.2, §4.2.2.1
    [isCritical(EXTENSION.authorityKeyIdentifier), 'authorityKeyIdentifier is critical'],
    [isCritical(EXTENSION.subjectKeyIdentifier), 'subjectKeyIdentifier is critical'],
    [isCritical(EXTENSION.authorityInfoAccess), 'authorityInfoAccess is critical'],
  ])
}

function lintKeyUsage(tbs: TbsCertificate): string[] {
  const extension = findExtension(tbs, EXTENSION.keyUsage)
  const { spki } = tbs
  if (!extension || spki.kind === 'unsupported') return []
  const fitting = keyUsagesFor(spki.kind, tbs.keyUsages)
  const keyName =
    spki.kind === 'ec' ? `a ${CURVES[spki.curve].bits}-bit EC` : spki.kind === 'rsa' ? 'an RSA' : 'an Ed25519'
  const oneWay = tbs.keyUsages.includes('encipher_only') || tbs.keyUsages.includes('decipher_only')
  return [
    ...tbs.keyUsages
      .filter((usage) => !fitting.includes(usage))
      .map((usage) => `keyUsage ${usage} does not fit ${keyName} leaf key`),
    ...findings([
      [!extension.critical, 'keyUsage is not critical'],
      [oneWay && !tbs.keyUsages.includes('key_agreement'), 'encipher_only and decipher_only need key_agreement'],
    ]),
  ]
}

function lintExtendedKeyUsage({ extendedKeyUsages }: TbsCertificate): string[] {
  return findings([
    [extendedKeyUsages.includes(ANY_EXTENDED_KEY_USAGE), 'extendedKeyUsage allows any purpose'],
    [new Set(extendedKeyUsages).size !== extendedKeyUsages.length, 'extendedKeyUsage has a purpose twice'],
  ])
}

function lintCrlDistributionPoints(tbs: TbsCertificate): string[] {
  const extension = findExtension(tbs, EXTENSION.crlDistributionPoints)
  if (!extension) return []
  const { crlDistributionPointUrls: urls } = tbs
  return [
    ...findings([
      // RFC 5280 §4.2.1.13
      [extension.critical, 'crlDistributionPoints is critical'],
      [urls.length === 0, 'crlDistributionPoints names no URL'],
    ]),
    ...urls
      .filter((url) => !/^(?:https?|ldap):\/\/./i.test(url))
      .map((url) => `CRL distribution point ${url} is no URL of a list`),
  ]
}

function lintUnknown({ unknownCriticalExtensions, spki }: TbsCertificate): string[] {
  return [
    ...unknownCriticalExtensions.map((oid) => `extension ${oid} is critical and unknown`),
    ...findings([[spki.kind === 'unsupported', 'the subject key is of an unsupported type']]),
  ]
}

const RULES: readonly Rule[] = [
  lintSerialNumber,
  lintVersionAndAlgorithm,
  lintIssuer,
  lintValidity,
  lintBasicConstraints,
  lintSubjectAltName,
  lintCommonName,
  lintKeyIdentifiers,
  lintKeyUsage,
  lintExtendedKeyUsage,
  lintCrlDistributionPoints,
  lintUnknown,
]

function findExtension(tbs: TbsCertificate, oid: string) {
  return tbs.extensions.find((extension) => extension.oid === oid)
}

/** A sentence that quotes the certificate is a function: almost every certificate has nothing to say. */
type Finding = readonly [wrong: boolean, sentence: string | (() => string)]

function findings(table: readonly Finding[]): string[] {
  const sentences: string[] = []
  for (const [wrong, sentence] of table) {
    if (wrong) sentences.push(typeof sentence === 'string' ? sentence : sentence())
  }
  return sentences
}
