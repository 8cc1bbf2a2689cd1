/**
 * A service whose certificates come from Pebble: certbot and lego notice nothing, and alternate chains are kept, in the database, over
 * a restart, and in what clients download.
 */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type Obtained, pemToDer, startResponder } from '../support/acme-client.ts'
import { restartedScene } from '../support/acme-scene.ts'
import { behindAcmeService } from '../support/cas/chained-service.ts'
import { type Pebble, startPebble } from '../support/cas/pebble.ts'
import { startChallengeFolder } from '../support/clients/http01-responder.ts'
import { rowsIn } from '../support/database.ts'
import { type IssuedChecks, issuedChecks } from '../support/issued.ts'
import { requireAll, requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { a, type ScriptedDns, startDns } from '../workers/scripted-dns.ts'

const ALTERNATES = 2
/** Between root and leaf. */
const INTERMEDIATES = 2

const NEEDS = requireAll(requireCommand('pebble'), requireCommand('openssl'))

describe('a service behind another ACME service', NEEDS, () => {
  const folder = temporaryFolder()
  let dns: ScriptedDns
  let pebble: Pebble
  let roots: X509Certificate[]
  let checks: IssuedChecks
  let obtained: Obtained
  let closeWebServer: () => Promise<void>

  const configured = () => ({
    ca: behindAcmeService(pebble.directoryUrl, folder, {
      ca_cert_path: pebble.caFile,
      // Pebble adds it to every certificate.
      accepted: { key_purposes: ['client_auth'] },
      trust_anchors: roots.map((_, index) => path.join(folder, `root-${index}.pem`)),
    }),
  })

  before(async () => {
    const challenges = path.join(folder, '.well-known', 'acme-challenge')
    mkdirSync(challenges, { recursive: true })
    dns = await startDns(({ name, type }) => ({ answers: type === 'A' ? [a(name, '127.0.0.1')] : [] }))
    pebble = await startPebble({ resolver: dns.resolver, alternateRoots: ALTERNATES, intermediates: INTERMEDIATES })
    closeWebServer = await startChallengeFolder(pebble.http01Port, challenges)
    const pems = await Promise.all(Array.from({ length: 1 + ALTERNATES }, (_, index) => pebble.root(index)))
    for (const [index, pem] of pems.entries()) writeFileSync(path.join(folder, `root-${index}.pem`), pem)
    roots = pems.map((pem) => new X509Certificate(pem))
  })
  const { service, client, again } = restartedScene(() => ({ fronts: 1, config: configured() }))
  before(async () => {
    checks = issuedChecks(path.join(folder, 'root-0.pem'), (sql, values) => rowsIn(service.database, sql, [...values]))
    const responder = await startResponder(service.http01Port)
    obtained = await client.obtain(['alternates.test'], responder)
    // Clients answer there themselves.
    await responder.close()
  })
  after(async () => {
    await closeWebServer?.()
    await pebble?.stop()
    await dns?.close()
  })

  async function checkChains(): Promise<void> {
    const { certificateUrl, der } = obtained
    const alternates = Array.from({ length: ALTERNATES }, (_, index) => `${certificateUrl}/${index + 1}`)
    assert.deepEqual((await client.post(certificateUrl)).links['alternate'], alternates)
    for (const [index, url] of [certificateUrl, ...alternates].entries()) {
      const chain = pemToDer((await client.post(url)).text).map((one) => new X509Certificate(one))
      assert.deepEqual(chain[0]?.raw, der)
      assert.equal(chain.length, 1 + INTERMEDIATES)
      for (const [at, one] of chain.entries()) {
        const above = chain[at + 1] ?? (roots[index] as X509Certificate)
        assert.ok(one.verify(above.publicKey), `certificate ${at} of chain ${index}`)
      }
    }
  }

  test('the default chain names them, and each leads to its own root', checkChains)

  test('certbot obtains, renews and revokes', requireCommand('certbot'), async () => {
    const names = ['certbot-a.test', 'certbot-b.test']
    const own = path.join(folder, 'certbot')
    const folders = ['--config-dir', own, '--work-dir', own, '--logs-dir', own]
    const certbot = (...words: string[]) =>
      mustRun('certbot', [...words, ...folders, '-n', '--server', service.directoryUrl])
    const port = ['--standalone', '--http-01-port', String(service.http01Port)]
    const account = ['--agree-tos', '--register-unsafely-without-email']
    await certbot('certonly', ...port, ...account, '--cert-name', 'chained', ...names.flatMap((name) => ['-d', name]))
    const file = path.join(own, 'live', 'chained', 'fullchain.pem')
    const former = checks.checkFile(file, names)
    await certbot('renew', '--cert-name', 'chained', '--force-renewal', '--no-random-sleep-on-renew')
    const second = checks.checkFile(file, names, former)
    await certbot('revoke', '--cert-path', path.join(own, 'live', 'chained', 'cert.pem'), '--no-delete-after-revoke')
    await checks.assertRevoked(second, 0)
    await checks.assertNotRevoked(former)
  })

  test('lego obtains and renews', requireCommand('lego'), async () => {
    const names = ['lego-a.test', 'lego-b.test']
    const account = ['--server', service.directoryUrl, '--accept-tos', '--email', 'admin@lego.test']
    const place = ['--path', path.join(folder, 'lego'), '--http', '--http.port', `:${service.http01Port}`]
    const lego = (...words: string[]) =>
      mustRun('lego', [...account, ...place, ...names.flatMap((name) => ['--domains', name]), ...words])
    const file = path.join(folder, 'lego', 'certificates', `${names[0]}.crt`)
    await lego('run')
    const former = checks.checkFile(file, names)
    await lego('renew', '--days', '4000', '--no-random-sleep')
    checks.checkFile(file, names, former)
  })

  test('the alternate chains are offered after a restart', async () => {
    await service.stop()
    await again()
    await checkChains()
  })
})
