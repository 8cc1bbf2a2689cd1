/** The audit log, over HTTP against a whole service. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { AuditExports } from '../../src/admin/audit/audit-export.ts'
import { AuditLog } from '../../src/admin/audit/audit-log.ts'
import { AdminError } from '../../src/domain/admin-error.ts'
import type { Actor } from '../../src/domain/administrator.ts'
import { openCheckedDatabase } from '../../src/store/slonik.ts'
import { settingsFor } from '../store/support.ts'
import { type AdminClient, adminConfig, administrator } from '../support/admin.ts'
import { rowsIn } from '../support/database.ts'
import { withQuery } from '../support/revoked.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

interface Entry {
  id: string
  action: string
  user_id: string | null
  ip_address: string | null
  details: Record<string, unknown>
  created_at: string
}

describe('the audit log', () => {
  let service: TestService
  let admin: AdminClient
  let auditor: AdminClient
  before(async () => {
    const retention = { enabled: true, max_age_days: 30, cleanup_interval_seconds: 1 }
    const metrics = { enabled: true }
    service = await startTestService({ config: { ...adminConfig(), metrics, audit_retention: retention } })
    admin = await administrator(service, 'alice')
    auditor = await administrator(service, 'audrey', 'auditor')
    for (let i = 0; i < 7; i++)
      await admin.send('POST', '/users', { username: `user${i}`, email: 'u@example.com', role: 'auditor' })
  })
  after(() => service.dispose())

  const entries = async (query = '') => (await auditor.get(`/audit-log${query}`)).json as Entry[]

  test('an entry says who did what, to whom, from where', async () => {
    const [entry] = await entries('?action=user.create&limit=1')
    const me = (await admin.get('/me')).json
    assert.deepEqual(Object.keys(entry ?? {}).sort(), [
      'action',
      'created_at',
      'details',
      'id',
      'ip_address',
      'sequence',
      'target_user_id',
      'user_id',
    ])
    assert.deepEqual(entry?.details, { username: 'user6', role: 'auditor' })
    assert.equal(entry?.user_id, me.id)
  })

  test('the newest come first, and Link carries the filters to the end', async () => {
    const seen: string[] = []
    let next: string | undefined = '/audit-log?action=user.create&limit=4'
    while (next !== undefined) {
      const reply = await auditor.get(next)
      assert.equal(reply.status, 200, reply.text)
      for (const entry of reply.json as Entry[]) {
        assert.equal(entry.action, 'user.create')
        seen.push(entry.details.username as string)
      }
      const link: string | undefined = /<([^>]+)>; rel="next"/.exec(reply.headers.get('link') ?? '')?.[1]
      next = link === undefined ? undefined : link.slice(link.indexOf('/audit-log'))
    }
    assert.deepEqual(seen, ['user6', 'user5', 'user4', 'user3', 'user2', 'user1', 'user0', 'audrey', 'alice'])
  })

  test('filters: user, address, time', async () => {
    const me = (await admin.get('/me')).json
    assert.ok((await entries(`?user_id=${me.id}`)).every((entry) => entry.user_id === me.id))
    const address = String((await entries('?limit=1'))[0]?.ip_address)
    assert.ok((await entries(`?ip_address=${address}`)).every((entry) => entry.ip_address === address))
    assert.deepEqual(await entries('?ip_address=192.0.2.77'), [])
    const [newest] = await entries('?limit=1')
    const at = encodeURIComponent(newest?.created_at ?? '')
    assert.equal((await entries(`?since=${at}`))[0]?.id, newest?.id)
    assert.equal((await entries(`?until=${at}`))[0]?.id, newest?.id)
    assert.deepEqual(await entries('?since=2999-01-01'), [])
    assert.deepEqual(await entries('?until=2020-01-01T00:00:00Z'), [])
    assert.deepEqual(await entries('?action=no.such'), [])
  })

  test('an object is found by its id or name, wherever the entry has it, and by no part of it', async () => {
    const of = (object: string) => `?${new URLSearchParams({ object })}`
    const [made] = await entries('?action=user.create&limit=1')
    const ofUser = await entries(of('user6'))
    assert.deepEqual(
      ofUser.map(({ id }) => id),
      [made?.id],
    )
    const target = (made as unknown as { target_user_id: string }).target_user_id
    assert.ok((await entries(of(target))).some(({ id }) => id === made?.id))
    assert.deepEqual(await entries(of('user')), [])
    for (const nasty of ['"', '$.**', "'); DROP", '\\', '%']) assert.deepEqual(await entries(of(nasty)), [], nasty)
  })

  test('every wrong parameter is named', async () => {
    const reply = await auditor.get('/audit-log?user_id=x&since=monday&cursor=abc&offset=3')
    assert.equal(reply.status, 400)
    const fields = reply.json.fields.map(({ field }: { field: string }) => field).sort()
    assert.deepEqual(fields, ['cursor', 'offset', 'since', 'user_id'])
  })

  test('an export is NDJSON of everything, with and without a body, and is audited itself', async () => {
    const whole = await admin.send('POST', '/audit-log/export')
    assert.equal(whole.status, 200)
    assert.equal(whole.headers.get('content-type'), 'application/x-ndjson')
    const lines = whole.text.trimEnd().split('\n')
    assert.deepEqual((JSON.parse(lines.at(-1) ?? '') as Entry).details.username, 'alice')
    const [noted, ...others] = await entries('?limit=200')
    assert.deepEqual([noted?.action, noted?.details], ['audit.export', { filters: {} }])
    assert.deepEqual(
      lines.map((line) => JSON.parse(line)),
      others,
    )
    const some = await admin.send('POST', '/audit-log/export', { action: 'user.create', since: '2020-01-01' })
    assert.equal(some.text.trimEnd().split('\n').length, 9)
    assert.equal(lines.length >= 9, true)
  })

  test('a wrong filter exports nothing; an auditor may not export', async () => {
    const reply = await admin.send('POST', '/audit-log/export', { since: 'monday', aktion: 'x' })
    assert.deepEqual([reply.status, reply.json.fields.length], [400, 2])
    assert.equal((await auditor.send('POST', '/audit-log/export')).status, 403)
  })

  test('its head goes to the log', async () => {
    const line = await service.untilLogged('a head', ({ event }) => event === 'audit_head')
    assert.match(String(line.head), /^\d+:(?:[0-9a-f]{64})?$/)
  })

  test('retention cuts what is old, and leaves an entry', async () => {
    await withQuery(service.database.connection, async (query) => {
      await query('ALTER TABLE admin_audit_log DISABLE TRIGGER USER')
      await query("UPDATE admin_audit_log SET created_at = '2020-01-01' WHERE sequence = 1")
      await query('ALTER TABLE admin_audit_log ENABLE TRIGGER USER')
    })
    const cut = await until('a cut', async () => (await entries('?action=audit.cut'))[0])
    assert.deepEqual([cut.details.entries, cut.details.last_sequence, cut.user_id], [1, 1, null])
  })

  test('a tail that is cut together with its head raises an alarm while the service runs', async () => {
    const health = async () =>
      (await (await fetch(`${service.baseUrl}/healthz`)).json()) as { status: string; checks: { audit_log: object } }
    const gauge = async () =>
      /^service_audit_log_broken (\d)$/m.exec(await (await fetch(`${service.baseUrl}/metrics`)).text())?.[1]
    await rowsIn(service.database, `INSERT INTO event_consumers (name, kinds) VALUES ('siem', '{alarm}')`, [])
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
    const line = await service.untilLogged('an alarm', ({ event }) => event === 'alarm')
    assert.match(String(line.reason), /^entry \d+ is missing at the end$/)
    await until(
      'health shows it',
      async () => JSON.stringify((await health()).checks.audit_log) === '{"status":"error"}',
    )
    assert.equal((await health()).status, 'ok')
    await until('the gauge shows it', async () => (await gauge()) === '1')
    const told = await until(
      'consumers are told',
      async () =>
        (
          await rowsIn<{ data: object }>(service.database, "SELECT data FROM event_deliveries WHERE kind = 'alarm'", [])
        )[0],
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
      .map((line) => (JSON.parse(line) as Entry).id)
    assert.equal(new Set(ids).size, 2500)
  })

  test('a search for an object says where it was cut off, and goes on from there; an export reads to the end', async () => {
    await withQuery(service.database.connection, async (query) => {
      await query(`
        INSERT INTO admin_audit_log (sequence, id, action, details, created_at, mac)
        SELECT 2000000 + n, gen_random_uuid(), 'crl.rebuild', '{}', now(), '' FROM generate_series(1, 50000) AS n`)
      await query('UPDATE admin_audit_head SET sequence = 2050000')
    })
    const first = await auditor.get('/audit-log?object=user6')
    assert.deepEqual([first.json, first.headers.get('search-complete')], [[], 'false'])
    const next = /cursor=(\d+)/.exec(String(first.headers.get('link')))?.[1]
    const second = await auditor.get(`/audit-log?object=user6&cursor=${next}`)
    assert.deepEqual([second.json.length, second.headers.get('search-complete')], [1, null])
    const { text } = await admin.send('POST', '/audit-log/export', { object: 'user6' })
    assert.equal(text.trimEnd().split('\n').length, 1)
  })

  test('an export ends when its author is signed out or loses the role', async () => {
    const db = await openCheckedDatabase(settingsFor(service.database.connection, 2))
    for (const [name, ending] of [
      ['erin', (client: AdminClient) => client.send('POST', '/auth/logout')],
      ['frank', () => rowsIn(service.database, "UPDATE admin_users SET role = 'auditor' WHERE username = 'frank'")],
    ] as const) {
      const client = await administrator(service, name)
      const [session] = await rowsIn<{ id: string; user_id: string }>(
        service.database,
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
