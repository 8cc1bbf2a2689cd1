/** Two services chained: the certificates of one come from the other, by http-01 and by dns-01. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { chmodSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { makeAuthority } from '../signer/authority.ts'
import {
  type AcmeClient,
  closeConnections,
  csrFor,
  locationOf,
  type Obtained,
  type Responder,
  registeredClient,
  revoke,
  send,
  startResponder,
} from '../support/acme-client.ts'
import { certIdOf } from '../support/certificate-id.ts'
import { startChallengeFolder } from '../support/clients/http01-responder.ts'
import { rowsIn } from '../support/database.ts'
import { type DnsRecords, startDnsRecords } from '../support/names/dns-records.ts'
import { scriptedNames } from '../support/names/scripted-names.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { FOR_SERVERS, sharedService } from '../support/shared-service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { txt } from '../workers/scripted-dns.ts'

const SHORT = { ...FOR_SERVERS, validity_days: 1 }

describe('a service behind another ACME service', () => {
  const folder = temporaryFolder()
  let records: DnsRecords
  let upstream: TestService
  let closeWebServer: () => Promise<void>
  let byHttp: Chained
  let byDns: Chained

  interface Chained {
    service: TestService
    responder: Responder
    client: AcmeClient
  }

  const challenges = () => path.join(folder, '.well-known', 'acme-challenge')
  const query = (service: TestService, text: string, values: unknown[] = []) => rowsIn(service.database, text, values)

  before(async () => {
    mkdirSync(challenges(), { recursive: true })
    records = await startDnsRecords(folder)
    upstream = await sharedService('names')
    const names = await scriptedNames()
    names.inside.script = ({ name, type }) => ({
      answers: type === 'TXT' ? records.values(name).map((value) => txt(name, value)) : [],
    })
    closeWebServer = await startChallengeFolder(upstream.http01Port, challenges())
    byHttp = await chained({
      challenge_type: 'http-01',
      challenge_handler: 'file_http',
      challenge_handler_config: { webroot: folder },
    })
    const script = (name: string, action: string) => {
      const file = path.join(folder, name)
      writeFileSync(file, `#!/bin/sh\nset -e\n${action}\n`)
      chmodSync(file, 0o755)
      return file
    }
    const value = `${records.env.RECORDS}/$CHANCERY_RECORD_NAME/$CHANCERY_RECORD_VALUE`
    const anchor = path.join(folder, 'anchor.pem')
    writeFileSync(anchor, makeAuthority().certificatePem)
    byDns = await chained({
      trust_anchors: [anchor],
      challenge_handler: 'callback_dns',
      challenge_handler_config: {
        create_script: script('create', `mkdir -p "${records.env.RECORDS}/$2"\n: > "${records.env.RECORDS}/$2/$3"`),
        delete_script: script('delete', `rm -f "${value}"`),
        propagation_delay: 0,
      },
    })
  })
  after(async () => {
    closeConnections()
    for (const one of [byHttp, byDns]) {
      await one?.responder.close()
      await one?.service.dispose()
    }
    await closeWebServer?.()
    await records?.close()
  })

  async function chained(proxy: Record<string, unknown>): Promise<Chained> {
    const service = await startTestService({
      fronts: 1,
      config: {
        ari: { enabled: true },
        challenges: { enabled: ['http-01', 'dns-01'] },
        dns: { zones: [{ zone: 'test', addresses: ['127.0.0.1'], resolvers: [records.server.resolver] }] },
        ca: {
          backend: 'acme_proxy',
          profiles: { short: SHORT, unknown: {} },
          acme_proxy: {
            directory_url: upstream.directoryUrl,
            email: 'pki@chained.test',
            storage_path: path.join(folder, 'storage'),
            trust_anchors: [upstream.ca.root],
            ...proxy,
          },
        },
      },
    })
    const responder = await startResponder(service.http01Port)
    return { service, responder, client: await registeredClient(service.directoryUrl) }
  }

  const obtain = ({ client, responder }: Chained, name: string, order: object = {}): Promise<Obtained> =>
    client.obtain([name], responder, { order })

  const upstreamOrders = (name: string) =>
    query(upstream, `SELECT status, replaces, profile FROM orders WHERE identifiers @> $1::jsonb ORDER BY id`, [
      JSON.stringify([{ value: name }]),
    ])

  test('http-01: the chain is the upstream’s, one order was made there, and nothing is left behind', async () => {
    const { der, chain } = await obtain(byHttp, 'file.test')
    const leaf = new X509Certificate(der)
    assert.equal(leaf.subjectAltName, 'DNS:file.test')
    const [, issuer = ''] = chain.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? []
    assert.ok(leaf.verify(new X509Certificate(issuer).publicKey))
    assert.deepEqual(
      (await upstreamOrders('file.test')).map(({ status }) => status),
      ['valid'],
    )
    const [row] = await query(byHttp.service, 'SELECT backend FROM certificates WHERE der = $1', [der])
    assert.deepEqual(row, { backend: 'acme_proxy' })
    assert.deepEqual(readdirSync(challenges()), [])
    const [known] = await query(upstream, 'SELECT count(*)::integer AS n FROM certificates WHERE der = $1', [der])
    assert.deepEqual(known, { n: 1 })
  })

  test('dns-01, and another root than the trust_anchors: scripts publish records and withdraw them, nobody gets what was issued', async () => {
    const { client, responder, service } = byDns
    const order = await client.newOrder(['script.inside.test'])
    await client.authorize(order, responder)
    await client.post(order.json.finalize, { csr: await csrFor(['script.inside.test']) })
    const ended = await client.settled(locationOf(order))
    assert.equal(ended.json.status, 'invalid')
    assert.equal(ended.json.error.detail, 'the CA did not issue the certificate that was asked for')
    assert.deepEqual(await query(service, 'SELECT FROM certificates'), [])
    const alarm = await service.untilLogged('an alarm', ({ event }) => event === 'alarm')
    assert.match(JSON.stringify(alarm), /does not end at one of the trust_anchors/)
    await until('the record is gone', () => records.values('_acme-challenge.script.inside.test').length === 0)
    await until('its revocation upstream', async () => {
      const rows = await query(
        upstream,
        'SELECT revoked_at IS NOT NULL AS revoked FROM certificates WHERE names = $1',
        ['{script.inside.test}'],
      )
      assert.equal(rows.length, 1)
      return rows[0]?.['revoked'] === true
    })
    await until('no open revocation', async () => {
      return (await query(service, 'SELECT FROM backend_revocations')).length === 0
    })
  })

  test('a profile that both know is passed on, and one that only this service knows is refused', async () => {
    await obtain(byHttp, 'profile.test', { profile: 'short' })
    assert.deepEqual(
      (await upstreamOrders('profile.test')).map(({ profile }) => profile),
      ['short'],
    )
    await assert.rejects(obtain(byHttp, 'unknown-profile.test', { profile: 'unknown' }), /./)
    const refused = await byHttp.service.untilLogged('the refusal', ({ event }) => event === 'backend_refused')
    assert.equal(refused['reason'], 'the upstream has no profile unknown')
    assert.deepEqual(await upstreamOrders('unknown-profile.test'), [])
  })

  test('RFC 8555 §7.4: a period that the client has requested is passed on, and the certificate has it', async () => {
    const atSecond = (hours: number) => new Date(Math.floor(Date.now() / 1000) * 1000 + hours * 3_600_000)
    const [notBefore, notAfter] = [atSecond(2), atSecond(50)]
    const { der } = await obtain(byHttp, 'period.test', { notBefore, notAfter })
    const { validFrom, validTo } = new X509Certificate(der)
    assert.deepEqual([Date.parse(validFrom), Date.parse(validTo)], [notBefore.getTime(), notAfter.getTime()])
  })

  test('RFC 9773: the upstream’s window is shown, and what an order replaces is passed on', async () => {
    const first = await obtain(byHttp, 'renewed.test')
    const certId = certIdOf(first.der)
    const shown = async (service: TestService) =>
      (await send({ method: 'GET', url: `${service.baseUrl}/renewalInfo/${certId}` })).json.suggestedWindow
    await query(
      upstream,
      `INSERT INTO renewal_advice (certificate_id, window_start, window_end)
       SELECT id, '2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z' FROM certificates WHERE der = $1`,
      [first.der],
    )
    await query(byHttp.service, 'UPDATE upstream_renewals SET due_at = now()')
    const window = { start: '2026-01-01T00:00:00Z', end: '2026-01-02T00:00:00Z' }
    assert.deepEqual(await shown(upstream), window)
    await until('the window is passed on', async () => (await shown(byHttp.service)).start === window.start)
    assert.deepEqual(await shown(byHttp.service), window)

    await obtain(byHttp, 'renewed.test', { replaces: certId })
    assert.deepEqual(
      (await upstreamOrders('renewed.test')).map(({ replaces }) => replaces),
      [null, certId],
    )
  })

  test('a revocation reaches the upstream, with its reason', async () => {
    const { der } = await obtain(byHttp, 'revoked.test')
    assert.equal((await revoke(byHttp.client, der, 4)).status, 200)
    const reason = await until('the upstream has revoked it', async () => {
      const [row] = await query(upstream, 'SELECT revocation_reason AS r FROM certificates WHERE der = $1', [der])
      return row?.['r'] ?? undefined
    })
    assert.equal(reason, 4)
  })

  test('two dozen at the same time: as many orders and certificates upstream as here', async () => {
    const names = Array.from({ length: 24 }, (_, number) => `crowd-${number}.test`)
    const certificates = await Promise.all(names.map((name) => obtain(byHttp, name)))
    assert.equal(new Set(certificates.map(({ der }) => der.toString('hex'))).size, names.length)
    for (const name of names) assert.equal((await upstreamOrders(name)).length, 1)
    await until('all files are gone', () => readdirSync(challenges()).length === 0)
  })

  test('both services use one account upstream for each contact, and its key is sealed', async () => {
    const [account] = await query(byHttp.service, 'SELECT * FROM upstream_accounts')
    assert.match(String(account?.['url']), new RegExp(`^${upstream.baseUrl}/`))
    assert.notEqual((account?.['sealed_key'] as Buffer | undefined)?.at(0), 0x30, 'no plain DER')
    const [upstreamAccounts] = await query(
      upstream,
      `SELECT count(*)::integer AS n FROM accounts WHERE contacts = '{mailto:pki@chained.test}'`,
    )
    assert.deepEqual(upstreamAccounts, { n: 2 })
  })
})
