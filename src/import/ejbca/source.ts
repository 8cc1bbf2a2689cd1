/** EJBCA's certificates as a server to import from: from its PostgreSQL, or from a table exported of any database. */

import type { FormerDatabase } from '../former-database.ts'
import type { ImportSource } from '../model.ts'
import { inPages } from '../pages.ts'
import { UnusableSource } from '../unusable-source.ts'
import { readDelimited } from './delimited-text.ts'
import { EJBCA_COLUMNS, type EjbcaColumn, type EjbcaRow, readEjbcaRow } from './rows.ts'

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
