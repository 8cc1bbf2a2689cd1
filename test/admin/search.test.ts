/** The one search field, over HTTP against a whole service: what it finds, for whom, and what it says it left out. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { openSession } from '../../src/store/session.ts'
import { settingsFor } from '../store/support.ts'
import { createAcmeClient } from '../support/acme-client.ts'
import { type AdminClient, administrator } from '../support/admin.ts'
import { issuingOn } from '../support/administered.ts'
import { accountIdOf, made } from '../support/bound.ts'
import { chancery, operate } from '../support/operator.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

interface Group {
  kind: string
  hits: { id: string; title: string; detail: string }[]
  more: Record<string, string> | null
}

describe('the search over everything', () => {
  const at = issuingOn(() => sharedService('admin'))
  let serial: string
  let fingerprint: string
  let order: string
  let credential: string
  before(async () => {
    at.client = await createAcmeClient(at.service.directoryUrl)
    await at.client.newAccount({ termsOfServiceAgreed: true, contact: ['mailto:ops@bakery.test'] })
    await at.client.obtain(['www.bakery.test'], at.responder)
    await at.client.obtain(['bucher.bakery.test'], at.responder)
    const [certificate] = (await at.admin.get('/certificates?domain=www.bakery.test')).json
    ;({ serial_number: serial, fingerprint, order_id: order } = certificate)
    credential = (await made(at.admin, '/eab', { kid: 'kid-of-bakery', label: 'The Bakery', tags: ['ovens'] })).id
    await at.admin.send('PATCH', `/accounts/${accountIdOf(at.client)}`, { label: 'Ovens & Co', tags: ['ovens'] })
  })

  interface Found {
    groups: Group[]
    not_searched: { kind: string; reason: string; searched: 'in_part' | 'not_at_all' }[]
  }
  /** A group has five seconds, which a busy machine may exceed. */
  const search = async (q: string, who: AdminClient = at.admin) => {
    let found: Found = { groups: [], not_searched: [] }
    await until('each group was searched in time', async () => {
      const reply = await who.get(`/search?q=${encodeURIComponent(q)}`)
      assert.equal(reply.status, 200, reply.text)
      found = reply.json
      return found.not_searched.every(({ searched }) => searched === 'in_part')
    })
    return found
  }
  const idsOf = async (q: string, kind: string, who?: AdminClient) =>
    (await search(q, who)).groups.find((group) => group.kind === kind)?.hits.map(({ id }) => id) ?? []

  test('names are found whole, below a name, and by a part', async () => {
    assert.deepEqual(await idsOf('WWW.bakery.test', 'names'), ['www.bakery.test'])
    for (const q of ['bakery.test', '.bakery.test', '*.bakery.test', 'kery'])
      assert.deepEqual((await idsOf(q, 'names')).toSorted(), ['bucher.bakery.test', 'www.bakery.test'], q)
  })

  test('a name refused in an order that never was is found', async () => {
    await at.client.newOrder([], { identifiers: [{ type: 'email', value: 'Refused@bakery.test' }] })
    await until('it is kept', async () => (await idsOf('refused@BAKERY.test', 'names')).length === 1)
  })

  test('a name that only failed is found by a part', async () => {
    await at.client.newOrder([], { identifiers: [{ type: 'email', value: 'plc-04.ovens.invalid' }] })
    await until('it is kept', async () => (await idsOf('plc-04.ovens.invalid', 'names')).length === 1)
    for (const q of ['plc-04', 'LC-04.ov']) assert.deepEqual(await idsOf(q, 'names'), ['plc-04.ovens.invalid'], q)
  })

  test('certificates are found by name, by serial number as printed, by fingerprint, and by the beginning of both', async () => {
    const printed = serial.replaceAll(/(..)(?=.)/g, '$1:').toUpperCase()
    const queries = [
      serial,
      printed,
      `00:${printed}`,
      serial.slice(0, 9),
      fingerprint,
      fingerprint.slice(0, 11),
      'www.bakery.test',
    ]
    for (const q of queries) assert.deepEqual(await idsOf(q, 'certificates'), [serial], q)
    assert.deepEqual(await idsOf(`${serial.slice(0, -1)}${serial.endsWith('0') ? '1' : '0'}`, 'certificates'), [])
  })

  test('accounts are found by id, label, tag and contact, credentials by kid, label and tag', async () => {
    const account = accountIdOf(at.client)
    for (const q of [account, account.toUpperCase(), 'ovens &', 'ovens', 'ops@bakery', 'mailto:ops@bakery.test'])
      assert.deepEqual(await idsOf(q, 'accounts'), [account], q)
    for (const q of ['kid-of-bakery', 'bakery', 'ovens'])
      assert.deepEqual(await idsOf(q, 'credentials'), [credential], q)
  })

  test('an order is found by its id, users and settings by a part', async () => {
    assert.deepEqual(await idsOf(order, 'orders'), [order])
    assert.equal((await search('alic')).groups.find(({ kind }) => kind === 'users')?.hits[0]?.title, 'alice')
    assert.ok((await idsOf('max_page_size', 'settings')).includes('admin_api.max_page_size'))
  })

  test('a group has five hits, and the filters of the list that has more', async () => {
    for (let n = 0; n < 6; n++) await made(at.admin, '/eab', { kid: `many-${n}` })
    const group = (await search('many-')).groups.find(({ kind }) => kind === 'credentials')
    assert.deepEqual([group?.hits.length, group?.more], [5, { name: 'many-' }])
    assert.ok((await at.admin.get('/eab?name=many-')).json.length >= 6)
  })

  test('it says what it did not search', async () => {
    const { not_searched } = await search('kery')
    assert.match(
      not_searched.find(({ kind }) => kind === 'names')?.reason ?? '',
      /another part of a name in the newest 10,000 alone/,
    )
    const { not_searched: short } = await search('ke')
    assert.match(short.find(({ kind }) => kind === 'names')?.reason ?? '', /No part of a name was looked for/)
  })

  test('the beginning of a name is found in all certificates where the index for it was made', async () => {
    await operate(at.service, 'db', 'search-indexes')
    assert.deepEqual(await idsOf('www.ba', 'names'), ['www.bakery.test'])
    const { not_searched } = await search('www.ba')
    assert.match(
      not_searched[0]?.reason ?? '',
      /and the beginning of the first name are looked for in all certificates; another part/,
    )
    await operate(at.service, 'db', 'search-indexes', '--drop')
  })

  test('each role has the groups of its lists: an auditor no credentials, a registrar its own alone', async () => {
    assert.deepEqual(await idsOf('bakery', 'credentials', at.auditor), [])
    assert.deepEqual(await idsOf('www.bakery.test', 'names', at.auditor), ['www.bakery.test'])
    const own = await administrator(at.service, 'rosa', 'registrar', ['ovens'])
    const other = await administrator(at.service, 'rolf', 'registrar', ['other'])
    assert.deepEqual(await idsOf('kid-of-bakery', 'credentials', own), [credential])
    for (const q of [
      'www.bakery.test',
      'kery',
      serial,
      serial.slice(0, 8),
      fingerprint,
      order,
      'ovens',
      'alice',
      'kid-of-bakery',
      accountIdOf(at.client),
      'database',
    ])
      assert.deepEqual((await search(q, other)).groups, [], q)
  })

  test('hostile text finds nothing and breaks nothing', async () => {
    for (const q of ['%', '_', '%%%%', '\\', "' OR 1=1 --", '{}', '*', '..', '"><script>', 'a'.repeat(255), '😀😀😀'])
      assert.equal((await at.admin.get(`/search?q=${encodeURIComponent(q)}`)).status, 200, q)
    for (const q of ['%%%', '___', '\\\\\\']) assert.deepEqual((await search(q)).groups, [], q)
    for (const q of ['', '%20', 'a%00b', 'x'.repeat(10_000), '%0a']) {
      assert.equal((await at.admin.get(`/search?q=${q}`)).status, 400, q.slice(0, 20))
    }
    assert.equal((await at.admin.get('/search')).status, 400)
  })

  test('with locked tables the command says what it did not search, ends, and leaves no statement behind', async () => {
    const lock = await openSession({ ...settingsFor(at.service.database.connection, 1), statementTimeoutMs: 0 })
    await lock.query('BEGIN; LOCK TABLE certificates, account_failures')
    try {
      const { code, stdout } = await chancery(at.service, 'search', 'bakery.test')
      assert.equal(code, 1, stdout)
      assert.match(stdout, /^accounts:\n {2}Ovens & Co/m)
      assert.match(stdout, /^not searched: names, certificates; search again$/m)
      assert.doesNotMatch(stdout, /nothing was found/)
      const { stdout: nothing } = await chancery(at.service, 'search', 'www.nowhere.test')
      assert.match(nothing, /^nothing was found in what was searched$/m)
      const { rows } = await lock.query(
        "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query ~ 'unnest' AND query !~ 'INSERT'",
      )
      assert.deepEqual(rows, [])
      const reply = await at.admin.get('/search?q=bakery.test')
      assert.deepEqual(
        reply.json.not_searched.filter(({ searched }: { searched: string }) => searched === 'not_at_all'),
        ['names', 'certificates'].map((kind) => ({
          kind,
          reason: 'It took longer than 5 seconds.',
          searched: 'not_at_all',
        })),
      )
    } finally {
      await lock.end()
    }
  })

  test('the command line prints the same hits', async () => {
    assert.match(await operate(at.service, 'search', 'www.bakery.test'), /names:\n {2}www\.bakery\.test/)
  })
})
