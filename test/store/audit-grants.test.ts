/**
 * The audit log under a role that does not own it, with the statements of
 * docs/operations/administration.md.
 */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { AuditLog } from '../../src/admin/audit/audit-log.ts'
import { verifyAuditLog } from '../../src/admin/audit/audit-verification.ts'
import { cutAuditLog } from '../../src/admin/audit/audit-watch.ts'
import { type DatabasePool, openCheckedDatabase } from '../../src/store/slonik.ts'
import { type GrantedRole, grantedRole } from '../support/databases/granted-role.ts'
import { withQuery } from '../support/revoked.ts'
import { settingsFor } from './support.ts'

const KEY = Buffer.alloc(32, 9)
const AUTHOR = { userId: undefined, ipAddress: undefined, operator: 'tests' }

describe('the audit log under another role than its owner', () => {
  let granted: GrantedRole
  let db: DatabasePool
  before(async () => {
    granted = await grantedRole()
    db = await openCheckedDatabase(settingsFor(granted.database.connection, 2))
    await new AuditLog(db, KEY).record(AUTHOR, 'maintenance.set', { enabled: true })
  })
  after(async () => {
    await db?.end()
    await granted?.drop()
  })

  const refused = (statement: string, reason = /permission denied/) =>
    withQuery(granted.database.connection, (query) => assert.rejects(query(statement), reason, statement))

  test('entries are added, and the chain is whole', async () => {
    const [session] = await withQuery(granted.database.connection, (query) => query('SELECT current_user AS name'))
    assert.equal(session?.['name'], granted.role)
    await new AuditLog(db, KEY).record(AUTHOR, 'maintenance.set', { enabled: false })
    const { entries, faults } = await verifyAuditLog(db, KEY, [])
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
    await refused(`GRANT DELETE ON admin_audit_log TO ${granted.role}; DELETE FROM admin_audit_log`)
    assert.deepEqual((await verifyAuditLog(db, KEY, [])).faults, [])
  })

  test('retention deletes only with the grant that the manual names for it', async () => {
    const cut = (before: Date) => cutAuditLog({ db, key: KEY, audit: new AuditLog(db, KEY) }, before)
    await assert.rejects(cut(new Date('2999-01-01')), /permission denied/)
    await granted.grantRetention()
    assert.ok((await cut(new Date('2999-01-01'))) >= 1)
    await refused("UPDATE admin_audit_log SET action = 'x'")
    await refused('DELETE FROM admin_audit_log', /append-only/)
    assert.deepEqual((await verifyAuditLog(db, KEY, [])).faults, [])
  })
})
