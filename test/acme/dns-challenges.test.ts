/** dns-01 (RFC 8555 §8.4) and dns-account-01 end to end: what is offered, who is asked, what the client sees meanwhile. */

import assert from 'node:assert/strict'
import { createHash, X509Certificate } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { accountLabel } from '../../src/shared/protocol/challenge.ts'
import { type Answer, csrFor, locationOf, pemToDer } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { type Names, scriptedNames } from '../support/names/scripted-names.ts'
import { until } from '../support/until.ts'
import { NXDOMAIN, type Script, type ScriptedDns, txt } from '../workers/scripted-dns.ts'

const PROBLEM = 'urn:ietf:params:acme:error:'

const txtScript =
  (records: Map<string, string[]>): Script =>
  ({ name, type }) => {
    const found = records.get(name)
    if (!found) return { rcode: NXDOMAIN }
    return { answers: type === 'TXT' ? found.map((text) => txt(name, text)) : [] }
  }

interface Challenge {
  type: string
  url: string
  token: string
  status: string
  error?: { type: string; detail: string }
}

describe('DNS challenges', () => {
  /** TXT records by name. */
  const records = new Map<string, string[]>()
  const split = new Map<string, string[]>()
  let names: Names
  const { client } = acmeScene('names')
  before(async () => {
    names = await scriptedNames()
    names.methods.script = txtScript(records)
    names.inside.script = txtScript(split)
  })

  const digestOf = ({ token }: Challenge) =>
    createHash('sha256').update(`${token}.${client.key.thumbprint}`).digest('base64url')

  async function challengesOf(order: Answer): Promise<Challenge[]> {
    return (await client.post(order.json.authorizations[0])).json.challenges
  }

  async function challengeFor(name: string, type: string): Promise<{ order: Answer; challenge: Challenge }> {
    const order = await client.newOrder([name])
    const challenge = (await challengesOf(order)).find((offered) => offered.type === type)
    assert.ok(challenge, `${type} is offered`)
    return { order, challenge }
  }

  /** Triggers it and gives the challenge as it ends. */
  async function outcome({ url }: Challenge): Promise<Challenge> {
    const answer = await client.post(url, {})
    assert.equal(answer.status, 200)
    return (await client.settled(url)).json
  }

  test('a wildcard is offered the methods that look into the DNS, a name the others as well', async () => {
    const offered = async (name: string) => (await challengesOf(await client.newOrder([name]))).map(({ type }) => type)
    const looking = ['dns-01', 'dns-account-01', 'dns-persist-01']
    assert.deepEqual(await offered('*.offered.example'), ['accept-all-01', ...looking])
    assert.deepEqual(await offered('offered.example'), ['http-01', 'faulty-01', 'accept-all-01', ...looking])
  })

  test('a wildcard certificate by dns-01', async () => {
    const { order, challenge } = await challengeFor('*.wild.example', 'dns-01')
    records.set('_acme-challenge.wild.example', ['of-another-order', digestOf(challenge)])
    assert.equal((await outcome(challenge)).status, 'valid')
    await client.post(order.json.finalize, { csr: await csrFor(['*.wild.example']) })
    const done = await client.settled(locationOf(order))
    const chain = (await client.post(done.json.certificate)).text
    assert.ok(new X509Certificate(pemToDer(chain)[0]!).checkHost('any.wild.example'))
  })

  test('dns-account-01 looks below the label of the account URL that Location gave', async () => {
    const { challenge } = await challengeFor('*.labelled.example', 'dns-account-01')
    records.set(`_${accountLabel(client.kid)}._acme-challenge.labelled.example`, [digestOf(challenge)])
    assert.equal((await outcome(challenge)).status, 'valid')
  })

  test('dns-account-01 does not take the record of dns-01', async () => {
    const { challenge } = await challengeFor('unlabelled.example', 'dns-account-01')
    records.set('_acme-challenge.unlabelled.example', [digestOf(challenge)])
    await client.post(challenge.url, {})
    const waiting = await withError(challenge)
    assert.equal(waiting.error?.type, `${PROBLEM}dns`)
  })

  /** The challenge as soon as an attempt has failed. */
  async function withError({ url }: Challenge): Promise<Challenge> {
    return until('an attempt has failed', async () => {
      const { json } = await client.post(url)
      return json.error && json
    })
  }

  test('a record that comes late counts: processing with the error meanwhile, then valid (§8.2)', async () => {
    const { challenge } = await challengeFor('late.example', 'dns-01')
    await client.post(challenge.url, {})
    const waiting = await withError(challenge)
    assert.deepEqual(
      [waiting.status, waiting.error?.type, waiting.error?.detail],
      ['processing', `${PROBLEM}dns`, 'TXT _acme-challenge.late.example: the name does not exist (NXDOMAIN)'],
    )
    records.set('_acme-challenge.late.example', [digestOf(challenge)])
    const done = (await client.settled(challenge.url)).json
    assert.equal(done.status, 'valid')
    assert.equal('error' in done, false)
  })

  test('what a wrong record says is in no text for the client', async () => {
    const { challenge } = await challengeFor('wrong.example', 'dns-01')
    records.set('_acme-challenge.wrong.example', ['SECRET-OF-THE-ZONE'])
    await client.post(challenge.url, {})
    const { error } = await withError(challenge)
    assert.deepEqual(error, {
      type: `${PROBLEM}incorrectResponse`,
      detail: 'TXT _acme-challenge.wrong.example: the TXT record is not the digest of the key authorization',
      status: 400,
    })
  })

  test('the resolvers of a zone are asked before those of the method, and those before the general ones', async () => {
    const { challenge } = await challengeFor('host.inside.test', 'dns-01')
    split.set('_acme-challenge.host.inside.test', [digestOf(challenge)])
    assert.equal((await outcome(challenge)).status, 'valid')
    const asked = ({ asked }: ScriptedDns) => asked.some(({ name }) => name === '_acme-challenge.host.inside.test')
    assert.deepEqual([asked(names.inside), asked(names.methods), asked(names.general)], [true, false, false])
    assert.ok(names.methods.asked.some(({ name }) => name === '_acme-challenge.wild.example'))
    assert.ok(!names.general.asked.some(({ name }) => name.startsWith('_acme-challenge')))
  })
})
