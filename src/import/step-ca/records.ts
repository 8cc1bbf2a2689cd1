/**
 * Reads one record of step-ca's database as a thing to import.
 *
 * Its tables have keys and values, and most values are JSON (smallstep/certificates: `acme/db/nosql`, `db`).
 */

import { isAccountStatus } from '../../domain/states.ts'
import { type JsonObject, jsonObjectIn } from '../../shared/lib/encoding.ts'
import { decodePem } from '../../shared/pki/pem.ts'
import { parseTimestamp } from '../../shared/protocol/timestamp.ts'
import type { ImportedAccount, ImportedCredential } from '../model.ts'
import { UnusableSource } from '../model.ts'

/** A record that cannot be taken over. The message says why. */
export class Garbled extends Error {}

export interface Account extends ImportedAccount {
  id: string
}

/** @param provisioners names for records without one, of older releases: there, all of them lead to an account */
export function readAccount(value: Buffer, provisioners: readonly string[]): Account {
  const { id, key, contact, status, createdAt, ...place } = parseObject(value)
  if (typeof id !== 'string' || id === '') throw new Garbled('it has no id')
  if (typeof key !== 'object' || key === null) throw new Garbled('it has no key')
  if (!isAccountStatus(status)) throw new Garbled(`its status is ${JSON.stringify(status)}`)
  const contacts = Array.isArray(contact) ? contact.filter((one) => typeof one === 'string') : []
  const urls = accountPaths(id, place, provisioners)
  return { id, jwk: key as JsonObject, contacts, status, createdAt: creationOf(createdAt), urls }
}

/** @throws UnusableSource when the provisioner is not known */
function accountPaths(id: string, place: JsonObject, otherwise: readonly string[]): string[] {
  const { locationPrefix, provisionerName } = place
  if (typeof locationPrefix === 'string' && URL.canParse(locationPrefix)) return [new URL(locationPrefix).pathname + id]
  const names = typeof provisionerName === 'string' && provisionerName !== '' ? [provisionerName] : otherwise
  if (names.length === 0)
    throw new UnusableSource(
      'its accounts do not name their provisioner; say --provisioner NAME, as in the directory URL /acme/NAME/directory',
    )
  return names.map((name) => `/acme/${pathSegment(name)}/account/${id}`)
}

/** Writes a segment of a path as Go's net/url does. */
function pathSegment(name: string): string {
  return encodeURI(name).replaceAll(/[?#!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)
}

/** step-ca takes each key once, and empties it when an account was registered with it. */
export function readExternalAccountKey(value: Buffer): ImportedCredential {
  const { id, reference, accountID, key, createdAt } = parseObject(value)
  if (typeof id !== 'string' || id === '') throw new Garbled('it has no id')
  if (accountID) throw new Garbled('an account has used it, and step-ca keeps no key of used ones')
  if (typeof key !== 'string' || key === '') throw new Garbled('it has no key')
  const label = typeof reference === 'string' && reference !== '' ? reference : undefined
  return { kid: id, hmacKey: Buffer.from(key, 'base64'), label, createdAt: creationOf(createdAt) }
}

interface AcmeCertificate {
  der: Buffer
  accountId: string
}

/** The ACME server's own record of a certificate, which alone names the account. */
export function readAcmeCertificate(value: Buffer): AcmeCertificate {
  const { leaf, accountID } = parseObject(value)
  if (typeof leaf !== 'string' || typeof accountID !== 'string') throw new Garbled('it has no leaf or no accountID')
  const [block] = decodePem(Buffer.from(leaf, 'base64').toString('latin1'))
  if (block?.label !== 'CERTIFICATE') throw new Garbled('its leaf is no certificate in PEM')
  return { der: block.der, accountId: accountID }
}

/** CRLReason (RFC 5280 §5.3.1). */
const UNSPECIFIED = 0

export interface Revocation {
  revokedAt: Date
  revocationReason: number
}

/** step-ca takes a certificate as revoked when there is a record, whatever the record says. */
export function readRevocation(value: Buffer): Revocation {
  const { RevokedAt, ReasonCode } = jsonObjectIn(value.toString('utf8')) ?? {}
  const revocationReason = Number.isInteger(ReasonCode) ? (ReasonCode as number) : UNSPECIFIED
  return { revokedAt: instantOf(RevokedAt) ?? new Date(), revocationReason }
}

function parseObject(value: Buffer): JsonObject {
  const found = jsonObjectIn(value.toString('utf8'))
  // The parser's message would quote the record, which may hold a key.
  if (!found) throw new Garbled('it is no JSON object')
  return found
}

/** Go writes a time that was never set as one of the year 1. */
function instantOf(value: unknown): Date | undefined {
  const at = typeof value === 'string' ? parseTimestamp(value) : undefined
  return at && at.getTime() > 0 ? at : undefined
}

/** Without a time it counts as made now: an account is worth more than its date. */
const creationOf = (value: unknown): Date => instantOf(value) ?? new Date()
