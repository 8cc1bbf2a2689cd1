/** An audit log that somebody cut or changed, and one that is long. Its service cannot trust it any more. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { AuditExports } from '../../src/admin/audit/audit-export.ts'
import { AuditLog } from '../../src/admin/audit/audit-log.ts'
import { AdminError } from '../../src/domain/admin-error.ts'
import type { Actor } from '../../src/domain/administrator.ts'
import { openCheckedDatabase } from '../../src/store/slonik.ts'
import { settingsFor } from '../store/support.ts'
import { type AdminClient, administrator } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import type { AuditEntry } from '../support/bound.ts'
import { healthOf, metricOf } from '../support/metrics.ts'
import { withQuery } from '../support/revoked.ts'
import type { LogLine } from '../support/service.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

describe('an audit log', () => {
  const { service, sql, as } = administered(() => sharedService('mails'))
  const admin = as('alice')
  const auditor = as('audrey', 'auditor')
  before(async () => {
    await admin.send('POST', '/users', { username: 'wanted-once', email: 'u@example.com', role: 'auditor' })
  })

  const entries = async (query = '') => (await auditor.get(`/audit-log${query}`)).json as AuditEntry[]

  test('retention cuts what is old, and leaves an entry', async () => {
    const last = await withQuery(service.database.connection, async (query) => {
      await query('ALTER TABLE admin_audit_log DISABLE TRIGGER USER')
      const [oldest] = await query('SELECT min(sequence) AS sequence FROM admin_audit_log')
      await query("UPDATE admin_audit_log SET created_at = '2020-01-01' WHERE sequence = $1", [oldest?.['sequence']])
      await query('ALTER TABLE admin_audit_log ENABLE TRIGGER USER')
      return Number(oldest?.['sequence'])
    })
    const cut = await until('a cut', async () => (await entries('?action=audit.cut'))[0])
    assert.deepEqual([cut.details.entries, cut.details.last_sequence, cut.user_id], [1, last, null])
  })

  test('a tail that is cut together with its head raises an alarm while the service runs', async () => {
    await sql(`INSERT INTO event_consumers (name, kinds) VALUES ('siem', '{alarm}')`, [])
    const cut = async () => {
      await admin.send('POST', '/maintenance', { enabled: false, reason: 'an entry that is to disappear' })
      await admin.send('POST', '/tokens', { name: 'another one' })
      await withQuery(service.database.connection, async (query) => {
        // Between the two, the service would find an entry missing that is the head's.
        await query('BEGIN')
        await query('ALTER TABLE admin_audit_log DISABLE TRIGGER USER')
        await query('DELETE FROM admin_audit_log WHERE sequence = (SELECT sequence FROM admin_audit_head)')
        await query(`UPDATE admin_audit_head h SET sequence = l.sequence, mac = l.mac
                       FROM (SELECT * FROM admin_audit_log ORDER BY sequence DESC LIMIT 1) l`)
        await query('ALTER TABLE admin_audit_log ENABLE TRIGGER USER')
        await query('COMMIT')
      })
    }
    const isAlarm = ({ event, reason }: LogLine) => event === 'alarm' && /^entry/.test(String(reason))
    const wentBack = () => service.log.filter(({ event }) => event === 'audit_log_went_back').length
    // The comparison with the signer, once a minute, also finds what is missing, and writes that. Then cut once more.
    const line = await until('an alarm', async () => {
      const before = wentBack()
      await cut()
      await until('an alarm or a comparison', () => service.log.some(isAlarm) || wentBack() > before)
      return service.log.findLast(isAlarm)
    })
    assert.match(String(line.reason), /^entry \d+ is missing at the end$/)
    await until(
      'health shows it',
      async () => JSON.stringify((await healthOf(service)).checks.audit_log) === '{"status":"error"}',
    )
    assert.equal((await healthOf(service)).status, 'ok')
    await until('the gauge shows it', async () => (await metricOf(service, 'audit_log_broken')) === 1)
    const told = await until(
      'consumers are told',
      async () => (await sql<{ data: object }>("SELECT data FROM event_deliveries WHERE subject = 'audit_log'", []))[0],
    )
    assert.deepEqual(told.data, { message: 'the end of the audit log was cut or changed', reason: line.reason })
  })

  test('an export longer than a page of the database is whole', async () => {
    await withQuery(service.database.connection, async (query) => {
      await query(`
        INSERT INTO admin_audit_log (sequence, id, action, details, created_at, mac)
        SELECT 1000000 + n, gen_random_uuid(), 'crl.rebuild', '{}', now(), '' FROM generate_series(1, 2500) AS n`)
      await query('UPDATE admin_audit_head SET sequence = 1002500')
    })
    const reply = await admin.send('POST', '/audit-log/export', { action: 'crl.rebuild' })
    const ids = reply.text
      .trimEnd()
      .split('\n')
      .map((line) => (JSON.parse(line) as AuditEntry).id)
    assert.equal(new Set(ids).size, 2500)
  })

  test('a search for an object says where it was cut off, and goes on from there; an export reads to the end', async () => {
    await withQuery(service.database.connection, async (query) => {
      await query(`
        INSERT INTO admin_audit_log (sequence, id, action, details, created_at, mac)
        SELECT 2000000 + n, gen_random_uuid(), 'crl.rebuild', '{}', now(), '' FROM generate_series(1, 50000) AS n`)
      await query('UPDATE admin_audit_head SET sequence = 2050000')
    })
    const first = await auditor.get('/audit-log?object=wanted-once')
    assert.deepEqual([first.json, first.headers.get('search-complete')], [[], 'false'])
    const next = /cursor=(\d+)/.exec(String(first.headers.get('link')))?.[1]
    const second = await auditor.get(`/audit-log?object=wanted-once&cursor=${next}`)
    assert.deepEqual([second.json.length, second.headers.get('search-complete')], [1, null])
    const { text } = await admin.send('POST', '/audit-log/export', { object: 'wanted-once' })
    assert.equal(text.trimEnd().split('\n').length, 1)
  })

  test('an export ends when its author is signed out or loses the role', async () => {
    const db = await openCheckedDatabase(settingsFor(service.database.connection, 2))
    for (const [name, ending] of [
      ['erin', (client: AdminClient) => client.send('POST', '/auth/logout')],
      ['frank', () => sql("UPDATE admin_users SET role = 'auditor' WHERE username = 'frank'")],
    ] as const) {
      const client = await administrator(service, name)
      const [session] = await sql<{ id: string; user_id: string }>(
        `SELECT s.id, s.user_id FROM admin_sessions s JOIN admin_users u ON u.id = s.user_id WHERE username = '${name}'`,
      )
      const author = { userId: session?.user_id ?? '', sessionId: session?.id ?? '', username: name, role: 'admin' }
      const exports = new AuditExports(db, new AuditLog(db, undefined))
      const pages = exports.read({ ...author, ipAddress: '192.0.2.1' } as Actor, { action: 'crl.rebuild' })
      assert.equal((await pages.next()).done, false)
      await ending(client)
      await assert.rejects(pages.next(), AdminError, name)
    }
    await db.end()
  })
})
