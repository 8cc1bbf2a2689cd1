/**
 * EJBCA's certificates as a server to import from: from its PostgreSQL, or from a table exported of any database. Values
 * are texts, as in an export: a time is in milliseconds, and -1 where there is none.
 */

import { createReadStream } from 'node:fs'
import { decodePem, isPem, PemError } from '../shared/pki/pem.ts'
import type { FormerDatabase } from './former-database.ts'
import { type ImportedCertificate, type ImportSource, inPages, type Unreadable, UnusableSource } from './model.ts'

export function ejbcaSource(rows: () => AsyncIterable<EjbcaRow>): ImportSource {
  async function* certificates() {
    for await (const row of rows()) yield readEjbcaRow(row)
  }
  return { name: 'ejbca', certificates: () => inPages(certificates()) }
}

/** Where EJBCA keeps large columns apart, the certificate is in Base64CertData. */
export async function* rowsOfDatabase(database: FormerDatabase): AsyncGenerator<EjbcaRow> {
  if (!(await database.hasTable('certificatedata')))
    throw new UnusableSource('the database has no table CertificateData; is it that of EJBCA?')
  const isApart = await database.hasTable('base64certdata')
  const text = (column: EjbcaColumn) => `coalesce(c.${column}::text, 'NULL') AS "${column}"`
  yield* database.rows<EjbcaRow>(`
    SELECT ${EJBCA_COLUMNS.filter((column) => column !== 'base64Cert').map(text)},
           coalesce(${isApart ? "nullif(c.base64Cert, ''), b.base64Cert" : 'c.base64Cert'}, '') AS "base64Cert"
      FROM CertificateData c ${isApart ? 'LEFT JOIN Base64CertData b ON b.fingerprint = c.fingerprint' : ''}
     ORDER BY c.fingerprint`)
}

/** Columns count by their names; others may be there, and case does not matter. */
export async function* rowsOfFile(file: string): AsyncGenerator<EjbcaRow> {
  let places: [EjbcaColumn, number][] | undefined
  for await (const fields of readDelimited(file)) {
    if (places) yield Object.fromEntries(places.map(([column, at]) => [column, fields[at] ?? ''])) as EjbcaRow
    else places = placesOf(fields)
  }
  if (!places) throw new UnusableSource('the file is empty; its first line names the columns')
}

function placesOf(header: readonly string[]): [EjbcaColumn, number][] {
  const names = header.map((name) => name.trim().toLowerCase())
  const places = EJBCA_COLUMNS.map((column): [EjbcaColumn, number] => [column, names.indexOf(column.toLowerCase())])
  const missing = places.flatMap(([column, at]) => (at < 0 ? [column] : []))
  if (missing.length > 0) throw new UnusableSource(`its first line does not name the column ${missing.join(', ')}`)
  return places
}

/** The columns that are read, in the spelling of EJBCA. */
const EJBCA_COLUMNS = ['fingerprint', 'base64Cert', 'status', 'revocationDate', 'revocationReason'] as const

type EjbcaColumn = (typeof EJBCA_COLUMNS)[number]
type EjbcaRow = { readonly [column in EjbcaColumn]: string }

const REVOKED = 40
/** An expired certificate; it was revoked when it has a reason. */
const ARCHIVED = 60
/** The certificate is in use: active, or active and its owner was warned of its end. */
const ACTIVE = [20, 21]

const REMOVE_FROM_CRL = 8

