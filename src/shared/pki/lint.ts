/**
 * Rules for any leaf certificate before it is signed: RFC 5280 and rules of the Baseline Requirements about form.
 *
 * It checks the values parsed back from the bytes: what a client will see, not what the builder meant.
 */

import { parseIpAddress } from '../lib/ip-address.ts'
import { CURVES, type Spki } from './algorithms.ts'
import { MAX_SERIAL_OCTETS, type TbsCertificate } from './certificate.ts'
import { type Extension, keyUsagesFor } from './extensions.ts'
import { commonNamesOf, type GeneralName, MAX_COMMON_NAME_CHARACTERS } from './name.ts'
import { ANY_EXTENDED_KEY_USAGE, EXTENSION } from './oids.ts'
import { timeFormOf } from './time.ts'

/** Adds findings to the caller's list; nearly all certificates have none, so a rule allocates nothing. */
type Rule = (tbs: TbsCertificate, findings: string[]) => void

/** Findings as sentences; an empty list means none. */
export function lintTbsCertificate(tbs: TbsCertificate): string[] {
  const findings: string[] = []
  for (const rule of RULES) rule(tbs, findings)
  return findings
}

/** BR §7.1: at least 64 random bits, which a shorter number cannot hold. */
const MIN_SERIAL_BITS = 64

function lintSerialNumber({ serialNumber }: TbsCertificate, findings: string[]): void {
  const magnitudeOctets = serialNumber[0] === 0 ? serialNumber.length - 1 : serialNumber.length
  if (serialNumber[0]! >= 0x80) findings.push('the serial number is negative')
  if (magnitudeOctets === 0) findings.push('the serial number is zero')
  if (serialNumber.length > MAX_SERIAL_OCTETS)
    findings.push(`the serial number has more than ${MAX_SERIAL_OCTETS} octets`)
  // Counted in octets: every second random 64-bit number begins with a zero bit.
  if (magnitudeOctets > 0 && magnitudeOctets * 8 < MIN_SERIAL_BITS)
    findings.push(`the serial number is shorter than ${MIN_SERIAL_BITS} bits`)
}

function lintVersionAndAlgorithm({ version, signatureAlgorithm }: TbsCertificate, findings: string[]): void {
  if (version !== 3) findings.push(`the version is ${version}, not 3`)
  if (signatureAlgorithm.algorithm === undefined)
    findings.push(`the signature algorithm ${signatureAlgorithm.oid} is unknown or has wrong parameters`)
}

function lintIssuer({ issuer }: TbsCertificate, findings: string[]): void {
  // RFC 5280 §4.1.2.4
  if (issuer.length === 0) findings.push('the issuer is empty')
}

function lintValidity(tbs: TbsCertificate, findings: string[]): void {
  const { notBefore, notAfter, notBeforeForm, notAfterForm } = tbs
  if (notBefore.getTime() >= notAfter.getTime()) findings.push('notBefore is not before notAfter')
  if (notBeforeForm !== timeFormOf(notBefore)) findings.push(`notBefore must be a ${timeFormOf(notBefore)}`)
  if (notAfterForm !== timeFormOf(notAfter)) findings.push(`notAfter must be a ${timeFormOf(notAfter)}`)
}

function lintBasicConstraints(tbs: TbsCertificate, findings: string[]): void {
  if (tbs.isCa) findings.push('basicConstraints says CA')
  if (tbs.pathLength !== undefined) findings.push('basicConstraints has a path length')
  if (findExtension(tbs, EXTENSION.basicConstraints)?.critical === false)
    findings.push('basicConstraints is not critical')
}

function lintSubjectAltName(tbs: TbsCertificate, findings: string[]): void {
  const extension = findExtension(tbs, EXTENSION.subjectAltName)
  if (!extension) {
    findings.push('subjectAltName is missing')
    return
  }
  // RFC 5280 §4.2.1.6
  const emptySubject = tbs.subject.length === 0
  if (emptySubject && !extension.critical) findings.push('subjectAltName is not critical although the subject is empty')
  if (!emptySubject && extension.critical) findings.push('subjectAltName is critical although the subject is not empty')
  for (const key of duplicatesOf(tbs.subjectAltNames)) findings.push(`subjectAltName has ${key} twice`)
  for (const name of tbs.dnsNames) lintDnsName(name, findings)
}

function duplicatesOf(names: readonly GeneralName[]): Iterable<string> {
  if (names.length === 1) return []
  const seen = new Set<string>()
  const duplicates = new Set<string>()
  for (const { kind, value } of names) {
    const key = `${kind} ${value.toLowerCase()}`
    if (seen.has(key)) duplicates.add(key)
    seen.add(key)
  }
  return duplicates
}

