/** `require_dnssec` with Debian's Unbound as the validating resolver and Knot DNS serving zones signed by BIND's tools. */

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import type { Dns01Job } from '../../workers/job.ts'
import { validateDns01 } from '../../workers/validate/dns.ts'
import type { Answer } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { freePort } from '../support/free-port.ts'
import { type SignedZone, type SignedZones, startSignedZones } from '../support/names/signed-zones.ts'
import { requireCommand } from '../support/requirements.ts'
import { startTestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { looksOf, settingsOf, txtJob } from '../workers/scripted-txt.ts'
import { assertValid } from '../workers/verdicts.ts'

const PROBLEM = 'urn:ietf:params:acme:error:'

const needs = [requireCommand('unbound'), requireCommand('knotd'), requireCommand('dnssec-signzone')]
const skip = needs.find((need) => need.skip !== false)?.skip ?? false

describe('DNSSEC', { skip }, () => {
  const KINDS = ['signed', 'unsigned', 'broken'] as const
  const folder = temporaryFolder()
  let zones: SignedZones
  let resolver: number
  const challenges: Record<string, { url: string; keyAuthorization: string }> = {}

  const { service, client } = acmeScene(async () => {
    resolver = await freePort()
    return startTestService({
      fronts: 1,
      config: {
        challenges: {
          enabled: ['dns-01'],
          dns01: {
            resolvers: [`127.0.0.1:${resolver}`],
            require_dnssec: true,
            max_retries: 0,
            propagation_wait_seconds: 0,
          },
        },
      },
    })
  })
  before(async () => {
    // The records are known once the orders are there, and the zones are signed with the records in them.
    for (const kind of KINDS) challenges[kind] = await challengeFor(`${kind}.lab`)
    for (const kind of ['wildcard', 'missing', 'wrong']) challenges[kind] = await challengeFor(`${kind}.signed.lab`)
    zones = await startSignedZones(folder, KINDS.map(zoneOf), { resolver })
  })
  after(() => zones?.stop())

  async function challengeFor(name: string): Promise<{ url: string; keyAuthorization: string }> {
    const order = await client.newOrder([`*.${name}`])
    const { json } = await client.post(order.json.authorizations[0])
    const [{ url, token }] = json.challenges
    return { url, keyAuthorization: `${token}.${client.key.thumbprint}` }
  }

  const valueFor = (name: string) => createHash('sha256').update(challenges[name]!.keyAuthorization).digest('base64url')

  function zoneOf(kind: (typeof KINDS)[number]): SignedZone {
    const zone = `${kind}.lab`
    const txt: Record<string, string[]> = { [`_acme-challenge.${zone}`]: [valueFor(kind)] }
    if (kind === 'signed') {
      txt['_acme-challenge.wildcard.signed.lab'] = ['beside-it', valueFor('wildcard')]
      txt['_acme-challenge.wrong.signed.lab'] = ['something else']
    }
    return { zone, kind, txt }
  }

  async function outcome(name: string): Promise<Answer> {
    const { url } = challenges[name]!
    await client.post(url, {})
    return client.settled(url)
  }
  /** The same record, asked for by a validator with other settings. */
  const validated = (name: string, changes: Partial<Dns01Job>) =>
    validateDns01(
      txtJob([zones.resolver], {
        identifier: { type: 'dns', value: name },
        keyAuthorizationDigest: valueFor(name.replace(/\.lab$/, '')),
        ...changes,
      }),
    )

  test('a record in a signed zone is accepted', async () => {
    assert.equal((await outcome('signed')).json.status, 'valid')
  })
  test('a signed name with one right record of two is accepted', async () => {
    assert.equal((await outcome('wildcard')).json.status, 'valid')
  })
  test('the same record in an unsigned zone is refused', async () => {
    const { json } = await outcome('unsigned')
    assert.deepEqual(
      [json.status, json.error.type, json.error.detail],
      ['invalid', `${PROBLEM}dns`, 'TXT _acme-challenge.unsigned.lab: the answer is not authenticated by DNSSEC'],
    )
  })
  test('the right record with a signature that is not its own is not, because the resolver refuses it', async () => {
    const { json } = await outcome('broken')
    assert.deepEqual(
      [json.status, json.error.type, json.error.detail],
      ['invalid', `${PROBLEM}dns`, 'TXT _acme-challenge.broken.lab: look-up failed: the name server answered SERVFAIL'],
    )
  })
  test('a name that a signed zone denies does not exist', async () => {
    const { json } = await outcome('missing')
    assert.equal(json.error.detail, 'TXT _acme-challenge.missing.signed.lab: the name does not exist (NXDOMAIN)')
  })
  test('a signed record with something else is incorrectResponse', async () => {
    assert.equal((await outcome('wrong')).json.error.type, `${PROBLEM}incorrectResponse`)
  })
  test('the log says who was asked and that the answer was authenticated', async () => {
    const line = await service.untilLogged(
      'the attempt',
      ({ message, identifier }) => message === 'validation attempt' && identifier === 'signed.lab',
    )
    const [look] = line['evidence'] as Record<string, unknown>[]
    assert.deepEqual(
      { ...look, durationMs: 0 },
      {
        step: 'looked-up',
        name: '_acme-challenge.signed.lab',
        via: 'resolver',
        result: 'answer',
        resolver: zones.resolver,
        authenticated: true,
        aliases: [],
        records: 1,
        durationMs: 0,
      },
    )
  })
  test('without require_dnssec the unsigned record is right, so it was the signature that was missing', async () => {
    assertValid(await validated('unsigned.lab', { requireDnssec: false }))
  })
  test('a server that validates nothing hands the broken record out, and it does not count', async () => {
    const dns = settingsOf([zones.server])
    assertValid(await validated('broken.lab', { dns }))
    const verdict = await validated('broken.lab', { dns, requireDnssec: true })
    assert.ok(!verdict.ok && verdict.problem === 'dns')
  })
  test('require_authoritative finds Knot by way of Unbound, and both settings together ask both', async () => {
    const authoritativePort = Number(zones.server.split(':')[1])
    const verdict = await validated('signed.lab', {
      requireAuthoritative: true,
      requireDnssec: true,
      authoritativePort,
    })
    assertValid(verdict)
    assert.deepEqual(
      looksOf(verdict).map(({ resolver }) => resolver),
      [zones.server, zones.resolver],
    )
  })
})
