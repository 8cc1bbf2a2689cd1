/** CAA over the whole service: at validation, and again at finalize when the check is old (RFC 8659, RFC 8657). */

import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { before, beforeEach, describe, test } from 'node:test'
import { type Answer, csrFor, locationOf, registeredClient, send } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { type Names, scriptedNames } from '../support/names/scripted-names.ts'
import { until } from '../support/until.ts'
import { caaScript } from '../workers/scripted-caa.ts'
import { a, NXDOMAIN, SERVFAIL } from '../workers/scripted-dns.ts'

const PROBLEM = 'urn:ietf:params:acme:error:'
const HOUR_MS = 3_600_000

describe('CAA', () => {
  /** Lines of CAA records by name; emptied before each test. */
  const zone: Record<string, string[]> = {}
  /** Names whose CAA look-ups fail, and for how long; emptied before each test. */
  const failing = new Map<string, () => boolean>()
  const always = () => true
  /** TXT records by name, for dns-01. */
  const texts = new Map<string, string>()
  let silent = false
  let dns: Names['general']
  const { service, responder, client, database } = acmeScene('names')

  before(async () => {
    const names = await scriptedNames()
    dns = names.general
    const script = caaScript(zone)
    dns.script = (asked) => {
      if (asked.type === 'A') return { answers: [a(asked.name, '127.0.0.1')] }
      if (asked.type === 'CAA' && silent) return 'drop'
      if (asked.type === 'CAA' && failing.get(asked.name)?.()) return { rcode: SERVFAIL }
      return script(asked)
    }
    names.methods.script = ({ name, type }) => {
      const text = texts.get(name)
      return type === 'TXT' && text ? { answers: [{ type: 'TXT', name, ttl: 60, data: text }] } : { rcode: NXDOMAIN }
    }
  })
  beforeEach(() => {
    for (const name of Object.keys(zone)) delete zone[name]
    failing.clear()
    silent = false
    dns.asked.length = 0
  })

  async function readyOrder(names: readonly string[], as = client): Promise<Answer> {
    const order = await as.newOrder(names)
    await as.authorize(order, responder)
    const ready = await as.post(locationOf(order))
    assert.equal(ready.json.status, 'ready', ready.text)
    return order
  }
  /** An order of one name or wildcard whose challenge was met, or tried, with dns-01. */
  async function triedWithDns(name: string) {
    const order = await client.newOrder([name])
    const [url] = order.json.authorizations as [string]
    const challenges = (await client.post(url)).json.challenges as { type: string; token: string; url: string }[]
    const challenge = challenges.find(({ type }) => type === 'dns-01')
    assert.ok(challenge)
    const digest = createHash('sha256').update(`${challenge.token}.${client.key.thumbprint}`).digest('base64url')
    texts.set(`_acme-challenge.${name.replace(/^\*\./, '')}`, digest)
    await client.post(challenge.url, {})
    const settled = await client.settled(url)
    return { order, challenge: settled.json.challenges.find(({ type }: { type: string }) => type === 'dns-01') }
  }
  const finalize = async (order: Answer, names: readonly string[], as = client) =>
    as.post(order.json.finalize, { csr: await csrFor(names) })

  /** The first authorization of an order after its validation, and the error of its challenge. */
  async function validated(name: string, as = client) {
    const order = await as.newOrder([name])
    await as.authorize(order, responder)
    const [url] = order.json.authorizations as [string]
    const { json } = await as.post(url)
    return { order, status: json.status as string, challenge: json.challenges[0] }
  }

  /** As if the check had been made `hours` ago; undefined takes it away. */
  async function age(name: string, hours: number | undefined): Promise<void> {
    const at = hours === undefined ? null : `${new Date(Date.now() - hours * HOUR_MS).toISOString().slice(0, 19)}Z`
    const { rowCount } = await database.query(
      `UPDATE authorizations
          SET attempts = CASE WHEN $2::text IS NULL THEN attempts #- '{http-01,caaChecked}'
                              ELSE jsonb_set(attempts, '{http-01,caaChecked}', to_jsonb($2)) END
        WHERE identifier_value = $1 AND status = 'valid'`,
      [name, at],
    )
    assert.equal(rowCount, 1)
  }
  const caaQueries = () =>
    [...new Set(dns.asked.filter(({ type }) => type === 'CAA').map(({ name }) => name))].toSorted()
  const metric = async (result: string) => {
    const { text } = await send({ method: 'GET', url: `${service.baseUrl}/metrics` })
    return Number(new RegExp(`^service_caa_checks_total\\{result="${result}"\\} (\\d+)`, 'm').exec(text)?.[1] ?? 0)
  }

  test('the directory lists the identities (RFC 8555 §7.1.1)', async () => {
    const { json } = await send({ method: 'GET', url: service.directoryUrl })
    assert.deepEqual(json.meta.caaIdentities, ['CA.example', 'ca2.example'])
  })

  describe('at validation', () => {
    test('a name without records is issued for, and the check is in the log and the metric', async () => {
      const before = await metric('permitted')
      await client.obtain(['free.example'], responder)
      assert.deepEqual(caaQueries(), ['example', 'free.example'])
      await until('it counts', async () => (await metric('permitted')) === before + 1)
      const line = await service.untilLogged(
        'the validation',
        ({ event, identifier }) => event === 'validation' && identifier === 'free.example',
      )
      assert.ok((line['evidence'] as { step: string }[]).some(({ step }) => step === 'caa'))
    })
    test('records that name others only are caa 403, final, and name their holder and nothing of theirs', async () => {
      zone['host.others.example'] = ['0 issue "secret-other.example"']
      const before = await metric('forbidden')
      const { order, status, challenge } = await validated('a.host.others.example')
      assert.equal(status, 'invalid')
      assert.equal(challenge.status, 'invalid')
      assert.deepEqual(challenge.error, {
        type: `${PROBLEM}caa`,
        status: 403,
        detail: 'the CAA records of host.others.example do not permit this certificate: they do not name this server',
      })
      assert.equal((await client.post(locationOf(order))).json.status, 'invalid')
      await until('it counts', async () => (await metric('forbidden')) === before + 1)
      const tries = dns.asked.filter(({ name, type }) => name === 'host.others.example' && type === 'CAA')
      assert.equal(tries.length, 1)
    })
    test('who cannot show control causes no CAA queries', async () => {
      const order = await client.newOrder(['uncontrolled.example'])
      const [url] = order.json.authorizations
      const { json } = await client.post(url)
      await client.post(json.challenges[0].url, {})
      await client.settled(url)
      assert.deepEqual(caaQueries(), [])
    })
    test('a wildcard is permitted by issuewild where issue forbids (RFC 8659 §4.3)', async () => {
      zone['one.wild.example'] = ['0 issue ";"', '0 issuewild "ca.example; validationmethods=dns-01"']
      const { order } = await triedWithDns('*.one.wild.example')
      assert.equal((await finalize(order, ['*.one.wild.example'])).json.status, 'valid')
      assert.ok(!caaQueries().some((name) => name.startsWith('*')))
      const { challenge } = await triedWithDns('one.wild.example')
      assert.equal(challenge.error.type, `${PROBLEM}caa`)
    })
    test('values of any octets are a refusal like any other, and leave a record', async () => {
      zone['octets.example'] = ['0 issue "ca.example\u0000\u001b[2J\u00ff"', '0 issue "\ud800\u0000"']
      const { challenge } = await validated('octets.example')
      assert.equal(challenge.error.type, `${PROBLEM}caa`)
      const { rows } = await database.query(
        `SELECT evidence FROM authorizations WHERE identifier_value = 'octets.example'`,
      )
      assert.ok(JSON.stringify(rows[0].evidence).includes('caa-records'))
    })
    test('accounturi admits its account and no other (RFC 8657 §3)', async () => {
      zone['bound.example'] = [`0 issue "ca.example; accounturi=${client.kid}"`]
      await client.obtain(['bound.example'], responder)
      const other = await registeredClient(service.directoryUrl)
      const { challenge } = await validated('bound.example', other)
      assert.equal(challenge.error.type, `${PROBLEM}caa`)
      assert.match(challenge.error.detail, /another account/)
    })
    test('validationmethods admits its methods and no others (RFC 8657 §4)', async () => {
      zone['http.example'] = ['0 issue "ca2.example; validationmethods=dns-01,http-01"']
      await client.obtain(['http.example'], responder)
      zone['dns.example'] = ['0 issue "ca2.example; validationmethods=dns-01"']
      assert.match((await validated('dns.example')).challenge.error.detail, /validation method/)
    })
    test('a look-up that fails is tried again and is then dns', async () => {
      failing.set('broken.example', always)
      const { status, challenge } = await validated('broken.example')
      assert.equal(status, 'invalid')
      assert.deepEqual(challenge.error, {
        type: `${PROBLEM}dns`,
        status: 400,
        detail: 'CAA look-up of broken.example failed: the name server answered SERVFAIL',
      })
      const attempts = () => service.log.filter((line) => line['identifier'] === 'broken.example')
      await until('both attempts are in the log', () => attempts().length >= 2)
      assert.deepEqual(
        attempts().map(({ result }) => result),
        ['retry', 'failure'],
      )
    })
    test('a look-up that fails first and then answers permits', async () => {
      const order = await client.newOrder(['late.example'])
      const { challenges } = (await client.post(order.json.authorizations[0])).json
      const { token } = challenges.find(({ type }: { type: string }) => type === 'http-01')
      // An attempt asks for the records after it has asked the web server.
      failing.set('late.example', () => (responder.seen.get(token) ?? 0) < 2)
      await client.authorize(order, responder)
      assert.equal((await finalize(order, ['late.example'])).json.status, 'valid')
      await service.untilLogged('the first attempt', (line) => {
        return line['identifier'] === 'late.example' && line['result'] === 'retry'
      })
    })
    test('a look-up that fails in an excepted zone is no obstacle', async () => {
      for (const name of ['host.corp.example', 'corp.example']) failing.set(name, always)
      const before = await metric('excepted')
      await client.obtain(['host.corp.example'], responder)
      await until('it counts', async () => (await metric('excepted')) === before + 1)
    })
    test('IP addresses have no CAA', async () => {
      await client.obtain(['127.0.0.1'], responder)
      assert.deepEqual(caaQueries(), [])
    })
    test('names of a zone with fixed addresses cause no queries', async () => {
      await client.obtain(['fixed.test'], responder)
      // Queries that earlier tests have repeated may arrive late.
      const asked = dns.asked.map(({ name }) => name)
      assert.deepEqual(
        asked.filter((name) => name.endsWith('test')),
        [],
      )
    })
  })

  describe('at finalize', () => {
    test('a fresh check is not repeated', async () => {
      const order = await readyOrder(['fresh.example'])
      await age('fresh.example', 7.9)
      dns.asked.length = 0
      zone['fresh.example'] = ['0 issue ";"']
      assert.equal((await finalize(order, ['fresh.example'])).json.status, 'valid')
      assert.deepEqual(caaQueries(), [])
    })
    test('a check of more than eight hours ago is repeated, and permits', async () => {
      const order = await readyOrder(['aged.example'])
      await age('aged.example', 8.1)
      dns.asked.length = 0
      assert.equal((await finalize(order, ['aged.example'])).json.status, 'valid')
      assert.deepEqual(caaQueries(), ['aged.example', 'example'])
      const orderId = locationOf(order).split('/').at(-1)
      await service.untilLogged('the check', (line) => line['event'] === 'caa_check' && line['orderId'] === orderId)
    })
    test('a repeated check that forbids is caa 403, and the order stays ready', async () => {
      const order = await readyOrder(['turned.example'])
      await age('turned.example', 9)
      zone['turned.example'] = ['0 issue ";"']
      const refused = await finalize(order, ['turned.example'])
      assert.equal(refused.status, 403)
      assert.equal(refused.json.type, `${PROBLEM}caa`)
      assert.equal(
        refused.json.detail,
        'the CAA records of turned.example do not permit this certificate: they do not name this server',
      )
      assert.equal((await client.post(locationOf(order))).json.status, 'ready')
      zone['turned.example'] = ['0 issue "ca.example"']
      assert.equal((await finalize(order, ['turned.example'])).json.status, 'valid')
    })
    test('a name that was never checked is checked (an authorization of other origin)', async () => {
      const order = await readyOrder(['never.example'])
      await age('never.example', undefined)
      zone['never.example'] = ['0 issue ";"']
      assert.equal((await finalize(order, ['never.example'])).json.type, `${PROBLEM}caa`)
    })
    test('an authorization without any attempt has no method, and its records are asked', async () => {
      const order = await readyOrder(['approved.example'])
      await database.query(`UPDATE authorizations SET attempts = '{}' WHERE identifier_value = 'approved.example'`)
      zone['approved.example'] = ['0 issue "ca.example; validationmethods=http-01"']
      assert.match((await finalize(order, ['approved.example'])).json.detail, /validation method/)
      zone['approved.example'] = ['0 issue "ca.example"']
      assert.equal((await finalize(order, ['approved.example'])).json.status, 'valid')
    })
    test('a wildcard is checked as one, and the method is that of its validation', async () => {
      const name = '*.aged.wild.example'
      const { order } = await triedWithDns(name)
      await database.query(
        `UPDATE authorizations SET attempts = attempts #- '{dns-01,caaChecked}' WHERE identifier_value = 'aged.wild.example'`,
      )
      zone['aged.wild.example'] = ['0 issue "ca.example"', '0 issuewild ";"']
      assert.equal((await finalize(order, [name])).json.type, `${PROBLEM}caa`)
      zone['aged.wild.example'] = ['0 issue ";"', '0 issuewild "ca.example; validationmethods=dns-01"']
      assert.equal((await finalize(order, [name])).json.status, 'valid')
    })
    test('only the aged names of an order are asked for', async () => {
      const names = ['one.mixed.example', 'two.mixed.example', '127.0.0.1']
      const order = await readyOrder(names)
      await age('two.mixed.example', 9)
      dns.asked.length = 0
      assert.equal((await finalize(order, names)).json.status, 'valid')
      assert.deepEqual(caaQueries(), ['example', 'mixed.example', 'two.mixed.example'])
    })
    test('so is a name that was checked while the clock was 400 days ahead, beside one that was checked lately', async () => {
      const names = ['one.ahead.example', 'two.ahead.example']
      const order = await readyOrder(names)
      await age('one.ahead.example', -400 * 24)
      zone['one.ahead.example'] = ['0 issue ";"']
      assert.equal((await finalize(order, names)).json.type, `${PROBLEM}caa`)
      zone['one.ahead.example'] = ['0 issue "ca.example"']
      assert.equal((await finalize(order, names)).json.status, 'valid')
    })
    test('the method of the validation and the account count again', async () => {
      const order = await readyOrder(['again.example'])
      await age('again.example', 9)
      zone['again.example'] = ['0 issue "ca.example; validationmethods=dns-01"']
      assert.match((await finalize(order, ['again.example'])).json.detail, /validation method/)
      zone['again.example'] = [`0 issue "ca.example; accounturi=${client.kid}0"`]
      assert.match((await finalize(order, ['again.example'])).json.detail, /another account/)
      zone['again.example'] = [`0 issue "ca.example; accounturi=${client.kid}; validationmethods=http-01"`]
      assert.equal((await finalize(order, ['again.example'])).json.status, 'valid')
    })
    test('several names are one compound problem with a subproblem each (RFC 8555 §6.7.1)', async () => {
      const names = ['a.several.example', 'b.several.example', 'c.several.example']
      const order = await readyOrder(names)
      for (const name of names) await age(name, 9)
      zone['a.several.example'] = ['0 issue ";"']
      failing.set('c.several.example', always)
      const refused = await finalize(order, names)
      assert.equal(refused.status, 400)
      assert.equal(refused.json.type, `${PROBLEM}compound`)
      assert.deepEqual(
        refused.json.subproblems.map(({ type, identifier }: { type: string; identifier: object }) => [
          type,
          identifier,
        ]),
        [
          [`${PROBLEM}caa`, { type: 'dns', value: 'a.several.example' }],
          [`${PROBLEM}dns`, { type: 'dns', value: 'c.several.example' }],
        ],
      )
      assert.equal(refused.headers['retry-after'], undefined)
    })
    test('a look-up that fails is dns 503 with Retry-After, and the order stays ready', async () => {
      const order = await readyOrder(['away.example'])
      await age('away.example', 9)
      failing.set('away.example', always)
      const refused = await finalize(order, ['away.example'])
      assert.equal(refused.status, 503)
      assert.equal(refused.json.type, `${PROBLEM}dns`)
      assert.equal(refused.headers['retry-after'], '60')
      failing.clear()
      assert.equal((await finalize(order, ['away.example'])).json.status, 'valid')
    })
    test('a CSR that is refused costs no queries', async () => {
      const order = await readyOrder(['csr.example'])
      await age('csr.example', 9)
      dns.asked.length = 0
      assert.equal((await finalize(order, ['other.example'])).json.type, `${PROBLEM}badCSR`)
      assert.deepEqual(caaQueries(), [])
    })
    test('a CSR profile that is replaced while name servers are asked counts', async () => {
      const one = await registeredClient(service.directoryUrl)
      const profile = randomUUID()
      await database.query("INSERT INTO csr_profiles (id, name, profile_data) VALUES ($1, 'replaced', '{}')", [profile])
      await database.query('INSERT INTO account_csr_profiles (account_id, csr_profile_id) VALUES ($1, $2)', [
        one.kid.split('/').at(-1),
        profile,
      ])
      const order = await readyOrder(['replaced.example'], one)
      await age('replaced.example', 9)
      dns.asked.length = 0
      silent = true
      const answer = finalize(order, ['replaced.example'], one)
      await until('name servers are asked', () => caaQueries().length > 0)
      await database.query(`UPDATE csr_profiles SET profile_data = '{"san_maximum": 0}' WHERE id = $1`, [profile])
      silent = false
      const { json } = await answer
      assert.equal(json.type, `${PROBLEM}badCSR`, JSON.stringify(json))
    })
    test('silent name servers are waited for within a bound, and health answers meanwhile', async () => {
      const clients = await Promise.all(Array.from({ length: 30 }, () => registeredClient(service.directoryUrl)))
      const orders: Answer[] = []
      for (const [i, one] of clients.entries()) orders.push(await readyOrder([`n${i}.silent.example`], one))
      for (const i of orders.keys()) await age(`n${i}.silent.example`, 9)
      silent = true
      let waiting = orders.length
      const answers = Promise.all(
        orders.map((order, i) => finalize(order, [`n${i}.silent.example`], clients[i]).finally(() => waiting--)),
      )
      await until('name servers are asked', () => caaQueries().length > 0)
      // On a connection of its own: those of the client are all waiting.
      assert.equal((await fetch(`${service.baseUrl}/healthz`)).status, 200)
      assert.ok(waiting > 0, 'health waited')
      for (const { status, json } of await answers) {
        assert.equal(status, 503)
        assert.match(json.type, /:(dns|serverInternal)$/)
      }
    })
  })
})
