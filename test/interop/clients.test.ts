/** ACME clients that nobody here wrote obtain, renew and revoke certificates from the embedded mode (RFC 8555, http-01). */

import assert from 'node:assert/strict'
import type { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Agent } from 'node:https'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import acme from 'acme-client'
import { checkChain } from '../support/chain.ts'
import { type EmbeddedService, startEmbedded } from '../support/embedded.ts'
import { embeddedQuery } from '../support/embedded-database.ts'
import { type Http01Responder, startHttp01Responder } from '../support/http01-responder.ts'
import { requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'

/** RFC 5280 §5.3.1. */
const SUPERSEDED = 4

describe('unmodified clients', { ...requireCommand('openssl'), timeout: 180_000 }, () => {
  let service: EmbeddedService
  before(async () => {
    service = await startEmbedded()
  })
  after(() => service.dispose())

  /** The chain verifies and is new; @returns its leaf. */
  function checkFile(file: string, names: readonly string[], former?: X509Certificate): X509Certificate {
    const leaf = checkChain({ chainPem: readFileSync(file, 'utf8'), rootFile: service.rootFile, names })
    assert.notEqual(leaf.serialNumber, former?.serialNumber, 'a renewed certificate is another one')
    return leaf
  }

  async function assertRevoked(leaf: X509Certificate, reason: number | null): Promise<void> {
    const rows = await embeddedQuery(
      service,
      'SELECT revoked_at IS NOT NULL AS revoked, revocation_reason AS reason FROM certificates WHERE der = $1',
      [leaf.raw],
    )
    assert.deepEqual(rows, [{ revoked: true, reason }])
  }

  async function assertNotRevoked(leaf: X509Certificate): Promise<void> {
    const rows = await embeddedQuery(service, 'SELECT revoked_at FROM certificates WHERE der = $1', [leaf.raw])
    assert.deepEqual(rows, [{ revoked_at: null }])
  }

  describe('certbot', requireCommand('certbot'), () => {
    const names = ['certbot-a.test', 'certbot-b.test']
    let folder: string
    let live: string
    let first: X509Certificate
    let second: X509Certificate
    before(() => {
      folder = path.join(service.dataDir, 'interop-certbot')
      live = path.join(folder, 'live', 'interop')
    })

    function certbot(...args: string[]): Promise<string> {
      const folders = ['--config-dir', folder, '--work-dir', folder, '--logs-dir', folder]
      return mustRun('certbot', [...args, ...folders, '-n', '--server', service.directoryUrl], {
        env: { REQUESTS_CA_BUNDLE: service.rootFile },
      })
    }

    test('obtains a certificate for two names', async () => {
      await certbot(
        ...['certonly', '--standalone', '--http-01-port', String(service.http01Port), '--cert-name', 'interop'],
        ...['--agree-tos', '-m', 'admin@certbot.test', '--no-eff-email', ...names.flatMap((name) => ['-d', name])],
      )
      first = checkFile(path.join(live, 'fullchain.pem'), names)
    })

    test('renews it', async () => {
      await certbot('renew', '--cert-name', 'interop', '--force-renewal', '--no-random-sleep-on-renew')
      second = checkFile(path.join(live, 'fullchain.pem'), names, first)
    })

    test('revokes the one it holds and no other', async () => {
      const file = path.join(live, 'cert.pem')
      await certbot('revoke', '--cert-path', file, '--reason', 'superseded', '--no-delete-after-revoke')
      await assertRevoked(second, SUPERSEDED)
      await assertNotRevoked(first)
    })

    test('revokes with the key of a certificate, from no account at all (§7.6)', async () => {
      await certbot(
        ...['certonly', '--standalone', '--http-01-port', String(service.http01Port), '--cert-name', 'by-key'],
        ...['--agree-tos', '-d', 'certbot-key.test'],
      )
      const own = path.join(folder, 'live', 'by-key')
      const leaf = checkFile(path.join(own, 'fullchain.pem'), ['certbot-key.test'])
      await certbot(
        ...['revoke', '--cert-path', path.join(own, 'cert.pem'), '--key-path', path.join(own, 'privkey.pem')],
        '--no-delete-after-revoke',
      )
      await assertRevoked(leaf, 0)
    })
  })

  describe('lego', requireCommand('lego'), () => {
    const names = ['lego-a.test', 'lego-b.test']
    let folder: string
    let first: X509Certificate
    let second: X509Certificate
    before(() => {
      folder = path.join(service.dataDir, 'interop-lego')
    })

    function lego(...args: string[]): Promise<string> {
      const common = ['--server', service.directoryUrl, '--http', '--http.port', `:${service.http01Port}`]
      const account = ['--email', 'admin@lego.test', '--accept-tos', '--path', folder]
      const domains = names.flatMap((name) => ['--domains', name])
      return mustRun('lego', [...common, ...account, ...domains, ...args], {
        env: { LEGO_CA_CERTIFICATES: service.rootFile },
      })
    }
    const file = () => path.join(folder, 'certificates', `${names[0]}.crt`)

    test('obtains a certificate for two names', async () => {
      await lego('run')
      first = checkFile(file(), names)
    })

    test('renews it', async () => {
      await lego('renew', '--days', '4000', '--no-random-sleep')
      second = checkFile(file(), names, first)
    })

    test('revokes the one it holds and no other', async () => {
      await lego('revoke', '--keep', '--reason', String(SUPERSEDED))
      await assertRevoked(second, SUPERSEDED)
      await assertNotRevoked(first)
    })
  })

  describe('acme-client', () => {
    const names = ['npm-a.test', 'npm-b.test']
    let responder: Http01Responder
    let client: acme.Client
    let first: X509Certificate
    let second: X509Certificate
    before(async () => {
      responder = await startHttp01Responder(service.http01Port)
      acme.axios.defaults.httpsAgent = new Agent({ ca: readFileSync(service.rootFile) })
      client = new acme.Client({ directoryUrl: service.directoryUrl, accountKey: await acme.crypto.createPrivateKey() })
    })
    after(() => responder.close())

    async function obtain(key: Buffer): Promise<X509Certificate> {
      const [, csr] = await acme.crypto.createCsr({ altNames: names }, key)
      const chainPem = await client.auto({
        csr,
        email: 'admin@npm.test',
        termsOfServiceAgreed: true,
        challengePriority: ['http-01'],
        // Its own check would ask the system's resolver for names that only the service knows.
        skipChallengeVerification: true,
        async challengeCreateFn(authorization, _challenge, keyAuthorization) {
          responder.serve(authorization.identifier.value, keyAuthorization.split('.')[1] ?? '')
        },
        async challengeRemoveFn() {},
      })
      return checkChain({ chainPem, rootFile: service.rootFile, names })
    }

    test('obtains a certificate for two names and an RSA key', async () => {
      first = await obtain(await acme.crypto.createPrivateRsaKey(2048))
      assert.equal(first.publicKey.asymmetricKeyType, 'rsa')
    })

    test('renews it with a P-256 key', async () => {
      second = await obtain(await acme.crypto.createPrivateEcdsaKey('P-256'))
      assert.equal(second.publicKey.asymmetricKeyType, 'ec')
      assert.notEqual(second.serialNumber, first.serialNumber)
    })

    test('revokes the one it holds and no other', async () => {
      await client.revokeCertificate(second.toString(), { reason: SUPERSEDED })
      await assertRevoked(second, SUPERSEDED)
      await assertNotRevoked(first)
    })

    test('is told when a certificate is revoked already (§7.6)', async () => {
      await assert.rejects(client.revokeCertificate(second.toString(), { reason: SUPERSEDED }), /revoked/)
    })
  })
})
