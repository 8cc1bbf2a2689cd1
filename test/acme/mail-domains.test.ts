/** `email.validate_mx` over the whole service: contacts need a domain that takes mail (RFC 8555 §7.3; RFC 5321 §5.1, RFC 7505). */

import assert from 'node:assert/strict'
import { before, beforeEach, describe, test } from 'node:test'
import type dnsPacket from 'dns-packet'
import { type Answer, createAcmeClient } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { rowsIn } from '../support/database.ts'
import { type Names, scriptedNames } from '../support/names/scripted-names.ts'
import { until } from '../support/until.ts'
import { a, aaaa, cname, NXDOMAIN, type Scripted, SERVFAIL } from '../workers/scripted-dns.ts'

const mx = (name: string, exchange: string, preference = 10): dnsPacket.Answer => ({
  type: 'MX',
  name,
  ttl: 60,
  data: { preference, exchange },
})

/** Type → answer, by name; what is not there has no such record. */
const ZONE: Record<string, Record<string, Scripted>> = {
  'mail.example': { MX: { answers: [mx('mail.example', 'mx.mail.example')] } },
  'alias.example': { MX: { answers: [cname('alias.example', 'mail.example'), mx('mail.example', 'mx.mail.example')] } },
  'v4.example': { A: { answers: [a('v4.example', '192.0.2.1')] } },
  'v6.example': { AAAA: { answers: [aaaa('v6.example', '2001:db8::1')] } },
  'null.example': { MX: { answers: [mx('null.example', '.', 0)] }, A: { answers: [a('null.example', '192.0.2.1')] } },
  'both.example': { MX: { answers: [mx('both.example', '.', 0), mx('both.example', 'mx.both.example')] } },
  'empty.example': {},
  'broken.example': { MX: { rcode: SERVFAIL } },
  'half.example': { A: { rcode: SERVFAIL }, AAAA: { rcode: SERVFAIL } },
  'silent.example': { MX: 'drop' },
  'malformed.example': {
    MX: { answers: [{ type: 'UNKNOWN_15', name: 'malformed.example', data: Buffer.from([0]) } as never] },
  },
}

const ACCEPTED = {
  'an MX record': 'mail.example',
  'an alias of one': 'alias.example',
  'no MX and an IPv4 address (RFC 5321 §5.1)': 'v4.example',
  'no MX and an IPv6 address (RFC 5321 §5.1)': 'v6.example',
  'a mail server beside the null MX': 'both.example',
}
const REFUSED = {
  'a name that does not exist': ['missing.example', /missing\.example does not exist/],
  'the null MX, whatever addresses there are (RFC 7505 §3)': ['null.example', /null\.example accepts no mail/],
  'neither MX nor address': ['empty.example', /empty\.example has neither a mail server \(MX\) nor an address/],
  'a label of 64 characters': [`${'a'.repeat(64)}.example`, /is no domain name/],
} as const
const UNCHECKED = {
  'an error of the name server': 'broken.example',
  'an error for the addresses': 'half.example',
  'no answer': 'silent.example',
  'an answer that is malformed': 'malformed.example',
}

describe('the MX check of contacts', () => {
  let dns: Names['general']
  const { service } = acmeScene('names')

  before(async () => {
    dns = (await scriptedNames()).general
    dns.script = ({ name, type }) => {
      const records = ZONE[name]
      return records ? (records[type] ?? {}) : { rcode: NXDOMAIN }
    }
  })
  beforeEach(() => {
    dns.asked.length = 0
  })

  const freshClient = () => createAcmeClient(service.directoryUrl)
  const register = async (...domains: readonly string[]): Promise<Answer> =>
    (await freshClient()).newAccount({ contact: domains.map((domain) => `mailto:admin@${domain}`) })
  const asked = () => [...new Set(dns.asked.map(({ name, type }) => `${name} ${type}`))].toSorted()

  function assertInvalid(answer: Answer, detail: RegExp): void {
    assert.equal(`${answer.status} ${answer.json.type}`, '400 urn:ietf:params:acme:error:invalidContact', answer.text)
    assert.match(answer.json.detail, detail)
  }

  for (const [what, domain] of Object.entries(ACCEPTED))
    test(`${what} is enough`, async () => {
      const answer = await register(domain)
      assert.equal(answer.status, 201, answer.text)
      assert.deepEqual(answer.json.contact, [`mailto:admin@${domain}`])
    })

  for (const [what, [domain, detail]] of Object.entries(REFUSED))
    test(`${what} is invalidContact (§7.3)`, async () => assertInvalid(await register(domain), detail))

  for (const [what, domain] of Object.entries(UNCHECKED))
    test(`${what} keeps nobody from an account, and the log says so`, async () => {
      const answer = await register(domain)
      assert.equal(answer.status, 201, answer.text)
      await service.untilLogged(
        'the check that was not made',
        ({ event, domains }) => event === 'mx_unchecked' && String(domains) === domain,
      )
    })

  test('a key that is blocked while a name server is silent gets no account', async () => {
    const client = await freshClient()
    const answer = client.newAccount({ contact: ['mailto:admin@silent.example'] })
    await until('the name server is asked', () => dns.asked.length > 0)
    await rowsIn(
      service.database,
      'INSERT INTO blocked_keys (spki_sha256, certificate_id) VALUES (account_spki_sha256($1), gen_random_uuid())',
      [client.key.jwk],
    )
    assert.equal((await answer).json.type, 'urn:ietf:params:acme:error:badPublicKey')
  })

  test('every domain counts, and is asked for once', async () => {
    assertInvalid(
      await register('mail.example', 'missing.example', 'null.example'),
      /missing\.example .*; null\.example/,
    )
    dns.asked.length = 0
    const contact = ['mailto:a@mail.example', 'mailto:b@MAIL.example']
    const answer = await (await freshClient()).newAccount({ contact })
    assert.equal(answer.status, 201, answer.text)
    assert.deepEqual(asked(), ['mail.example MX'])
    assert.equal(dns.asked.length, 1)
  })

  test('an update is checked in the same way, and one that is refused changes nothing (§7.3.2)', async () => {
    const client = await freshClient()
    await client.newAccount({ contact: ['mailto:a@mail.example'] })
    assertInvalid(await client.post(client.kid, { contact: ['mailto:a@null.example'] }), /accepts no mail/)
    assert.deepEqual((await client.post(client.kid)).json.contact, ['mailto:a@mail.example'])
    const { json } = await client.post(client.kid, { contact: ['mailto:a@v4.example'] })
    assert.deepEqual(json.contact, ['mailto:a@v4.example'])
  })

  test('an account that exists is found, whatever became of its domain (§7.3.1)', async () => {
    const client = await freshClient()
    assert.equal((await client.newAccount()).status, 201)
    const again = await client.newAccount({ contact: ['mailto:a@missing.example'] })
    assert.equal(again.status, 200, again.text)
    assert.equal('contact' in again.json, false)
  })

  test('nobody is asked for requests without a contact, or with one that is refused anyway', async () => {
    const client = await freshClient()
    assert.equal((await client.newAccount()).status, 201)
    assert.equal((await client.post(client.kid, { contact: [] })).status, 200)
    assertInvalid(await register('mail.example?subject=x'), /header fields/)
    assert.deepEqual(asked(), [])
  })
})
