/** dns-01 (RFC 8555 §8.4) and dns-account-01 end to end: what is offered, who is asked, what the client sees meanwhile. */

import assert from 'node:assert/strict'
import { createHash, X509Certificate } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { accountLabel } from '../../src/shared/protocol/account-labels.ts'
import {
  type AcmeClient,
  type Answer,
  closeConnections,
  csrFor,
  locationOf,
  pemToDer,
  registeredClient,
} from '../support/acme-client.ts'
import { type DnsRecords, startDnsRecords } from '../support/dns-records.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { NXDOMAIN, type ScriptedDns, startDns } from '../workers/scripted-dns.ts'

const PROBLEM = 'urn:ietf:params:acme:error:'

interface Challenge {
  type: string
  url: string
  token: string
  status: string
  error?: { type: string; detail: string }
}

describe('DNS challenges', () => {
  const folders: string[] = []
  let records: DnsRecords
  let split: DnsRecords
  let general: ScriptedDns
  let service: TestService
  let client: AcmeClient
  before(async () => {
    for (let count = 0; count < 2; count++) folders.push(mkdtempSync(path.join(tmpdir(), 'chancery-records-')))
    records = await startDnsRecords(folders[0]!)
    split = await startDnsRecords(folders[1]!)
    general = await startDns(() => ({ rcode: NXDOMAIN }))
    const method = { resolvers: [records.server.resolver], propagation_wait_seconds: 1 }
    service = await startTestService({
      fronts: 1,
      config: {
        challenges: { enabled: ['http-01', 'dns-01', 'dns-account-01'], dns01: method, dnsaccount01: method },
        dns: { resolvers: [general.resolver], zones: [{ zone: 'inside.test', resolvers: [split.server.resolver] }] },
      },
    })
    client = await registeredClient(service.directoryUrl)
  })
  after(async () => {
    closeConnections()
    await service?.dispose()
    await Promise.all([records?.close(), split?.close(), general?.close()])
    for (const folder of folders) rmSync(folder, { recursive: true, force: true })
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
    assert.deepEqual(await offered('*.offered.test'), ['dns-01', 'dns-account-01'])
    assert.deepEqual(await offered('offered.test'), ['http-01', 'dns-01', 'dns-account-01'])
  })

  test('a wildcard certificate by dns-01', async () => {
    const { order, challenge } = await challengeFor('*.wild.test', 'dns-01')
    records.publish('_acme-challenge.wild.test', 'of-another-order', digestOf(challenge))
    assert.equal((await outcome(challenge)).status, 'valid')
    await client.post(order.json.finalize, { csr: await csrFor(['*.wild.test']) })
    const done = await client.settled(locationOf(order))
    const chain = (await client.post(done.json.certificate)).text
    assert.ok(new X509Certificate(pemToDer(chain)[0]!).checkHost('any.wild.test'))
  })

  test('dns-account-01 looks below the label of the account URL that Location gave', async () => {
    const { challenge } = await challengeFor('*.labelled.test', 'dns-account-01')
    records.publish(`_${accountLabel(client.kid)}._acme-challenge.labelled.test`, digestOf(challenge))
    assert.equal((await outcome(challenge)).status, 'valid')
  })

  test('dns-account-01 does not take the record of dns-01', async () => {
    const { challenge } = await challengeFor('unlabelled.test', 'dns-account-01')
    records.publish('_acme-challenge.unlabelled.test', digestOf(challenge))
    await client.post(challenge.url, {})
    const waiting = await withError(challenge)
    assert.equal(waiting.error?.type, `${PROBLEM}dns`)
  })

  /** The challenge as soon as an attempt has failed. */
  async function withError({ url }: Challenge): Promise<Challenge> {
    for (;;) {
      const { json } = await client.post(url)
      if (json.error) return json
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }

  test('a record that comes late counts: processing with the error meanwhile, then valid (§8.2)', async () => {
    const { challenge } = await challengeFor('late.test', 'dns-01')
    await client.post(challenge.url, {})
    const waiting = await withError(challenge)
    assert.deepEqual(
      [waiting.status, waiting.error?.type, waiting.error?.detail],
      ['processing', `${PROBLEM}dns`, 'TXT _acme-challenge.late.test: the name does not exist (NXDOMAIN)'],
    )
    records.publish('_acme-challenge.late.test', digestOf(challenge))
    const done = (await client.settled(challenge.url)).json
    assert.equal(done.status, 'valid')
    assert.equal('error' in done, false)
  })

  test('what a wrong record says is in no text for the client', async () => {
    const { challenge } = await challengeFor('wrong.test', 'dns-01')
    records.publish('_acme-challenge.wrong.test', 'SECRET-OF-THE-ZONE')
    await client.post(challenge.url, {})
    const { error } = await withError(challenge)
    assert.deepEqual(error, {
      type: `${PROBLEM}incorrectResponse`,
      detail: 'TXT _acme-challenge.wrong.test: the TXT record is not the digest of the key authorization',
      status: 400,
    })
  })

  test('the resolvers of a zone are asked before those of the method, and those before the general ones', async () => {
    const { challenge } = await challengeFor('host.inside.test', 'dns-01')
    split.publish('_acme-challenge.host.inside.test', digestOf(challenge))
    assert.equal((await outcome(challenge)).status, 'valid')
    const asked = ({ asked }: ScriptedDns) => asked.some(({ name }) => name === '_acme-challenge.host.inside.test')
    assert.deepEqual([asked(split.server), asked(records.server), asked(general)], [true, false, false])
    assert.ok(records.server.asked.some(({ name }) => name === '_acme-challenge.wild.test'))
    assert.ok(!general.asked.some(({ name }) => name.startsWith('_acme-challenge')))
  })
})
