/**
 * Decides what the daemon signs: takes one TBSCertificate, returns a refusal sentence or its facts. Pure.
 *
 * The front makes the same checks and more; these hold even for a compromised front. Everything not allowed here is
 * refused, unknown extensions and name types included.
 */

import { keysOf } from '../src/shared/lib/encoding.ts'
import { CURVES, type SignatureAlgorithm, subjectKeyIdentifier } from '../src/shared/pki/algorithms.ts'
import {
  MAX_SERIAL_OCTETS,
  parseTbsCertificate,
  serialNumberHex,
  type TbsCertificate,
} from '../src/shared/pki/certificate.ts'
import { DerError } from '../src/shared/pki/der.ts'
import { lintTbsCertificate } from '../src/shared/pki/lint.ts'
import type { GeneralName } from '../src/shared/pki/name.ts'
import { checkNameConstraints, type NameConstraints } from '../src/shared/pki/name-constraints.ts'
import { ATTRIBUTE_SHORT_NAMES, COMMON_NAME, EXTENSION } from '../src/shared/pki/oids.ts'
import { checkSubjectKey, type SubjectKeyPolicy } from '../src/shared/pki/weak-key.ts'
import type { PolicyConfig } from './config.ts'
import { checkCertificateForms } from './extension-forms.ts'
import { configuredConstraints } from './subtrees.ts'

