/**
 * Checks the CSR of a finalize request (RFC 8555 §7.4; docs/decisions/certificate-content.md,
 * docs/decisions/subject-keys.md). Pure: the CSR arrives parsed.
 */

import { formatIpAddress, parseIpAddress } from '../shared/lib/ip-address.ts'
import { otherSignatureAlgorithmName, type SignatureAlgorithm } from '../shared/pki/algorithms.ts'
import { type Csr, UNREADABLE, verifyCsrSignature } from '../shared/pki/csr.ts'
import { type GeneralName, MAX_COMMON_NAME_CHARACTERS } from '../shared/pki/name.ts'
import { ANY_EXTENDED_KEY_USAGE, CA_EXTENSION } from '../shared/pki/oids.ts'
import { checkSubjectKey, type SubjectKeyPolicy } from '../shared/pki/weak-key.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { checkSubjectKeyType, type SubjectKeyType } from './certificate-profile.ts'

export interface CsrPolicy {
  signatureAlgorithms: readonly SignatureAlgorithm[]
  key: SubjectKeyPolicy
  /** Key types of the order's profile. */
  keyTypes: readonly SubjectKeyType[]
}

/**
 * Cheap checks first, the proof of possession last.
 * @param accountSpki DER of the account's public key, which may not be certified
 * @throws Problem badCSR
 */
export function checkCsr(csr: Csr, identifiers: readonly Identifier[], accountSpki: Buffer, policy: CsrPolicy): void {
  checkNames(csr, identifiers)
  if (csr.signatureAlgorithm === undefined || !policy.signatureAlgorithms.includes(csr.signatureAlgorithm))
    throw badCsr(
      `signature algorithm ${csr.signatureAlgorithm ?? otherSignatureAlgorithmName(csr.signatureAlgorithmOid)} is not accepted; use ${policy.signatureAlgorithms.join(', ')}`,
    )
  const refusal = checkSubjectKeyType(csr.spki, policy.keyTypes) ?? checkSubjectKey(csr.spki, policy.key)
  if (refusal !== undefined) throw badCsr(refusal)
  if (csr.spki.der.equals(accountSpki)) throw badCsr('the key of the CSR is the account key (RFC 8555 §11.1)')
  if (!verifyCsrSignature(csr)) throw badCsr('the signature of the CSR does not verify with its own key')
}

/** Extensions that make a CA certificate, or one that speaks for its CA (RFC 5280 §4.2.1.3, §4.2.1.9, §4.2.1.12). */
const CA_USAGES: readonly string[] = ['key_cert_sign', 'crl_sign', UNREADABLE]
const CA_PURPOSES: readonly string[] = ['ocsp_signing', ANY_EXTENDED_KEY_USAGE, UNREADABLE]

/**
 * Checks a CSR for another CA, which may copy its extensions. This service reads one extension request; the CA may read a second.
 * @throws Problem badCSR when it asks for a CA certificate, or for more names than are certified here
 */
export function requireLeafRequest(csr: Csr, profile: { extendedKeyUsages: readonly string[] }): void {
  const purposes = CA_PURPOSES.filter((purpose) => !profile.extendedKeyUsages.includes(purpose))
  const asked = new Set([
    ...(csr.isCaRequested ? ['cA in basicConstraints'] : []),
    ...(csr.keyUsages ?? []).filter((usage) => CA_USAGES.includes(usage)),
    ...(csr.extendedKeyUsages ?? []).filter((purpose) => purposes.includes(purpose)),
    ...csr.extensionOids.filter((oid) => oid === CA_EXTENSION.nameConstraints),
  ])
  if (asked.size > 0) throw badCsr(`the CSR asks for what only CA certificates have: ${[...asked].join(', ')}`)
  const certified = new Set(certifiedNames(csr).map(keyOf))
  const further = certifiedNames({ subjectAltNames: csr.furtherSubjectAltNames, commonNames: [] })
  const more = further.filter((name) => !certified.has(keyOf(name))).map(({ value }) => value)
  if (more.length > 0)
    throw badCsr(`a further extension request of the CSR names ${listed(more)}, which the order has not`)
}

/**
 * The names are exactly the order's (RFC 8555 §7.4), as sets: in the SAN, or as common names that could be there.
 * A name may come twice: cert-manager and many OpenSSL configurations do that.
 */
