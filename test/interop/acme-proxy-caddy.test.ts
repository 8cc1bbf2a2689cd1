/**
 * A service whose certificates come from Caddy's ACME server. Caddy validates at port 80 and resolves names as the machine does, so
 * the certificates are for addresses of loopback.
 */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { after, describe, test } from 'node:test'
import { registeredClient, revoke, startResponder } from '../support/acme-client.ts'
import { acmeScene, made } from '../support/acme-scene.ts'
import { type CaddyCa, startCaddyCa } from '../support/cas/caddy-ca.ts'
import { behindAcmeService } from '../support/cas/chained-service.ts'
import { startChallengeFolder } from '../support/clients/http01-responder.ts'
import { rowsIn } from '../support/database.ts'
import { requireAll, requireCommand, requirePort } from '../support/requirements.ts'
import { startTestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const ADDRESS = '127.80.0.1'
const NEEDS = requireAll(requireCommand('caddy'), await requirePort(80, ADDRESS))

describe('a service behind Caddy', NEEDS, () => {
  const folder = temporaryFolder()
  let caddy: CaddyCa
  let closeWebServer: () => Promise<void>

  const challenges = () => path.join(folder, '.well-known', 'acme-challenge')
  const query = (text: string, values: unknown[] = []) => rowsIn(service.database, text, values)

  const { service, client } = acmeScene(async () => {
    mkdirSync(challenges(), { recursive: true })
    caddy = await startCaddyCa()
    closeWebServer = await startChallengeFolder(80, challenges(), ADDRESS)
    return startTestService({
      fronts: 1,
      config: {
        security: { identifier_policy: { allow_ip: true } },
        ca: behindAcmeService(caddy.directoryUrl, folder, {
          ca_cert_path: caddy.rootFile,
          trust_anchors: [caddy.rootFile],
          // Smallstep's CA adds both to every certificate; the extension names the provisioner.
          accepted: { key_purposes: ['client_auth'], extensions: ['1.3.6.1.4.1.37476.9000.64.1'] },
        }),
      },
    })
  })
  const responder = made(
    () => startResponder(service.http01Port, ADDRESS),
    (it) => it.close(),
  )
  after(async () => {
    await closeWebServer?.()
    await caddy?.stop()
  })

  test('its chain leads to Caddy’s root, and nothing is left behind', async () => {
    const { der, chain } = await client.obtain([ADDRESS], responder)
    const leaf = new X509Certificate(der)
    assert.equal(leaf.subjectAltName, `IP Address:${ADDRESS}`)
    const [, issuer = ''] = chain.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? []
    assert.ok(leaf.verify(new X509Certificate(issuer).publicKey))
    assert.ok(new X509Certificate(issuer).verify(new X509Certificate(readFileSync(caddy.rootFile)).publicKey))
    assert.deepEqual(await query('SELECT backend FROM certificates WHERE der = $1', [der]), [{ backend: 'acme_proxy' }])
    assert.deepEqual(readdirSync(challenges()), [])
  })

  test('six at the same time: each its own certificate', async () => {
    const before = (await query('SELECT FROM certificates')).length
    const obtained = await Promise.all(
      Array.from({ length: 6 }, async () => {
        const other = await registeredClient(service.directoryUrl)
        return other.obtain([ADDRESS], responder)
      }),
    )
    assert.equal(new Set(obtained.map(({ der }) => der.toString('hex'))).size, 6)
    assert.equal((await query('SELECT FROM certificates')).length, before + 6)
    assert.deepEqual(await query('SELECT FROM csr_issuances'), [])
    assert.deepEqual(readdirSync(challenges()), [])
  })

  test('a period that the client has requested is given (RFC 8555 §7.4)', async () => {
    const notAfter = new Date(Math.floor(Date.now() / 1000) * 1000 + 3 * 3_600_000)
    const { der } = await client.obtain([ADDRESS], responder, { order: { notAfter: notAfter.toISOString() } })
    assert.equal(Date.parse(new X509Certificate(der).validTo), notAfter.getTime())
  })

  test('a revocation reaches Caddy', async () => {
    const { der } = await client.obtain([ADDRESS], responder)
    assert.equal((await revoke(client, der, 4)).status, 200)
    const confirmed = await service.untilLogged('its confirmation', ({ event }) => event === 'backend_revoked')
    assert.equal(confirmed['backend'], 'acme_proxy')
    await until('nothing is left to revoke', async () => (await query('SELECT FROM backend_revocations')).length === 0)
  })
})
