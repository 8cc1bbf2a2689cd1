/**
 * Rules for any TBSCertList before it is signed (RFC 5280 §5). Long lists are read in pieces, so
 * each part has its own function. It returns the first finding as a sentence, or undefined.
 */

import { MAX_SERIAL_OCTETS } from './certificate.ts'
import { CRL_EXTENSION } from './oids.ts'
import { WRITTEN_REASONS } from './tbs-cert-list.ts'
import type { CrlExtensions, CrlHeader, ReadCrlEntry } from './tbs-cert-list-reader.ts'
import { timeFormOf } from './time.ts'

/** CRLReason by number (RFC 5280 §5.3.1); 7 is not used. */
export const CRL_REASONS: Readonly<Record<number, string>> = {
  0: 'unspecified',
  1: 'keyCompromise',
  2: 'cACompromise',
  3: 'affiliationChanged',
  4: 'superseded',
  5: 'cessationOfOperation',
  6: 'certificateHold',
  8: 'removeFromCRL',
  9: 'privilegeWithdrawn',
  10: 'aACompromise',
}

export function lintCrlHeader(header: CrlHeader): string | undefined {
  const { version, signatureAlgorithm, issuer, thisUpdate, nextUpdate } = header
  if (version !== 2) return `the version is ${version}, not 2`
  if (signatureAlgorithm.algorithm === undefined)
    return `the signature algorithm ${signatureAlgorithm.oid} is unknown or has wrong parameters`
  // §5.1.2.3
  if (issuer.length === 0) return 'the issuer is empty'
  // §5.1.2.5
  if (!nextUpdate) return 'nextUpdate is missing'
  if (nextUpdate.at <= thisUpdate.at) return 'nextUpdate is not after thisUpdate'
  if (thisUpdate.form !== timeFormOf(thisUpdate.at)) return `thisUpdate must be a ${timeFormOf(thisUpdate.at)}`
  if (nextUpdate.form !== timeFormOf(nextUpdate.at)) return `nextUpdate must be a ${timeFormOf(nextUpdate.at)}`
  return undefined
}

/** The reason as a complete list can hold it; others, which some CAs give, become unspecified. */
export const lintedReason = (reason: number): number => (WRITTEN_REASONS.has(reason) ? reason : 0)

export function lintCrlEntry(entry: ReadCrlEntry, thisUpdate: Date): string | undefined {
  const { serialNumber, revokedAt, reason, otherExtensions } = entry
  if (serialNumber[0]! >= 0x80) return 'a serial number is negative'
  if (serialNumber.length === 1 && serialNumber[0] === 0) return 'a serial number is zero'
  if (serialNumber.length > MAX_SERIAL_OCTETS) return `a serial number has more than ${MAX_SERIAL_OCTETS} octets`
  // §5.1.2.6
  if (revokedAt.form !== timeFormOf(revokedAt.at)) return `a revocationDate must be a ${timeFormOf(revokedAt.at)}`
  if (revokedAt.at > thisUpdate) return 'a revocationDate is after thisUpdate'
  if (reason !== undefined && !WRITTEN_REASONS.has(reason)) return `reason ${reason} has no place in a complete list`
  if (otherExtensions.length > 0) return `entry extension ${otherExtensions[0]} is unknown`
  return undefined
}

const KNOWN_EXTENSIONS: readonly string[] = [
  CRL_EXTENSION.authorityKeyIdentifier,
  CRL_EXTENSION.crlNumber,
  CRL_EXTENSION.issuingDistributionPoint,
]

export function lintCrlExtensions(found: CrlExtensions): string | undefined {
  const { extensions, authorityKeyIdentifier, number, issuingDistributionPoint } = found
  const unknown = extensions.find(({ oid }) => !KNOWN_EXTENSIONS.includes(oid))
  if (unknown) return `extension ${unknown.oid} is not one of a complete list`
  // §5.2.1 and §5.2.3: required in every list, and not critical.
  if (!authorityKeyIdentifier?.length) return 'authorityKeyIdentifier is missing or names no key'
  if (!number) return 'cRLNumber is missing'
  const critical = extensions.find(
    (extension) => extension.critical && extension.oid !== CRL_EXTENSION.issuingDistributionPoint,
  )
  if (critical) return `extension ${critical.oid} is critical`
  if (number[0]! >= 0x80) return 'cRLNumber is negative'
  if (number.length > MAX_SERIAL_OCTETS) return `cRLNumber has more than ${MAX_SERIAL_OCTETS} octets`
  if (!issuingDistributionPoint) return undefined
  // §5.2.5
  if (!issuingDistributionPoint.critical) return 'issuingDistributionPoint is not critical'
  if (issuingDistributionPoint.urls.length === 0) return 'issuingDistributionPoint names no URL'
  if (issuingDistributionPoint.isRestricted) return 'issuingDistributionPoint restricts more than the place'
  return undefined
}