/** RFC 3986 §2 without `@`. Readers differ on `\`, on spaces, and on what is before an `@`. */
const PLAIN_URL = /^https?:\/\/[\w.:[\]-]+(?:[/?][\w.~:/?!$&'()*+,;=%-]*)?$/i

/** @param allowed an http or https URL */
function isUrlBelow(url: string, allowed: string): boolean {
  if (!PLAIN_URL.test(url) || !URL.canParse(url)) return false
  const [inner, outer] = [new URL(url), new URL(allowed)]
  const segments = outer.pathname.replace(/\/$/, '')
  return inner.origin === outer.origin && `${inner.pathname}/`.startsWith(`${segments}/`)
}

const DAY_MS = 86_400_000

/** Facts of the issuer that bind a TBSCertificate. */
export interface IssuerFacts {
  nameDer: Buffer
  keyIdentifier: Buffer
  signatureAlgorithm: SignatureAlgorithm
  notBefore: Date
  notAfter: Date
  /** Its key usage allows it (RFC 5280 §4.2.1.3). */
  maySignCrls: boolean
  /** The name constraints of the CA certificates in all its chains. */
  constraints: readonly NameConstraints[]
  /** Extended key usages of each CA certificate that has some; verifiers check the purpose at every CA. */
  purposes: readonly (readonly string[])[]
}

export interface SigningPolicy {
  issuer: IssuerFacts
  maxValidityMs: number
  maxStartOffsetMs: number
  keyTypes: ReadonlySet<string>
  key: SubjectKeyPolicy
  keyUsages: ReadonlySet<string>
  keyUsageRequired: boolean
  extendedKeyUsages: ReadonlySet<string>
  minSerialOctets: number
  /** The configured subtrees, then the issuer's. */
  constraints: readonly NameConstraints[]
  subjectAttributes: ReadonlySet<string>
  extensions: ReadonlySet<string>
  maxCrlValidityMs: number
  /** CRL URLs must be at or below one of these; undefined sets no limit. */
  crlUrls: readonly string[] | undefined
}

/** RFC 8737 §3: acmeIdentifier belongs only in self-signed answers to challenges. */
const LEAF_EXTENSIONS = Object.values(EXTENSION).filter((oid) => oid !== EXTENSION.acmeIdentifier)

export function compilePolicy(config: PolicyConfig, issuer: IssuerFacts): SigningPolicy {
  return {
    issuer,
    maxValidityMs: config.max_validity_days * DAY_MS,
    maxStartOffsetMs: config.max_start_offset_days * DAY_MS,
    keyTypes: new Set(config.key_types),
    key: {
      rsaMinBits: config.min_rsa_bits,
      rsaMaxBits: config.max_rsa_bits,
      curves: keysOf(CURVES).filter((curve) => config.key_types.includes(curve)),
      ed25519: config.key_types.includes('Ed25519'),
    },
    keyUsages: new Set(config.key_usages),
    keyUsageRequired: config.key_usage_required,
    extendedKeyUsages: new Set(
      config.extended_key_usages.filter((purpose) => issuer.purposes.every((all) => all.includes(purpose))),
    ),
    minSerialOctets: config.min_serial_octets,
    constraints: [configuredConstraints(config), ...issuer.constraints],
    subjectAttributes: new Set(config.subject_attributes),
    extensions: new Set([...LEAF_EXTENSIONS, ...config.extra_extensions]),
    maxCrlValidityMs: config.max_crl_validity_days * DAY_MS,
    crlUrls: config.crl_urls,
  }
}

/** `isOfName`: a constraint forbids a name. Any client may ask for such a name. */
type PolicyVerdict =
  | { refusal: string; isOfName?: true }
  | {
      serialNumber: string
      names: readonly GeneralName[]
      /** DER of the SubjectPublicKeyInfo. */
      spki: Buffer
    }

/** Returns a verdict for any bytes: unreadable input is refused too. */
export function checkTbsCertificate(der: Buffer, policy: SigningPolicy, now: Date): PolicyVerdict {
  let tbs: TbsCertificate
  try {
    tbs = parseTbsCertificate(der)
  } catch (error) {
    if (error instanceof DerError) return { refusal: `not a TBSCertificate: ${error.message}` }
    throw error
  }
  for (const check of CHECKS) {
    const refusal = check(tbs, policy, now)
    if (refusal !== undefined) return { refusal, ...(check === checkConstraints && { isOfName: true as const }) }
  }
  const finding = lintTbsCertificate(tbs)[0]
  if (finding !== undefined) return { refusal: `lint: ${finding}` }
  return { serialNumber: serialNumberHex(tbs.serialNumber), names: tbs.subjectAltNames, spki: tbs.spki.der }
}

/** The form of names in the audit chain: `dns:www.example.org`, `ip:192.0.2.1`. */
export function auditNames(names: readonly GeneralName[]): string[] {
  return names.map(({ kind, value }) => `${kind === 'iPAddress' ? 'ip' : 'dns'}:${value}`)
}

type Check = (tbs: TbsCertificate, policy: SigningPolicy, now: Date) => string | undefined

/** The order in which a reader checks a certificate; the gravest first. */
const CHECKS: readonly Check[] = [
  checkNoCa,
  checkIssuer,
  checkSerialNumber,
  checkValidity,
  checkKey,
  checkUsages,
  checkExtensions,
  checkCrlUrls,
  checkCertificateForms,
  checkNames,
  checkSubject,
  checkConstraints,
]

function checkNoCa({ isCa, pathLength, keyUsages }: TbsCertificate): string | undefined {
  if (isCa || pathLength !== undefined) return 'CA certificates are not signed here'
  if (keyUsages.includes('key_cert_sign')) return 'keyCertSign is for CA certificates'
  if (keyUsages.includes('crl_sign')) return 'cRLSign is for CA certificates'
  return undefined
}

function checkIssuer(tbs: TbsCertificate, { issuer }: SigningPolicy): string | undefined {
  if (!tbs.issuerDer.equals(issuer.nameDer)) return 'issuer name is not, byte for byte, the subject of the issuer'
  if (!tbs.authorityKeyIdentifier?.equals(issuer.keyIdentifier)) {
    return 'authorityKeyIdentifier is not the key identifier of the issuer'
  }
  if (tbs.signatureAlgorithm.algorithm !== issuer.signatureAlgorithm) {
    return `signature algorithm must be ${issuer.signatureAlgorithm}`
  }
  return undefined
}

function checkSerialNumber({ serialNumber }: TbsCertificate, { minSerialOctets }: SigningPolicy): string | undefined {
  if (serialNumber[0]! >= 0x80) return 'serial number is negative'
  if (serialNumber.length > MAX_SERIAL_OCTETS) return `serial number has more than ${MAX_SERIAL_OCTETS} octets`
  if (serialNumber.length < minSerialOctets) return `serial number has fewer than ${minSerialOctets} octets`
  return undefined
}

/** Compares the start with our own clock, so that an intruder cannot get certificates for a later time. */
function checkValidity({ notBefore, notAfter }: TbsCertificate, policy: SigningPolicy, now: Date): string | undefined {
  // RFC 5280 §4.1.2.5: both ends belong to the validity period, so the last second counts.
  const validityMs = notAfter.getTime() - notBefore.getTime() + 1000
  if (validityMs <= 0) return 'notAfter is before notBefore'
  if (validityMs > policy.maxValidityMs) {
    return `validity of ${validityMs / 1000} s is longer than the ${policy.maxValidityMs / 1000} s allowed`
  }
  if (notBefore.getTime() < policy.issuer.notBefore.getTime()) return 'notBefore is before that of the issuer'
  if (notAfter.getTime() > policy.issuer.notAfter.getTime()) return 'notAfter is after that of the issuer'
  if (Math.abs(notBefore.getTime() - now.getTime()) > policy.maxStartOffsetMs) {
    return `notBefore is more than ${policy.maxStartOffsetMs / DAY_MS} days from now`
  }
  return undefined
}

function checkKey(tbs: TbsCertificate, { keyTypes, key }: SigningPolicy): string | undefined {
  const { spki, subjectKeyIdentifier: identifier } = tbs
  const type = keyTypeOf(spki)
  if (!keyTypes.has(type)) return `key type ${type} is not allowed`
  if (identifier && !identifier.equals(subjectKeyIdentifier(spki.keyBits)))
    return 'subjectKeyIdentifier is not that of the subject key'
  return checkSubjectKey(spki, key)
}

function keyTypeOf(spki: TbsCertificate['spki']): string {
  if (spki.kind === 'ec') return spki.curve
  if (spki.kind === 'rsa') return 'RSA'
  return spki.kind === 'ed25519' ? 'Ed25519' : spki.oid
}

function checkUsages(tbs: TbsCertificate, policy: SigningPolicy): string | undefined {
  const usage = tbs.keyUsages.find((name) => !policy.keyUsages.has(name))
  if (usage !== undefined) return `key usage ${usage} is not allowed`
  // RFC 5280 §4.2.1.3 and §4.2.1.12: without the extension any use is permitted.
  if (tbs.keyUsages.length === 0 && policy.keyUsageRequired) return 'key usage is missing'
  const purpose = tbs.extendedKeyUsages.find((name) => !policy.extendedKeyUsages.has(name))
  if (purpose !== undefined) return `extended key usage ${purpose} is not allowed`
  return tbs.extendedKeyUsages.length === 0 ? 'extended key usage is missing' : undefined
}

function checkExtensions(tbs: TbsCertificate, policy: SigningPolicy): string | undefined {
  const critical = tbs.unknownCriticalExtensions[0]
  if (critical !== undefined) return `critical extension ${critical} is unknown`
  const other = tbs.extensions.find(({ oid }) => !policy.extensions.has(oid))
  if (other) return `extension ${other.oid} is not allowed`
  const hasOid = (wanted: string) => tbs.extensions.some(({ oid }) => oid === wanted)
  // RFC 5280 §4.2.1.9: without it the key is no CA key either, but some software ignores that.
  if (!hasOid(EXTENSION.basicConstraints)) return 'basicConstraints is missing'
  const purposes = tbs.extensions.find(({ oid }) => oid === EXTENSION.extendedKeyUsage)
  return purposes?.critical ? 'extendedKeyUsage is critical' : undefined
}

function checkCrlUrls({ crlDistributionPointUrls }: TbsCertificate, policy: SigningPolicy): string | undefined {
  const other = crlDistributionPointUrls.find((url) => !isCrlUrlAllowed(url, policy))
  return other && `the CRL distribution point ${other} is not allowed`
}

export function isCrlUrlAllowed(url: string, { crlUrls }: SigningPolicy): boolean {
  return crlUrls === undefined || crlUrls.some((allowed) => isUrlBelow(url, allowed))
}

const HOST_NAME = /^(?:\*\.)?[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*$/i
/** All names are in one audit line. A chain that ends in a line above 256 KiB cannot be reopened. */
const MAX_NAMES_CHARACTERS = 128 * 1024
/** Length of `"dns:` and `",`. Host names and addresses need no escapes. */
const AUDIT_NAME_EXTRA = 7

function checkNames({ subjectAltNames }: TbsCertificate): string | undefined {
  if (subjectAltNames.length === 0) return 'subject alternative name is missing'
  let characters = 0
  for (const { kind, value } of subjectAltNames) {
    characters += AUDIT_NAME_EXTRA + value.length
    if (characters > MAX_NAMES_CHARACTERS) return `the names have more than ${MAX_NAMES_CHARACTERS} characters`
    if (kind === 'dNSName' && !HOST_NAME.test(value)) return `${value} is not a host name`
    if (kind !== 'dNSName' && kind !== 'iPAddress') return `a subject alternative name of type ${kind} is not allowed`
  }
  return undefined
}

function checkSubject({ subject, subjectAltNames }: TbsCertificate, policy: SigningPolicy): string | undefined {
  if (subject.length === 0) return undefined
  const names = new Set<string | undefined>(subjectAltNames.map(({ value }) => value))
  for (const { oid, value } of subject.flat()) {
    const type = ATTRIBUTE_SHORT_NAMES.get(oid) ?? oid
    if (!policy.subjectAttributes.has(type)) return `subject attribute ${type} is not allowed`
    // Some clients still read the common name as a host name, so it must pass the same checks.
    if (oid === COMMON_NAME && !names.has(value)) {
      return 'common name is none of the subject alternative names'
    }
  }
  return undefined
}

/** The last check of a certificate: here only the names can be wrong. */
function checkConstraints(tbs: TbsCertificate, { constraints }: SigningPolicy): string | undefined {
  return checkNameConstraints(tbs, constraints)
}
