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
import { type IssuedChecks, issuedChecks, SUPERSEDED } from '../support/issued.ts'
import { requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'

describe('unmodified clients', requireCommand('openssl'), () => {
  let service: EmbeddedService
  let checks: IssuedChecks
  before(async () => {
    service = await startEmbedded()
    checks = issuedChecks(service.rootFile, (sql, values) => embeddedQuery(service, sql, values))
  })
  after(() => service.dispose())

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
        'certonly',
        '--standalone',
        '--http-01-port',
        String(service.http01Port),
        '--cert-name',
        'interop',
        '--agree-tos',
        '-m',
        'admin@certbot.test',
        '--no-eff-email',
        ...names.flatMap((name) => ['-d', name]),
      )
      first = checks.checkFile(path.join(live, 'fullchain.pem'), names)
    })

    test('renews it', async () => {
      await certbot('renew', '--cert-name', 'interop', '--force-renewal', '--no-random-sleep-on-renew')
      second = checks.checkFile(path.join(live, 'fullchain.pem'), names, first)
    })

    test('revokes the one it holds and no other', async () => {
      const file = path.join(live, 'cert.pem')
      await certbot('revoke', '--cert-path', file, '--reason', 'superseded', '--no-delete-after-revoke')
      await checks.assertRevoked(second, SUPERSEDED)
      await checks.assertNotRevoked(first)
    })

    test('revokes with the key of a certificate, from no account at all (§7.6)', async () => {
      await certbot(
        'certonly',
        '--standalone',
        '--http-01-port',
        String(service.http01Port),
        '--cert-name',
        'by-key',
        '--agree-tos',
        '-d',
        'certbot-key.test',
      )
      const own = path.join(folder, 'live', 'by-key')
      const leaf = checks.checkFile(path.join(own, 'fullchain.pem'), ['certbot-key.test'])
      await certbot(
        'revoke',
        '--cert-path',
        path.join(own, 'cert.pem'),
        '--key-path',
        path.join(own, 'privkey.pem'),
        '--no-delete-after-revoke',
      )
      await checks.assertRevoked(leaf, 0)
    })

    test('changes the contact of its account (§7.3.2)', async () => {
      await certbot('update_account', '-m', 'second@certbot.test', '--no-eff-email')
      assert.deepEqual((await checks.accountOf(second)).contacts, ['mailto:second@certbot.test'])
    })

    test('deactivates its account (§7.3.6)', async () => {
      await certbot('unregister')
      assert.equal((await checks.accountOf(second)).status, 'deactivated')
    })
  })

  for (const method of ['http-01', 'tls-alpn-01'] as const) {
    describe(`lego through ${method}`, requireCommand('lego'), () => {
      const names = [`lego-${method}-a.test`, `lego-${method}-b.test`]
      let folder: string
      let first: X509Certificate
      let second: X509Certificate
      before(() => {
        folder = path.join(service.dataDir, `interop-lego-${method}`)
      })

      function lego(...args: string[]): Promise<string> {
        const http = ['--http', '--http.port', `:${service.http01Port}`]
        const tls = ['--tls', '--tls.port', `:${service.tlsAlpn01Port}`]
        const common = ['--server', service.directoryUrl, ...(method === 'http-01' ? http : tls)]
        const account = ['--email', 'admin@lego.test', '--accept-tos', '--path', folder]
        const domains = names.flatMap((name) => ['--domains', name])
        return mustRun('lego', [...common, ...account, ...domains, ...args], {
          env: { LEGO_CA_CERTIFICATES: service.rootFile },
        })
      }
      const file = () => path.join(folder, 'certificates', `${names[0]}.crt`)

      test('obtains a certificate for two names', async () => {
        await lego('run')
        first = checks.checkFile(file(), names)
        for (const name of names) assert.deepEqual(await checks.methodsFor(name), [method])
      })

      test('renews it', async () => {
        await lego('renew', '--days', '4000', '--no-random-sleep')
        second = checks.checkFile(file(), names, first)
      })

      test('revokes the one it holds and no other', async () => {
        await lego('revoke', '--keep', '--reason', String(SUPERSEDED))
        await checks.assertRevoked(second, SUPERSEDED)
        await checks.assertNotRevoked(first)
      })
    })
  }

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
      await checks.assertRevoked(second, SUPERSEDED)
      await checks.assertNotRevoked(first)
    })

    test('is told when a certificate is revoked already (§7.6)', async () => {
      await assert.rejects(client.revokeCertificate(second.toString(), { reason: SUPERSEDED }), /revoked/)
    })

    test('changes the contact of its account (§7.3.2)', async () => {
      await client.updateAccount({ contact: ['mailto:second@npm.test'] })
      assert.deepEqual((await checks.accountOf(second)).contacts, ['mailto:second@npm.test'])
    })

    test('changes the key of its account and goes on with the new one (§7.3.5)', async () => {
      await client.updateAccountKey(await acme.crypto.createPrivateRsaKey(2048))
      assert.equal((await checks.accountOf(second)).keyVersion, 2)
      const third = await obtain(await acme.crypto.createPrivateEcdsaKey('P-256'))
      assert.equal((await checks.accountOf(third)).keyVersion, 2)
    })

    test('deactivates its account, which gets nothing more (§7.3.6)', async () => {
      await client.updateAccount({ status: 'deactivated' })
      assert.equal((await checks.accountOf(second)).status, 'deactivated')
      await assert.rejects(obtain(await acme.crypto.createPrivateEcdsaKey('P-256')), /deactivated/)
    })
  })
})
