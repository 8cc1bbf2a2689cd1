/** The audit log, over HTTP against a whole service. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { type AdminClient, administrator, allRows, fieldsOf } from '../support/admin.ts'
import type { AuditEntry } from '../support/bound.ts'
import { each } from '../support/each.ts'
import type { TestService } from '../support/service.ts'
import { sharedService } from '../support/shared-service.ts'
import { words } from '../support/words.ts'

describe('the audit log', () => {
  let service: TestService
  let admin: AdminClient
  let auditor: AdminClient
  /** The files before have left entries. */
  let begun: string
  before(async () => {
    service = await sharedService('mails')
    begun = new Date().toISOString()
    admin = await administrator(service, 'alice')
    auditor = await administrator(service, 'audrey', 'auditor')
    for (let i = 0; i < 7; i++)
      await admin.send('POST', '/users', { username: `user${i}`, email: 'u@example.com', role: 'auditor' })
  })

  const entries = async (query = '') => (await auditor.get(`/audit-log${query}`)).json as AuditEntry[]

  test('an entry says who did what, to whom, from where', async () => {
    const [entry] = await entries('?action=user.create&limit=1')
    const me = (await admin.get('/me')).json
    assert.deepEqual(
      Object.keys(entry ?? {}).sort(),
      words`action created_at details id ip_address sequence target_user_id user_id username`,
    )
    assert.deepEqual(entry?.details, { username: 'user6', role: 'auditor' })
    assert.equal(entry?.user_id, me.id)
    assert.equal((entry as { username?: string } | undefined)?.username, me.username)
  })

  test('the newest come first, and Link carries the filters to the end', async () => {
    const seen: AuditEntry[] = await allRows(auditor, '/audit-log?action=user.create&limit=4')
    assert.deepEqual(new Set(seen.map(({ action }) => action)), new Set(['user.create']))
    const usernames = seen.map(({ details }) => details.username).slice(0, 9)
    assert.equal(usernames.join(' '), 'user6 user5 user4 user3 user2 user1 user0 audrey alice')
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
    assert.deepEqual(each(ofUser, 'id'), [made?.id])
    const target = (made as unknown as { target_user_id: string }).target_user_id
    assert.ok((await entries(of(target))).some(({ id }) => id === made?.id))
    assert.deepEqual(await entries(of('user')), [])
    for (const nasty of ['"', '$.**', "'); DROP", '\\', '%']) assert.deepEqual(await entries(of(nasty)), [], nasty)
  })

  test('every wrong parameter is named', async () => {
    const reply = await auditor.get('/audit-log?user_id=x&since=monday&cursor=abc&offset=3')
    assert.equal(reply.status, 400)
    assert.deepEqual(fieldsOf(reply), ['cursor', 'offset', 'since', 'user_id'])
  })

  test('an export is NDJSON of everything, with and without a body, and is audited itself', async () => {
    const whole = await admin.send('POST', '/audit-log/export')
    assert.equal(whole.status, 200)
    assert.equal(whole.headers.get('content-type'), 'application/x-ndjson')
    const lines = whole.text.trimEnd().split('\n')
    const [noted, ...others] = await entries('?limit=1000')
    assert.deepEqual([noted?.action, noted?.details], ['audit.export', { filters: {} }])
    assert.deepEqual(
      lines.map((line) => JSON.parse(line)),
      others.map(({ username: _, ...entry }: AuditEntry & { username?: unknown }) => entry),
    )
    const some = await admin.send('POST', '/audit-log/export', { action: 'user.create', since: begun })
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
})
