/** step-ca's tables in PostgreSQL: each has the columns `nkey` and `nvalue`. */

import type { FormerDatabase } from '../former-database.ts'
import { UnusableSource } from '../unusable-source.ts'
import type { StepCaTables } from './source.ts'

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