function checkNames(csr: Csr, identifiers: readonly Identifier[]): void {
  if (csr.otherSanTypes.length > 0)
    throw badCsr(
      `the CSR asks for names of type ${csr.otherSanTypes.join(', ')}; only dNSName and iPAddress are issued`,
    )
  const ordered = new Set<string>()
  for (const { value } of identifiers) ordered.add(value)
  const requested = new Set<string>()
  for (const { value } of certifiedNames(csr)) requested.add(value)
  const missing = without(ordered, requested)
  const extra = without(requested, ordered)
  if (missing.length === 0 && extra.length === 0) return
  const alternative = new Set(certifiedNames({ ...csr, commonNames: [] }).map(({ value }) => value))
  const named = extra.map((name) => (alternative.has(name) ? name : `its common name ${name}`))
  const parts = [
    ...(missing.length > 0 ? [`it lacks ${listed(missing)}`] : []),
    ...(extra.length > 0 ? [`the order has not ${listed(named)}`] : []),
  ]
  throw badCsr(`the names of the CSR are not those of the order: ${parts.join('; ')}`)
}

/**
 * A certificate for this request has the names of the SAN and the common names, each once. RFC 8555 §7.4 lets a
 * client put a name into the common name alone.
 */
export function certifiedNames(csr: Pick<Csr, 'subjectAltNames' | 'commonNames'>): GeneralName[] {
  const names = new Map<string, GeneralName>()
  const add = (name: GeneralName) => names.set(keyOf(name), name)
  for (const name of csr.subjectAltNames) add(CERTIFIED_KINDS.includes(name.kind) ? certifiedName(name.value) : name)
  for (const commonName of csr.commonNames) add(certifiedName(commonName))
  return [...names.values()].filter(({ value }) => value !== '')
}

const keyOf = ({ kind, value }: GeneralName) => `${kind}:${value}`

const CERTIFIED_KINDS: readonly GeneralName['kind'][] = ['dNSName', 'iPAddress']

/** Some programs also write an address as dNSName. The certificate has it as an address. */
function certifiedName(text: string): GeneralName {
  const value = identifierValueOf(text)
  return { kind: parseIpAddress(value) ? 'iPAddress' : 'dNSName', value }
}

function without(names: ReadonlySet<string>, taken: ReadonlySet<string>): string[] {
  const left: string[] = []
  for (const name of names) if (!taken.has(name)) left.push(name)
  return left
}

/**
 * The value of the identifier for this name; no value is both a DNS name and an address. The name only has to match,
 * since the certificate takes the order's value.
 */
function identifierValueOf(text: string): string {
  const name = text.trim().toLowerCase().replace(/\.$/, '')
  const octets = parseIpAddress(name)
  if (!octets) return name
  // Go's net.IP has 16 octets for an IPv4 address, too, which some programs write into the SAN.
  return formatIpAddress(octets).replace(/^::ffff:(?=\d+\.)/, '')
}

/** The certificate's common name: the first of the CSR that fits, always a name of the order. */
export function commonNameOf(csr: Pick<Csr, 'commonNames'>): string | undefined {
  return certifiedCommonNames(csr).find(fitsCommonName)
}

/** The common names as a certificate would spell them, each once. */
export function certifiedCommonNames(csr: Pick<Csr, 'commonNames'>): string[] {
  return [...new Set(csr.commonNames.map(identifierValueOf))].filter((name) => name !== '')
}

export const fitsCommonName = (name: string): boolean => name.length <= MAX_COMMON_NAME_CHARACTERS

function badCsr(detail: string): Problem {
  return new Problem('badCSR', detail)
}

/** Texts of others inside sentences: short, and on one line. */
const MAX_CHARACTERS = 100
const MAX_LISTED = 5

export function shortened(text: string): string {
  return text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text
}

/** Makes a client's text safe to repeat. */
export function shown(text: string): string {
  return shortened(text.replace(/[^\x20-\x7e]/g, '?'))
}

/** The first five, and how many there are beyond them. */
export function listed(texts: readonly string[]): string {
  const first = texts.slice(0, MAX_LISTED).map(shown).join(', ')
  return texts.length > MAX_LISTED ? `${first} and ${texts.length - MAX_LISTED} more` : first
}

/** The first `most` sentences; one more says how many there are beyond them. */
export function firstOf(sentences: readonly string[], most: number): string[] {
  return sentences.length > most ? [...sentences.slice(0, most), `and ${sentences.length - most} more`] : [...sentences]
}