const HOST_NAME = /^(?:\*\.)?[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*$/i

/** Preferred name syntax (RFC 1034 §3.5, RFC 1123 §2.1). A wildcard is the whole first label (RFC 9525 §6.3). */
function lintDnsName(name: string, findings: string[]): void {
  if (name.length > 253) findings.push(`dNSName ${name} is longer than 253 characters`)
  if (!HOST_NAME.test(name)) findings.push(`dNSName ${JSON.stringify(name)} is not a host name`)
  if (parseIpAddress(name) !== undefined) findings.push(`dNSName ${name} is an IP address`)
}

function lintCommonName({ subject, subjectAltNames }: TbsCertificate, findings: string[]): void {
  if (subject.length === 0) return
  const commonNames = commonNamesOf(subject)
  const names = new Set(subjectAltNames.map(({ value }) => value))
  if (commonNames.length > 1) findings.push('the subject has more than one commonName')
  for (const commonName of commonNames) {
    if (!names.has(commonName))
      findings.push(`commonName ${JSON.stringify(commonName)} is not among the subjectAltNames`)
    if ([...commonName].length > MAX_COMMON_NAME_CHARACTERS)
      findings.push(`commonName is longer than ${MAX_COMMON_NAME_CHARACTERS} characters`)
  }
}

function lintKeyIdentifiers(tbs: TbsCertificate, findings: string[]): void {
  if (!tbs.authorityKeyIdentifier?.length) findings.push('authorityKeyIdentifier is missing or names no key')
  if (!tbs.subjectKeyIdentifier?.length) findings.push('subjectKeyIdentifier is missing or empty')
  // RFC 5280 §4.2.1.1, §4.2.1.2, §4.2.2.1
  if (findExtension(tbs, EXTENSION.authorityKeyIdentifier)?.critical)
    findings.push('authorityKeyIdentifier is critical')
  if (findExtension(tbs, EXTENSION.subjectKeyIdentifier)?.critical) findings.push('subjectKeyIdentifier is critical')
  if (findExtension(tbs, EXTENSION.authorityInfoAccess)?.critical) findings.push('authorityInfoAccess is critical')
}

function lintKeyUsage(tbs: TbsCertificate, findings: string[]): void {
  const extension = findExtension(tbs, EXTENSION.keyUsage)
  const { spki, keyUsages } = tbs
  if (!extension || spki.kind === 'unsupported') return
  const fitting = keyUsagesFor(spki.kind, keyUsages)
  for (const usage of keyUsages) {
    if (!fitting.includes(usage)) findings.push(`keyUsage ${usage} does not fit ${keyName(spki)} leaf key`)
  }
  if (!extension.critical) findings.push('keyUsage is not critical')
  const oneWay = keyUsages.includes('encipher_only') || keyUsages.includes('decipher_only')
  if (oneWay && !keyUsages.includes('key_agreement'))
    findings.push('encipher_only and decipher_only need key_agreement')
}

function keyName(spki: Spki): string {
  if (spki.kind === 'ec') return `a ${CURVES[spki.curve].bits}-bit EC`
  return spki.kind === 'rsa' ? 'an RSA' : 'an Ed25519'
}

function lintExtendedKeyUsage({ extendedKeyUsages }: TbsCertificate, findings: string[]): void {
  if (extendedKeyUsages.includes(ANY_EXTENDED_KEY_USAGE)) findings.push('extendedKeyUsage allows any purpose')
  if (extendedKeyUsages.length > 1 && new Set(extendedKeyUsages).size !== extendedKeyUsages.length)
    findings.push('extendedKeyUsage has a purpose twice')
}

const LIST_URL = /^(?:https?|ldap):\/\/./i

function lintCrlDistributionPoints(tbs: TbsCertificate, findings: string[]): void {
  const extension = findExtension(tbs, EXTENSION.crlDistributionPoints)
  if (!extension) return
  // RFC 5280 §4.2.1.13
  if (extension.critical) findings.push('crlDistributionPoints is critical')
  const { crlDistributionPointUrls: urls } = tbs
  if (urls.length === 0) findings.push('crlDistributionPoints names no URL')
  for (const url of urls) if (!LIST_URL.test(url)) findings.push(`CRL distribution point ${url} is no URL of a list`)
}

function lintUnknown({ unknownCriticalExtensions, spki }: TbsCertificate, findings: string[]): void {
  for (const oid of unknownCriticalExtensions) findings.push(`extension ${oid} is critical and unknown`)
  if (spki.kind === 'unsupported') findings.push('the subject key is of an unsupported type')
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

function findExtension({ extensions }: TbsCertificate, oid: string): Extension | undefined {
  for (const extension of extensions) if (extension.oid === oid) return extension
  return undefined
}
