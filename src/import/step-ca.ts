/**
 * step-ca's database as a server to import from: its PostgreSQL, or a dump that `deploy/import/step-ca-dump` writes as
 * JSON lines. Its tables have keys and values, and most values are JSON (smallstep/certificates: `acme/db/nosql`, `db`).
 */

import { open } from 'node:fs/promises'
import { isAccountStatus } from '../domain/states.ts'
import { type JsonObject, jsonObjectIn } from '../shared/lib/encoding.ts'
import { parseCertificate } from '../shared/pki/certificate.ts'
import { DerError } from '../shared/pki/der.ts'
import { decodePem, PemError } from '../shared/pki/pem.ts'
import { CERTIFICATE_KEYS, parseAccountKey } from '../shared/protocol/jwk.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { parseTimestamp } from '../shared/protocol/timestamp.ts'
import type { FormerDatabase } from './former-database.ts'
import {
  type ImportedAccount,
  type ImportedCertificate,
  type ImportedCredential,
  type ImportSource,
  inPages,
  type Unreadable,
  UnusableSource,
} from './model.ts'

interface StepCaRow {
  key: Buffer
  value: Buffer
}

interface StepCaTables {
  /** The rows of one table; none where the database does not have the table. */
  rows(table: string): AsyncIterable<StepCaRow>
}

/**
 * @param provisioners names of ACME provisioners, for accounts that do not say theirs
 * @throws UnusableSource when one is needed and missing: no account may be written before
 */
export async function stepCaSource(tables: StepCaTables, provisioners: readonly string[]): Promise<ImportSource> {
  for await (const { value } of tables.rows('acme_accounts')) attempt('', () => readAccount(value, provisioners))
  /** step-ca's id of an account → its thumbprint. */
  const thumbprints = new Map<string, string>()

  async function* credentials(): AsyncGenerator<ImportedCredential | Unreadable> {
    for await (const { key, value } of tables.rows('acme_external_account_keys'))
      yield attempt(`EAB key ${nameOf(key)}`, () => readExternalAccountKey(value))
  }

  async function* accounts(): AsyncGenerator<ImportedAccount | Unreadable> {
    for await (const { key, value } of tables.rows('acme_accounts'))
      yield attempt(`account ${nameOf(key)}`, () => {
        const { id, ...account } = readAccount(value, provisioners)
        thumbprints.set(id, parseAccountKey(account.jwk, CERTIFICATE_KEYS).thumbprint)
        return account
      })
  }

  async function* certificates(): AsyncGenerator<ImportedCertificate | Unreadable> {
    const revocations = new Map<string, Revocation>()
    for await (const { key, value } of tables.rows('revoked_x509_certs'))
      revocations.set(nameOf(key), readRevocation(value))
    // A certificate of an account is in both tables.
    const given = new Set<string>()
    for await (const { key, value } of tables.rows('acme_certs'))
      yield attempt(`certificate ${nameOf(key)}`, () => {
        const { der, accountId } = readAcmeCertificate(value)
        const serialNumber = decimal(parseCertificate(der).tbs.serialNumber)
        given.add(serialNumber)
        return { der, accountThumbprint: thumbprints.get(accountId), ...revocations.get(serialNumber) }
      })
    for await (const { key, value: der } of tables.rows('x509_certs')) {
      const serialNumber = nameOf(key)
      if (!given.has(serialNumber)) yield { der, ...revocations.get(serialNumber) }
      given.add(serialNumber)
    }
    for (const serialNumber of revocations.keys())
      if (!given.has(serialNumber))
        yield { name: `revocation of ${serialNumber}`, unreadable: 'its certificate is not in the database' }
  }

  return {
    name: 'step-ca',
    credentials: () => inPages(credentials()),
    accounts: () => inPages(accounts()),
    certificates: () => inPages(certificates()),
  }
}

/** Ids and serial numbers are ASCII. */
const nameOf = (key: Buffer): string => key.toString('latin1')

/** The key of a certificate's row. */
const decimal = (serialNumber: Buffer): string => BigInt(`0x${serialNumber.toString('hex')}`).toString()

function attempt<T extends object>(name: string, read: () => T): T | Unreadable {
  try {
    return read()
  } catch (error) {
    const isOfRecord = [Garbled, DerError, PemError, Problem].some((kind) => error instanceof kind)
    if (isOfRecord) return { name, unreadable: (error as Error).message }
    throw error
  }
}

/** A record that cannot be taken over. The message says why. */
class Garbled extends Error {}

interface Account extends ImportedAccount {
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
function readExternalAccountKey(value: Buffer): ImportedCredential {
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
function readAcmeCertificate(value: Buffer): AcmeCertificate {
  const { leaf, accountID } = parseObject(value)
  if (typeof leaf !== 'string' || typeof accountID !== 'string') throw new Garbled('it has no leaf or no accountID')
  const [block] = decodePem(Buffer.from(leaf, 'base64').toString('latin1'))
  if (block?.label !== 'CERTIFICATE') throw new Garbled('its leaf is no certificate in PEM')
  return { der: block.der, accountId: accountID }
}

/** CRLReason (RFC 5280 §5.3.1). */
const UNSPECIFIED = 0

interface Revocation {
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

export async function stepCaDatabase(database: FormerDatabase): Promise<StepCaTables> {
  if (!(await database.hasTable('x509_certs')))
    throw new UnusableSource('the database has no table x509_certs; is it that of step-ca?')
  return {
    async *rows(table) {
      // Releases before external account bindings have no table of them.
      if (!(await database.hasTable(table))) return
      type Row = { nkey: Buffer; nvalue: Buffer }
      const rows = database.rows<Row>(`SELECT nkey, nvalue FROM ${table} ORDER BY nkey`)
      for await (const { nkey, nvalue } of rows) yield { key: nkey, value: nvalue }
    },
  }
}

interface Line {
  table?: string
  /** `key` and `value` are base64. */
  key?: string
  value?: string
  /** Only the last line has it: the number of lines before it. */
  records?: number
}

/** Each table is one walk through the file, so that nothing has to be kept. */
export function openDump(file: string): StepCaTables {
  return {
    rows: (table) => rowsOf(file, (line) => line.table === table),
  }
}

/** @throws UnusableSource when the file ends early, or is no dump */
export async function checkDump(file: string): Promise<void> {
  for await (const _ of rowsOf(file, () => false));
}

async function* rowsOf(file: string, isWanted: (line: Line) => boolean): AsyncGenerator<StepCaRow> {
  let lines = 0
  let announced: number | undefined
  for await (const text of (await open(file)).readLines()) {
    const line = parseLine(text, lines + 1)
    if (announced !== undefined) throw new UnusableSource(`line ${lines + 2} comes after the end of the dump`)
    if (line.records !== undefined) announced = line.records
    else lines++
    if (isWanted(line))
      yield { key: Buffer.from(line.key ?? '', 'base64'), value: Buffer.from(line.value ?? '', 'base64') }
  }
  if (announced !== lines)
    throw new UnusableSource(`the dump is not whole: it ends after ${lines} records; make it anew`)
}

function parseLine(text: string, number: number): Line {
  try {
    return JSON.parse(text) as Line
  } catch {
    // The parser's message quotes the line, which may hold a key.
    throw new UnusableSource(`line ${number} is not JSON; make the dump with step-ca-dump, and take it over whole`)
  }
}
