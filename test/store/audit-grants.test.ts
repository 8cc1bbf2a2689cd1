/**
 * The audit log under a role that does not own it, with the statements of
 * docs/operations/administration.md.
 */

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { AuditLog } from '../../src/services/admin/audit-log.ts'
import { AuditRetention } from '../../src/services/admin/audit-retention.ts'
import { verifyAuditLog } from '../../src/services/admin/audit-verification.ts'
import { type DatabasePool, openCheckedDatabase } from '../../src/store/slonik.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { withQuery } from '../support/revoked.ts'
import { settingsFor } from './support.ts'

const MANUAL = path.resolve(import.meta.dirname, '../../../docs/operations/administration.md')
const KEY = Buffer.alloc(32, 9)
const AUTHOR = { userId: undefined, ipAddress: undefined, operator: 'tests' }

/** The statements of the manual for this role: all of them, and that for retention alone. */
function statementsFor(role: string): { always: string; forRetention: string } {
  const text = /```sql\n(GRANT SELECT[\s\S]*?)```/.exec(readFileSync(MANUAL, 'utf8'))?.[1] ?? ''
  const [always = '', forRetention = ''] = text.replaceAll(/\bchancery\b/g, role).split(/^-- With audit_retention.*$/m)
  return { always, forRetention }
}

describe('the audit log under another role than its owner', () => {
  const role = `chancery_${randomUUID().replaceAll('-', '').slice(0, 12)}`
  const { always, forRetention } = statementsFor(role)
  let database: TestDatabase
  let db: DatabasePool
  before(async () => {
    database = await testDatabase()
    await asSuperuser(`CREATE ROLE ${role}`, `GRANT ${role} TO ${database.connection.user}`)
    await asOwner(...always.split(';').filter((one) => one.trim()))
    // The server lets no other role log in: sessions begin as this one.
    await asOwner(`ALTER DATABASE ${database.connection.database} SET role = '${role}'`)
    db = await openCheckedDatabase(settingsFor(database.connection, 2))
    await new AuditLog(db, KEY).record(AUTHOR, 'maintenance.set', { enabled: true })
  })
  after(async () => {
    await db?.end()
    await asOwner(`REVOKE ALL ON ALL TABLES IN SCHEMA public FROM ${role}`)
    await database.drop()
    await asSuperuser(`DROP ROLE ${role}`)
  })

  const asSuperuser = (...statements: string[]) =>
    withQuery({ ...database.connection, user: 'postgres', database: 'postgres' }, async (query) => {
      for (const statement of statements) await query(statement)
    })
  const asOwner = (...statements: string[]) =>
    withQuery(database.connection, async (query) => {
      for (const statement of ['SET ROLE NONE', ...statements]) await query(statement)
    })
  const refused = (statement: string, reason = /permission denied/) =>
    withQuery(database.connection, (query) => assert.rejects(query(statement), reason, statement))

  test('entries are added, and the chain is whole', async () => {
    const [session] = await withQuery(database.connection, (query) => query('SELECT current_user AS name'))
    assert.equal(session?.['name'], role)
    await new AuditLog(db, KEY).record(AUTHOR, 'maintenance.set', { enabled: false })
    const { entries, faults } = await verifyAuditLog(db, KEY, undefined)
    assert.deepEqual([entries, faults], [2, []])
  })

  test('no entry is changed or removed, and the trigger stays', async () => {
    await refused("UPDATE admin_audit_log SET action = 'x'")
    await refused('DELETE FROM admin_audit_log')
    await refused('TRUNCATE admin_audit_log')
    await refused(
      "INSERT INTO admin_audit_log SELECT * FROM admin_audit_log ON CONFLICT (sequence) DO UPDATE SET action = 'x'",
    )
    await refused('ALTER TABLE admin_audit_log DISABLE TRIGGER USER', /must be owner/)
    await refused('DROP TABLE admin_audit_log', /must be owner/)
    await refused('DROP FUNCTION admin_audit_append_only CASCADE', /must be owner/)
    await refused('SET session_replication_role = replica', /permission denied/)
    await refused(`GRANT DELETE ON admin_audit_log TO ${role}; DELETE FROM admin_audit_log`)
    assert.deepEqual((await verifyAuditLog(db, KEY, undefined)).faults, [])
  })

  test('retention deletes only with the grant that the manual names for it', async () => {
    const retention = new AuditRetention({ db, key: KEY, audit: new AuditLog(db, KEY) })
    await assert.rejects(retention.cut(new Date('2999-01-01')), /permission denied/)
    await asOwner(forRetention)
    assert.ok((await retention.cut(new Date('2999-01-01'))) >= 1)
    await refused("UPDATE admin_audit_log SET action = 'x'")
    await refused('DELETE FROM admin_audit_log', /append-only/)
    assert.deepEqual((await verifyAuditLog(db, KEY, undefined)).faults, [])
  })
})
