/** What has happened to a name, over HTTP against a whole service: certificates, refusals of every kind, and advice. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { csrFor, locationOf } from '../support/acme-client.ts'
import { administrator } from '../support/admin.ts'
import { issuingOn } from '../support/administered.ts'
import { accountIdOf } from '../support/bound.ts'
import { failHttp01 } from '../support/clients/failing.ts'
import { P256_KEY } from '../support/keys.ts'
import { operate } from '../support/operator.ts'
import { HOUR, limit } from '../support/rate-limits.ts'
import { configOf, hangUp } from '../support/reload.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

interface Entry {
  kind: string
  at: string
  title: string
  detail: string
  names: string[]
  serial_number: string | null
  validations: { status: string; evidence: { result: string } | null }[]
}

describe('the time line of a name', () => {
  const at = issuingOn(() => sharedService('admin'))

  const historyOf = async (name: string, query = '') => {
    const reply = await at.auditor.get(`/names/${encodeURIComponent(name)}${query}`)
    assert.equal(reply.status, 200, reply.text)
    return reply.json
  }
  const kindsOf = (entries: readonly Entry[]) => entries.map(({ kind, title }) => `${kind}: ${title}`)

  test('begins with the newest, and has order, validation, certificate and revocation', async () => {
    await at.client.obtain(['www.line.test'], at.responder)
    const { state, entries } = await historyOf('WWW.line.test.')
    assert.deepEqual(kindsOf(entries), ['certificate: Certificate issued', 'order: Order: valid'])
    assert.deepEqual(
      entries[1].validations.map(({ status, evidence }: Entry['validations'][number]) => [status, evidence?.result]),
      [['valid', 'success']],
    )
    assert.equal(state.account_id, accountIdOf(at.client))
    assert.equal(state.certificate.serial_number, entries[0].serial_number)
    assert.ok(state.certificate.window_start < state.certificate.window_end)
    await at.admin.send('POST', `/certificates/${entries[0].serial_number}/revoke`, { reason: 4 })
    const revoked = await historyOf('www.line.test')
    assert.deepEqual([revoked.entries[0].title, revoked.entries[0].detail], ['Revoked', 'superseded'])
    assert.equal(revoked.state.certificate, null)
  })

  test('a refused new order is found by its name, though no order exists', async () => {
    const refused = await at.client.newOrder([], { identifiers: [{ type: 'email', value: 'Refused@line.test' }] })
    assert.equal(refused.status, 400)
    const entries = await until('it is kept', async () => {
      const found = (await historyOf('refused@LINE.test')).entries
      return found.length > 0 && found
    })
    assert.deepEqual(kindsOf(entries), ['failure: An order was refused'])
  })

  const ofNames = (...names: string[]) => names.map((value) => ({ type: 'dns', value }))
  for (const [what, name, payload, advice] of [
    ['a profile that does not exist', 'profile.line.test', { profile: 'missing' }, /profile/],
    ['its form', 'form.line.test', { notAfter: '2001-01-01T00:00:00Z' }, /client/],
    ['a predecessor that is none', 'replaces.line.test', { replaces: 'not.one' }, /client/],
  ] as const)
    test(`an order that was refused for ${what} is found by the name it asked for, and mailed to nobody`, async () => {
      const refused = await at.client.newOrder([], { identifiers: ofNames(name), ...payload })
      assert.ok(refused.status >= 400, refused.text)
      const { state } = await until('it is kept', async () => {
        const found = await historyOf(name)
        return found.state.last_failure !== null && found
      })
      assert.equal(state.last_failure.title, 'An order was refused')
      assert.equal(state.last_failure.detail, refused.json.detail)
      assert.match(state.last_failure.advice, advice)
      assert.deepEqual(await at.sql("SELECT id FROM notifications WHERE notification_type = 'order_rejected'"), mailed)
    })
  const mailed: object[] = []
  before(async () => {
    mailed.push(...(await at.sql("SELECT id FROM notifications WHERE notification_type = 'order_rejected'")))
  })

  test('a name over its rate limit says so, once a minute', async (context) => {
    const config = configOf(at.service).text()
    context.after(async () => {
      configOf(at.service).write(config)
      await hangUp(at.service)
    })
    await limit(at.service, { new_order_per_identifier: { requests: 1, window_seconds: HOUR } })
    await at.client.obtain(['limited.line.test'], at.responder)
    for (let n = 0; n < 5; n++) assert.equal((await at.client.newOrder(['limited.line.test'])).status, 429)
    const { entries, state } = await until('it is kept', async () => {
      const found = await historyOf('limited.line.test')
      return found.state.last_failure !== null && found
    })
    assert.match(state.last_failure.detail, /1 requests in 3600 seconds .* come back .* at /)
    assert.match(state.last_failure.advice, /rate_limits/)
    // Each thread of the front tells once.
    assert.ok(entries.filter(({ kind }: Entry) => kind === 'failure').length <= 2)
  })

  test('a refused certification request is found by the names of its order', async () => {
    const order = await at.client.newOrder(['csr.line.test'])
    await at.client.authorize(order, at.responder)
    const reply = await at.client.post(order.json.finalize, { csr: await csrFor(['other.line.test'], P256_KEY) })
    assert.equal(reply.json.type, 'urn:ietf:params:acme:error:badCSR')
    const { state } = await until('it is kept', async () => {
      const found = await historyOf('csr.line.test')
      return found.state.last_failure !== null && found
    })
    assert.deepEqual(
      [state.last_failure.title, state.last_failure.command, state.last_failure.resolved],
      ['A certification request was refused', null, false],
    )
  })

  test('a failed validation comes with its order, its evidence, and the command that repeats it', async () => {
    const { order, challenge } = await failHttp01(at.client, at.responder, 'fails.line.test')
    const { state, entries } = await until('it is kept', async () => {
      const found = await historyOf('fails.line.test')
      return found.entries.length === 2 && found
    })
    assert.deepEqual(kindsOf(entries), ['failure: A name could not be validated', 'order: Order: invalid'])
    assert.equal(entries[1].validations[0].evidence.result, 'failure')
    const port = at.service.http01Port
    assert.equal(
      state.last_failure.command,
      `curl -v http://fails.line.test:${port}/.well-known/acme-challenge/${challenge.token}`,
    )
    assert.match(state.last_failure.advice, /the client did not put the file there/)
    assert.equal(locationOf(order).split('/').at(-1), entries[1].order_id)
    const stdout = await operate(at.service, 'names', 'why', 'fails.line.test')
    assert.match(stdout, /fails\.line\.test has no valid certificate/)
    assert.ok(stdout.includes(state.last_failure.command), stdout)
  })

  test('a wildcard whose validation failed says so, though its authorization is for the name without it', async () => {
    const order = await at.client.newOrder(['*.star.test'])
    const { json } = await at.client.post(order.json.authorizations[0])
    await at.client.post(json.challenges.find(({ type }: { type: string }) => type === 'dns-01').url, {})
    const { state, entries } = await until('it is kept', async () => {
      const found = await historyOf('*.star.test')
      return found.state.last_failure !== null && found
    })
    assert.equal(state.last_failure.command, 'dig TXT _acme-challenge.star.test')
    const [ofOrder] = (entries as Entry[]).filter(({ kind }) => kind === 'order')
    assert.equal(ofOrder?.validations.length, 1)
  })

  test('what a wildcard covers is part of the line, and a name below it is not', async () => {
    const [{ fingerprint } = { fingerprint: '' }] = await at.sql<{ fingerprint: string }>(
      "SELECT encode(fingerprint, 'hex') AS fingerprint FROM issuers LIMIT 1",
    )
    await at.sql(
      `INSERT INTO certificates (id, account_id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
       VALUES (gen_random_uuid(), $1, '\\x77', decode($2, 'hex'), '{*.wild.test}', now(), now() + interval '9 days', '\\x00')`,
      [accountIdOf(at.client), fingerprint],
    )
    const { covered_by, state } = await historyOf('a.wild.test')
    assert.deepEqual([covered_by, state.certificate.names], [['a.wild.test', '*.wild.test'], ['*.wild.test']])
    assert.equal((await historyOf('a.b.wild.test')).state.certificate, null)
    assert.equal((await historyOf('wild.test')).state.certificate, null)
  })

  test('pages go back in time, without a gap and without an entry twice', async () => {
    for (let n = 0; n < 3; n++) await at.client.obtain(['often.line.test'], at.responder)
    const all = (await historyOf('often.line.test')).entries as Entry[]
    assert.equal(all.length, 6)
    const paged: Entry[] = []
    for (let next: string | null = ''; next !== null; ) {
      const page = await historyOf('often.line.test', `?limit=2${next === '' ? '' : `&before=${next}`}`)
      paged.push(...page.entries)
      next = page.next
    }
    assert.deepEqual(paged, all)
  })

  test('nothing is claimed of a name that nobody has asked for', async () => {
    for (const name of ['nobody.line.test', '%', "x'; --", '\\x00', '203.0.113.9', 'b\u00fccher.example']) {
      const { state, entries, not_known } = await historyOf(name)
      assert.deepEqual([state.certificate, state.account_id, state.last_failure, entries], [null, null, null, []], name)
      assert.match(not_known[0], /last 50 failures/)
    }
    // Longer than a URL may be, then no name at all.
    assert.equal((await at.auditor.get(`/names/${'x'.repeat(15_000)}`)).status, 400)
    assert.equal((await historyOf('a\0b')).name, 'a\ufffdb')
    assert.equal((await historyOf('b\u00fccher.example')).name, 'xn--bcher-kva.example')
  })

  test('a registrar sees what its own accounts did alone', async () => {
    const registrar = await administrator(at.service, 'rita', 'registrar', ['team-a'])
    const { json } = await registrar.get('/names/fails.line.test')
    assert.deepEqual([json.entries, json.state.account_id, json.state.last_failure], [[], null, null])
    await at.admin.send('PATCH', `/accounts/${accountIdOf(at.client)}`, { tags: ['team-a'] })
    assert.equal((await registrar.get('/names/fails.line.test')).json.entries.length, 2)
  })
})
