/** Switches, CRL rebuild and notifications of the Admin API and the command line. */

import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { adminInstance } from '../support/admin/admin-instance.ts'
import { clientWith } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { testDatabase } from '../support/database.ts'
import { each } from '../support/each.ts'
import { healthOf } from '../support/metrics.ts'
import { chancery, operate } from '../support/operator.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

describe('what administrators switch', () => {
  const { service, sql, as } = administered(() => sharedService('admin'))
  const admin = as('alice')
  const auditor = as('audrey', 'auditor')
  /** The last entry of the files before. */
  let begun: unknown
  before(async () => {
    const [head] = await sql('SELECT sequence FROM admin_audit_head')
    begun = head?.['sequence'] ?? 0
  })

  const run = (...words: string[]) => operate(service, ...words)
  const audited = (action: string) =>
    sql<{ user_id: string | null; details: Record<string, unknown> }>(
      'SELECT user_id, details FROM admin_audit_log WHERE action = $1 AND sequence > $2 ORDER BY sequence',
      [action, begun],
    )

  test('maintenance is set with a reason, and says who set it since when', async () => {
    const off = await admin.get('/maintenance')
    assert.deepEqual(off.json, { maintenance_mode: false, since: null, set_by: null, reason: null })
    const on = await admin.send('POST', '/maintenance', { enabled: true, reason: 'moving house' })
    assert.equal(on.status, 200, on.text)
    assert.deepEqual([on.json.maintenance_mode, on.json.set_by, on.json.reason], [true, 'alice', 'moving house'])
    assert.deepEqual((await admin.get('/maintenance')).json, on.json)
    await until('every thread knows', async () => (await healthOf(service)).maintenance_mode === true)
    await admin.send('POST', '/maintenance', { enabled: false })
    assert.deepEqual(each(await audited('maintenance.set'), 'details'), [
      { enabled: true, reason: 'moving house' },
      { enabled: false },
    ])
  })

  test('a switch that is there already changes nothing and is not logged', async () => {
    const first = await admin.send('POST', '/signing', { stopped: true })
    const again = await admin.send('POST', '/signing', { stopped: true, reason: 'again' })
    assert.deepEqual(again.json, first.json)
    assert.equal((await audited('signing.stop')).length, 1)
    await until('signing is stopped', async () => JSON.stringify(await healthOf(service)).includes('"stopped"'))
    assert.equal((await admin.send('POST', '/signing', { stopped: false })).json.signing_stopped, false)
    assert.equal((await audited('signing.resume')).length, 1)
    await until('signing goes on', async () => !JSON.stringify(await healthOf(service)).includes('"stopped"'))
  })

  test('the switches take strict booleans, from admins', async () => {
    for (const body of [undefined, {}, { enabled: 'true' }, { enabled: 1 }, { enabled: null }, { enabled: true, x: 1 }])
      assert.equal((await admin.send('POST', '/maintenance', body)).status, 400, JSON.stringify(body))
    assert.equal((await auditor.get('/maintenance')).status, 403)
    assert.equal((await auditor.send('POST', '/signing', { stopped: true })).status, 403)
  })

  test('the commands set the same switches in the name of the OS user', async () => {
    assert.match(await run('maintenance', 'on', '--reason', 'from a shell'), /^maintenance is on since 2.* by .*$/m)
    const seen = await admin.get('/maintenance')
    assert.deepEqual([seen.json.set_by, seen.json.reason], [userInfo().username, 'from a shell'])
    const off = JSON.parse(await run('maintenance', 'off', '--json'))
    assert.equal(off.maintenance_mode, false)
    const entries = (await audited('maintenance.set')).slice(-2)
    assert.deepEqual(
      entries.map(({ user_id, details }) => [user_id, details.operator]),
      [
        [null, userInfo().username],
        [null, userInfo().username],
      ],
    )
  })

  test('POST /crl/rebuild answers when the new list is there', async () => {
    const reply = await admin.send('POST', '/crl/rebuild')
    assert.equal(reply.status, 200, reply.text)
    const { last_rebuild, ...rest } = reply.json
    assert.deepEqual(rest, { stale: false, error: null, revoked_count: 0 })
    assert.ok(last_rebuild >= 0 && last_rebuild < 25, String(last_rebuild))
    assert.equal((await admin.get('/crl')).json.rebuilding, false)
    const asked = await admin.send('POST', '/crl/rebuild', { wait_seconds: 0 })
    assert.equal(asked.status, 200, asked.text)
    await until('the list that was asked for is there', async () => !(await admin.get('/crl')).json.rebuilding)
    assert.equal((await admin.send('POST', '/crl/rebuild', { wait_seconds: 60 })).status, 400)
    assert.match(await run('crl', 'rebuild', '--json'), /"number":"\d+"/)
    assert.equal((await audited('crl.rebuild')).length, 3)
  })

  test('notifications are listed, queued again, and purged', async () => {
    for (const [status, daysAgo] of [
      ['sent', 40],
      ['failed', 0],
      ['pending', 0],
    ] as const)
      await sql(
        `INSERT INTO notifications (id, notification_type, recipient, subject, body_text, body_html, message_id, status, retry_count)
         VALUES ($1, 'account_deactivated', 'ops@example.com', 'A subject', '', '', '', $2, 4)`,
        [uuidv7(Date.now() - daysAgo * 86_400_000), status],
      )
    const listed = await admin.get('/notifications?status=failed')
    assert.equal(listed.status, 200, listed.text)
    assert.equal(listed.json[0].retry_count, 4)
    const first = await admin.get('/notifications?limit=1')
    assert.match(String(first.headers.get('link')), /limit=1&offset=1>; rel="next"/)
    assert.deepEqual((await admin.send('POST', '/notifications/retry')).json, { retried: 1 })
    assert.deepEqual((await admin.get('/notifications?status=failed')).json, [])
    assert.equal((await admin.send('POST', '/notifications/purge', { days: 0 })).status, 400)
    assert.deepEqual((await admin.send('POST', '/notifications/purge')).json, { purged: 1 })
    assert.equal((await audited('notification.retry')).length, 1)
    assert.equal((await audited('notification.purge')).length, 1)
    assert.equal((await auditor.get('/notifications')).status, 403)
  })

  test('the commands list, queue and purge notifications, and show the words of a mail', async () => {
    const [{ id } = { id: '' }] = await sql<{ id: string }>(
      "UPDATE notifications SET status = 'failed', error_detail = '550 unknown user' RETURNING id",
    )
    assert.notEqual(id, '')
    assert.match(await run('notifications', 'list', '--status', 'failed'), /ops@example\.com.*550 unknown user/)
    assert.match(await run('notifications', 'retry'), /^retried {2}\d+$/m)
    assert.match(await run('notifications', 'purge', '--days', '1'), /^purged {2}0$/m)
    assert.match(await run('mail', 'preview', 'expiration_warning'), /^Subject: Certificate expires in 7 days/)
  })

  test('a rebuild that nobody can make is asked for, and says so', async (context) => {
    const database = await testDatabase()
    context.after(() => database.drop())
    const folder = mkdtempSync(path.join(service.folder, 'alone-'))
    const config = readFileSync(path.join(service.folder, 'config.yaml'), 'utf8')
    const [own, other] = [service, { database }].map(({ database }) => database.connection.database)
    writeFileSync(path.join(folder, 'config.yaml'), config.replace(own as string, other as string))
    const { code, stderr } = await chancery({ folder }, 'crl', 'rebuild')
    assert.deepEqual(
      [code, stderr],
      [1, 'chancery: no service is running on this database; the first one that starts builds the CRL\n'],
    )
  })

  test('without CRLs there is none to rebuild: 503', async (context) => {
    const without = await adminInstance(service, { crl: { enabled: false } })
    context.after(() => without.close())
    const reply = await clientWith(without.baseUrl, admin.token).send('POST', '/crl/rebuild')
    assert.deepEqual([reply.status, reply.json.message], [503, 'crl.enabled is false: there is no CRL to rebuild'])
  })
})