export function readEjbcaRow(row: EjbcaRow): ImportedCertificate | Unreadable {
  const name = `certificate ${row.fingerprint}`
  const der = derOf(row.base64Cert)
  if (!der) return { name, unreadable: 'base64Cert is empty or not base64; is it in the table Base64CertData?' }
  const cut = EJBCA_COLUMNS.find((column) => row[column] === '')
  if (cut !== undefined) return { name, unreadable: `it has no ${cut}; was the file cut short here?` }
  const status = Number(row.status)
  const reason = Number(row.revocationReason)
  if (![REVOKED, ARCHIVED, ...ACTIVE].includes(status)) return { name, unreadable: `its status is ${row.status}` }
  // A certificate that was on hold and is again in use keeps the date, with the reason removeFromCRL.
  if (ACTIVE.includes(status) || reason === REMOVE_FROM_CRL || (status === ARCHIVED && !(reason >= 0))) return { der }
  // Revoked without a usable time is revoked all the same.
  const revokedAt = new Date(Number(row.revocationDate))
  return { der, revokedAt: revokedAt.getTime() > 0 ? revokedAt : new Date(), revocationReason: reason || 0 }
}

/** It is base64 of the DER in lines, at some releases with the PEM's frame. */
function derOf(base64: string): Buffer | undefined {
  if (isPem(Buffer.from(base64)))
    try {
      return decodePem(base64)[0]?.der
    } catch (error) {
      if (error instanceof PemError) return undefined
      throw error
    }
  const text = base64.replaceAll(/\s/g, '')
  return /^[A-Za-z0-9+/]+={0,2}$/.test(text) ? Buffer.from(text, 'base64') : undefined
}

/** A certificate takes a few thousand characters. */
const MOST_FIELD_CHARACTERS = 1_000_000

/** The rows of a file; the first one names its columns. */
async function* readDelimited(file: string): AsyncGenerator<string[]> {
  let parser: DelimitedParser | undefined
  for await (const chunk of createReadStream(file, 'utf8') as AsyncIterable<string>) {
    parser ??= new DelimitedParser(separatorOf(chunk))
    yield* parser.push(chunk)
  }
  if (parser) yield* parser.end()
}

/** The names of columns have no tab, no comma and no semicolon in them. */
function separatorOf(start: string): string {
  const header = start.split(/[\r\n]/, 1)[0] ?? ''
  return ['\t', ';', ','].find((one) => header.includes(one)) ?? ','
}

/** Reads CSV (RFC 4180), or rows with tabs as `mysql --batch` writes them. A field may span lines. */
class DelimitedParser {
  readonly #separator: string
  #fields: string[] = []
  #field = ''
  #isQuoted = false
  /** A quote inside of quotes is the end, or the first of two that mean one. */
  #sawQuote = false
  #row = 1

  constructor(separator: string) {
    this.#separator = separator
  }

  *push(text: string): Generator<string[]> {
    for (const character of text) {
      if (this.#isQuoted && !this.#sawQuote) {
        if (character === '"') this.#sawQuote = true
        else this.#add(character)
      } else if (character === '"' && this.#sawQuote) {
        this.#sawQuote = false
        this.#add('"')
      } else if (character === '"' && this.#field === '') this.#isQuoted = true
      else {
        this.#isQuoted = this.#sawQuote = false
        if (character === this.#separator) this.#endField()
        else if (character === '\n') yield this.#endRow()
        else if (character !== '\r') this.#add(character)
      }
    }
  }

  *end(): Generator<string[]> {
    if (this.#isQuoted && !this.#sawQuote) throw new UnusableSource(`row ${this.#row}: a quoted field has no end`)
    if (this.#field !== '' || this.#fields.length > 0) yield this.#endRow()
  }

  #add(character: string): void {
    if (this.#field.length >= MOST_FIELD_CHARACTERS) throw new UnusableSource(`row ${this.#row}: a field is too long`)
    this.#field += character
  }

  #endField(): void {
    // MySQL writes NULL for no value, and a line break as two characters.
    const value = this.#separator === '\t' ? this.#field.replaceAll('\\n', '\n') : this.#field
    this.#fields.push(value === 'NULL' ? '' : value)
    this.#field = ''
  }

  #endRow(): string[] {
    this.#endField()
    const row = this.#fields
    this.#fields = []
    this.#row++
    return row
  }
}
