/** A role that does not own the tables, with the grants that docs/operations/administration.md names. */

import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { type TestDatabase, testDatabase } from './database.ts'
import { withQuery } from './revoked.ts'

const MANUAL = path.resolve(import.meta.dirname, '../../../docs/operations/administration.md')

export interface GrantedRole {
  role: string
  /** All sessions of this database begin as this role. */
  database: TestDatabase
  asOwner(...statements: string[]): Promise<void>
  /** The grant that retention of the audit log wants beside the others. */
  grantRetention(): Promise<void>
  drop(): Promise<void>
}

/** The statements of the manual for this role: all of them, and that for retention alone. */
function statementsFor(role: string): { always: string; forRetention: string } {
  const text = /```sql\n(GRANT SELECT[\s\S]*?)```/.exec(readFileSync(MANUAL, 'utf8'))?.[1] ?? ''
  const [always = '', forRetention = ''] = text.replaceAll(/\bchancery\b/g, role).split(/^-- With audit_retention.*$/m)
  return { always, forRetention }
}

export async function grantedRole(): Promise<GrantedRole> {
  const role = `chancery_${randomUUID().replaceAll('-', '').slice(0, 12)}`
  const { always, forRetention } = statementsFor(role)
  const database = await testDatabase()
  const { connection } = database
  const asSuperuser = (...statements: string[]) =>
    withQuery({ ...connection, user: 'postgres', database: 'postgres' }, async (query) => {
      for (const statement of statements) await query(statement)
    })
  const asOwner = (...statements: string[]) =>
    withQuery(connection, async (query) => {
      for (const statement of ['SET ROLE NONE', ...statements]) await query(statement)
    })
  await asSuperuser(`CREATE ROLE ${role}`, `GRANT ${role} TO ${connection.user}`)
  await asOwner(...always.split(';').filter((one) => one.trim()))
  // The server lets no other role log in: sessions begin as this one.
  await asOwner(`ALTER DATABASE ${connection.database} SET role = '${role}'`)
  return {
    role,
    database,
    asOwner,
    grantRetention: () => asOwner(forRetention),
    async drop() {
      await asOwner(`REVOKE ALL ON ALL TABLES IN SCHEMA public FROM ${role}`)
      await database.drop()
      await asSuperuser(`DROP ROLE ${role}`)
    },
  }
}
