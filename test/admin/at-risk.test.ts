/** Certificates at risk: whose window is open, what their clients did since, and which are muted. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { csrFor, type Obtained } from '../support/acme-client.ts'
import { allRows } from '../support/admin.ts'
import { issuingOn } from '../support/administered.ts'
import { accountIdOf } from '../support/bound.ts'
import { each } from '../support/each.ts'
import { P256_KEY } from '../support/keys.ts'
import { operate } from '../support/operator.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

interface Row {
  san_values: string[]
  serial_number: string
  attempt: string
  last_order: { id: string } | null
  last_failure: { kind: string; data: Record<string, unknown> } | null
  mute: { reason: string; muted_by: string; muted_until: string | null } | null
  renewal: { renewed: boolean | null }
}

describe('certificates at risk', () => {
  const at = issuingOn(() => sharedService('admin'))
  const serials = new Map<string, string>()
  before(async () => {
    for (const name of ['quiet.test', 'failing.test', 'ordering.test', 'renewed.test', 'young.test'])
      serials.set(name, serialOf(await at.client.obtain([name], at.responder)))
    // 80 of 90 days are over; the newer the name in the list, the later its end.
    for (const [index, name] of ['quiet.test', 'failing.test', 'ordering.test', 'renewed.test'].entries())
      await age(name, 10 + index)
    await at.client.obtain(['renewed.test'], at.responder)
  })

  const serialOf = ({ der }: Obtained) => new X509Certificate(der).serialNumber.toLowerCase()
  /** The certificate began 80 days ago, and so many days are left. */
  const age = (name: string, days: number) =>
    at.sql(
      `UPDATE certificates SET not_before = now() - interval '80 days', not_after = now() + make_interval(days => $2)
        WHERE names = ARRAY[$1]`,
      [name, days],
    )
  const listed = async (query = ''): Promise<Row[]> => (await at.auditor.get(`/at-risk${query}`)).json
  const namesOf = (rows: readonly Row[]) => rows.map(({ san_values }) => san_values[0])
  const mute = (body: object) => at.admin.send('POST', '/at-risk/mutes', body)

  test('are those whose window is open and that have no successor, the first to expire at the top', async () => {
    const rows = await listed()
    assert.deepEqual(namesOf(rows), ['quiet.test', 'failing.test', 'ordering.test'])
    assert.deepEqual(
      rows.map(({ renewal }) => renewal.renewed),
      [false, false, false],
    )
  })

  test('say whether the client came since the window opened, and why it failed', async () => {
    const ordered = await at.client.newOrder(['ordering.test'])
    const failing = await at.client.newOrder(['failing.test'])
    await at.client.post(failing.json.finalize, { csr: await csrFor(['other.test'], P256_KEY) })
    const rows = await until('the failure is seen', async () => {
      const now = await listed()
      return now.some(({ attempt }) => attempt === 'failed') && now
    })
    assert.deepEqual(each(rows, 'attempt'), ['none', 'failed', 'ordered'])
    assert.equal(rows[1]?.last_failure?.kind, 'order.csr_refused')
    assert.equal(rows[2]?.last_order?.id, String(ordered.headers.location).split('/').at(-1))
  })

  test('without an order for the name nobody came', async () => {
    await at.sql(
      `INSERT INTO certificates (id, account_id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
       SELECT gen_random_uuid(), $1, '\\x7a', issuer_fingerprint, '{alone.test}', now() - interval '80 days',
              now() + interval '1 day', '\\x30' FROM certificates LIMIT 1`,
      [accountIdOf(at.client)],
    )
    const [first] = await listed()
    assert.deepEqual([first?.san_values, first?.attempt, first?.last_order], [['alone.test'], 'none', null])
    await at.sql("DELETE FROM certificates WHERE names = '{alone.test}'")
  })

  test('advice opens the window before its time', async () => {
    const filter = { serial_numbers: [serials.get('young.test')] }
    await at.admin.send('POST', '/renewals', { filter })
    assert.deepEqual(namesOf(await listed()).at(-1), 'young.test')
    await at.admin.send('DELETE', '/renewals', { filter })
    assert.ok(!namesOf(await listed()).includes('young.test'))
  })

  test('are muted with a reason, listed apart, and unmuted, each with an entry in the audit log', async () => {
    const serial_numbers = [serials.get('quiet.test')]
    assert.equal((await at.auditor.send('POST', '/at-risk/mutes', { serial_numbers, reason: 'x' })).status, 403)
    const muted = await mute({ serial_numbers: [...serial_numbers, 'ab12'], reason: 'the host is switched off' })
    assert.deepEqual([muted.status, muted.json], [200, { certificates: 1 }], muted.text)
    assert.deepEqual(namesOf(await listed()), ['failing.test', 'ordering.test'])
    const [row] = await listed('?muted=true')
    assert.deepEqual(row?.san_values, ['quiet.test'])
    const { reason, muted_by, muted_until } = row?.mute ?? {}
    assert.deepEqual([reason, muted_by, muted_until], ['the host is switched off', 'alice', null])
    const unmuted = await at.admin.send('DELETE', '/at-risk/mutes', { serial_numbers })
    assert.deepEqual(unmuted.json, { certificates: 1 })
    assert.equal((await listed()).length, 3)
    const entries = await at.sql<{ action: string; reason: string | null }>(
      "SELECT action, details->>'reason' AS reason FROM admin_audit_log WHERE action LIKE 'renewal.%mute' ORDER BY sequence",
    )
    assert.deepEqual(entries, [
      { action: 'renewal.mute', reason: 'the host is switched off' },
      { action: 'renewal.unmute', reason: null },
    ])
  })

  test('a mute until an instant ends there', async () => {
    const serial_numbers = [serials.get('quiet.test')]
    await mute({ serial_numbers, reason: 'a holiday', until: new Date(Date.now() + 3_600_000).toISOString() })
    assert.equal((await listed('?muted=true')).length, 1)
    await at.sql("UPDATE renewal_mutes SET muted_until = now() - interval '1 second'")
    assert.equal((await listed('?muted=true')).length, 0)
    assert.equal(namesOf(await listed())[0], 'quiet.test')
  })

  test('a mute needs a reason, serial numbers, and an end that is to come', async () => {
    const serial_numbers = ['7a']
    for (const body of [
      {},
      { serial_numbers },
      { serial_numbers: [], reason: 'x' },
      { serial_numbers, reason: '' },
      { serial_numbers, reason: 'x'.repeat(501) },
      { serial_numbers, reason: 'x', until: '2020-01-01' },
    ])
      assert.equal((await mute(body)).status, 400, JSON.stringify(body))
  })

  test('come in pages', async () => {
    const found = await allRows(at.auditor, '/at-risk?limit=1&cursor=')
    assert.deepEqual(namesOf(found), ['quiet.test', 'failing.test', 'ordering.test'])
  })

  test('are listed by the command line', async () => {
    const rows = JSON.parse(await operate(at.service, 'certificates', 'at-risk', '--json')) as Row[]
    assert.deepEqual(namesOf(rows), ['quiet.test', 'failing.test', 'ordering.test'])
  })
})
