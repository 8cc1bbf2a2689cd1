/**
 * Clients and web servers that nobody here wrote obtain, renew and revoke certificates from the embedded mode (RFC 8555), over TLS:
 * http-01 by a server of their own, by a folder of another one, and tls-alpn-01.
 */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:https'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { connect } from 'node:tls'
import acme from 'acme-client'
import { checkChain } from '../support/chain.ts'
import { type Apache, startApache } from '../support/clients/apache.ts'
import { caddyChain, startCaddy } from '../support/clients/caddy.ts'
import {
  type Http01Responder,
  startChallengeFolder,
  startHttp01Responder,
} from '../support/clients/http01-responder.ts'
import { type EmbeddedService, startEmbedded } from '../support/databases/embedded.ts'
import { embeddedQuery } from '../support/databases/embedded-database.ts'
import { freePort } from '../support/free-port.ts'
import { type Daemon, waitFor } from '../support/hosts/daemon.ts'
import { type IssuedChecks, issuedChecks, SUPERSEDED } from '../support/issued.ts'
import { requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'
import { words } from '../support/words.ts'

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

    const standalone = () => words`--standalone --http-01-port ${String(service.http01Port)}`

    test('obtains a certificate for two names', async () => {
      await certbot(
        ...words`certonly ${standalone()} --cert-name interop --agree-tos -m admin@certbot.test --no-eff-email`,
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
      await certbot(...words`certonly ${standalone()} --cert-name by-key --agree-tos -d certbot-key.test`)
      const own = path.join(folder, 'live', 'by-key')
      const leaf = checks.checkFile(path.join(own, 'fullchain.pem'), ['certbot-key.test'])
      const [cert, key] = [path.join(own, 'cert.pem'), path.join(own, 'privkey.pem')]
      await certbot(...words`revoke --cert-path ${cert} --key-path ${key} --no-delete-after-revoke`)
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

  /** Clients that leave the answer in a folder of somebody's web server. */
  describe('with a challenge folder', () => {
    let challenges: string
    let closeFolder: () => Promise<void>
    before(async () => {
      challenges = path.join(service.dataDir, 'interop-challenges')
      mkdirSync(challenges)
      closeFolder = await startChallengeFolder(service.http01Port, challenges)
    })
    after(() => closeFolder?.())

    describe('dehydrated', requireCommand('dehydrated'), () => {
      const names = ['dehydrated-a.test', 'dehydrated-b.test']
      let folder: string
      let first: X509Certificate
      let second: X509Certificate
      before(() => {
        folder = path.join(service.dataDir, 'interop-dehydrated')
        mkdirSync(folder)
        configure('admin@dehydrated.test')
      })

      function configure(email: string): void {
        const settings = {
          CA: service.directoryUrl,
          BASEDIR: folder,
          WELLKNOWN: challenges,
          CHALLENGETYPE: 'http-01',
          CURL_OPTS: `--cacert ${service.rootFile}`,
          CONTACT_EMAIL: email,
          KEY_ALGO: 'prime256v1',
          KEYSIZE: '2048',
        }
        const lines = Object.entries(settings).map(([name, value]) => `${name}="${value}"\n`)
        writeFileSync(path.join(folder, 'config'), lines.join(''))
      }

      const dehydrated = (...args: string[]) =>
        mustRun('dehydrated', ['--config', path.join(folder, 'config'), ...args])
      const domains = names.flatMap((name) => ['--domain', name])
      const file = (name: string) => path.join(folder, 'certs', names[0] ?? '', name)

      test('obtains a certificate for two names', async () => {
        await dehydrated('--register', '--accept-terms')
        await dehydrated('--cron', ...domains)
        first = checks.checkFile(file('fullchain.pem'), names)
      })

      test('renews it', async () => {
        await dehydrated('--cron', '--force', ...domains)
        second = checks.checkFile(file('fullchain.pem'), names, first)
      })

      test('revokes the one it holds and no other', async () => {
        await dehydrated('--revoke', file('cert.pem'))
        await checks.assertRevoked(second, 0)
        await checks.assertNotRevoked(first)
      })

      test('changes the contact of its account (§7.3.2)', async () => {
        configure('second@dehydrated.test')
        await dehydrated('--account')
        assert.deepEqual((await checks.accountOf(first)).contacts, ['mailto:second@dehydrated.test'])
      })

      test('deactivates its account (§7.3.6)', async () => {
        await dehydrated('--deactivate')
        assert.equal((await checks.accountOf(first)).status, 'deactivated')
      })
    })

    describe('acme-tiny', requireCommand('acme-tiny'), () => {
      const names = ['tiny-a.test', 'tiny-b.test']
      let folder: string
      let first: X509Certificate
      before(async () => {
        folder = path.join(service.dataDir, 'interop-acme-tiny')
        mkdirSync(folder)
        await mustRun('openssl', ['genrsa', '-out', file('account.key'), '2048'])
        const san = `subjectAltName=${names.map((name) => `DNS:${name}`).join(',')}`
        const files = ['-keyout', file('site.key'), '-out', file('site.csr')]
        await mustRun('openssl', words`req -new -newkey rsa:2048 -nodes ${files} -subj / -addext ${san}`)
      })
      const file = (name: string) => path.join(folder, name)

      /** @returns the leaf, and what the client said. */
      async function obtain(contact: string): Promise<{ leaf: X509Certificate; output: string }> {
        const own = words`--account-key ${file('account.key')} --csr ${file('site.csr')} --acme-dir ${challenges}`
        // Its own check would ask the system's resolver for names that only the service knows.
        const place = words`--directory-url ${service.directoryUrl} --disable-check --contact ${contact}`
        const output = await mustRun('acme-tiny', [...own, ...place], { env: { SSL_CERT_FILE: service.rootFile } })
        writeFileSync(file('chain.pem'), output)
        return { leaf: checks.checkFile(file('chain.pem'), names, first), output }
      }

      test('obtains a certificate for two names', async () => {
        first = (await obtain('mailto:admin@tiny.test')).leaf
      })

      test('renews it with the account it has, whose contact it changes (§7.3.2)', async () => {
        const { leaf, output } = await obtain('mailto:second@tiny.test')
        assert.match(output, /Already registered/)
        assert.deepEqual((await checks.accountOf(leaf)).contacts, ['mailto:second@tiny.test'])
      })
    })
  })

  describe('web servers', () => {
    /** The serial number that a browser which trusts the development root is shown; undefined when there is no such connection. */
    function servedSerialNumber(port: number, servername: string): Promise<string | undefined> {
      return new Promise((resolve) => {
        const socket = connect({ host: '127.0.0.1', port, servername, ca: readFileSync(service.rootFile) }, () => {
          resolve(socket.getPeerCertificate().serialNumber)
          socket.end()
        })
        socket.once('error', () => resolve(undefined))
      })
    }

    /** Soon, that is: what is stored is put to use a moment later. */
    async function assertServed(server: Daemon, port: number, name: string, leaf: X509Certificate): Promise<void> {
      await waitFor(`${name} is served with ${leaf.serialNumber}`, server, async () =>
        (await servedSerialNumber(port, name)) === leaf.serialNumber ? true : undefined,
      )
    }

    /** The chain in this file, once it is there and another one than before. */
    function newChain(server: Daemon, file: () => string | undefined, former?: X509Certificate): Promise<string> {
      return waitFor('a new certificate', server, () => {
        const found = file()
        // mod_md renames folders while it puts a new certificate in place.
        if (found === undefined || !existsSync(found)) return undefined
        const text = readFileSync(found, 'utf8')
        return /END CERTIFICATE/.test(text) && new X509Certificate(text).serialNumber !== former?.serialNumber
          ? found
          : undefined
      })
    }

    describe('Apache mod_md', requireCommand('apache2'), () => {
      const names = ['apache-a.test', 'apache-b.test']
      let httpsPort: number
      let apache: Apache | undefined
      let first: X509Certificate
      before(async () => {
        httpsPort = await freePort()
        apache = startApache({
          names,
          httpsPort,
          directoryUrl: service.directoryUrl,
          rootFile: service.rootFile,
          http01Port: service.http01Port,
        })
      })
      after(() => apache?.dispose())

      /** A new certificate waits until Apache reads its configuration again. */
      async function activate({ daemon, chain, reload }: Apache, former?: X509Certificate): Promise<X509Certificate> {
        await newChain(daemon, () => chain('staging'), former)
        reload()
        return checks.checkFile(await newChain(daemon, () => chain('domains'), former), names, former)
      }

      test('obtains a certificate for two names and serves it', async () => {
        assert.ok(apache)
        first = await activate(apache)
        await assertServed(apache.daemon, httpsPort, names[1] ?? '', first)
      })

      test('renews it and serves the new one', async () => {
        assert.ok(apache)
        apache.setRenewWindow('4000d')
        apache.reload()
        const second = await activate(apache, first)
        await assertServed(apache.daemon, httpsPort, names[0] ?? '', second)
      })
    })

    for (const method of ['http-01', 'tls-alpn-01'] as const) {
      describe(`Caddy through ${method}`, requireCommand('caddy'), () => {
        const names = ['a', 'b'].map((letter) => `caddy-${method}-${letter}.test`)
        let folder: string
        let httpsPort: number
        let caddy: Daemon | undefined
        const first = new Map<string, X509Certificate>()
        before(async () => {
          folder = path.join(service.dataDir, `interop-caddy-${method}`)
          // tls-alpn-01 is answered where the names are served.
          httpsPort = method === 'tls-alpn-01' ? service.tlsAlpn01Port : await freePort()
        })
        after(() => caddy?.stop())

        const start = (served: readonly string[], renewalRatio?: number) =>
          startCaddy({
            folder,
            names: served,
            httpsPort,
            directoryUrl: service.directoryUrl,
            rootFile: service.rootFile,
            http01Port: service.http01Port,
            method,
            ...(renewalRatio && { renewalRatio }),
          })

        test('obtains a certificate for each of two names and serves them', async () => {
          // A first start with two names registers an account for each, stores both under one name, and may keep the URL of one with the key
          // of the other: the next start then signs with the wrong key (Caddy 2.6.2).
          caddy = await start(names.slice(0, 1))
          await newChain(caddy, () => caddyChain(folder, names[0] ?? ''))
          await caddy.stop()
          caddy = await start(names)
          for (const name of names) {
            const leaf = checks.checkFile(await newChain(caddy, () => caddyChain(folder, name)), [name])
            first.set(name, leaf)
            await assertServed(caddy, httpsPort, name, leaf)
            assert.deepEqual(await checks.methodsFor(name), [method])
          }
          await caddy.stop()
        })

        test('renews them when it starts within the time of renewal', async () => {
          await caddy?.stop()
          caddy = await start(names, 1)
          for (const name of names) {
            const former = first.get(name)
            const leaf = checks.checkFile(await newChain(caddy, () => caddyChain(folder, name), former), [name], former)
            await assertServed(caddy, httpsPort, name, leaf)
          }
          await caddy.stop()
        })
      })
    }
  })
})
