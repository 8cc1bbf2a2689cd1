/** Clients that leave the answer to an http-01 challenge in a folder of somebody's web server: dehydrated and acme-tiny. */

import assert from 'node:assert/strict'
import type { X509Certificate } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type EmbeddedService, startEmbedded } from '../support/embedded.ts'
import { embeddedQuery } from '../support/embedded-database.ts'
import { startChallengeFolder } from '../support/http01-responder.ts'
import { type IssuedChecks, issuedChecks } from '../support/issued.ts'
import { requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'

describe('clients with a challenge folder', requireCommand('openssl'), () => {
  let service: EmbeddedService
  let checks: IssuedChecks
  let challenges: string
  let closeFolder: () => Promise<void>
  before(async () => {
    service = await startEmbedded()
    checks = issuedChecks(service.rootFile, (sql, values) => embeddedQuery(service, sql, values))
    challenges = path.join(service.dataDir, 'interop-challenges')
    mkdirSync(challenges)
    closeFolder = await startChallengeFolder(service.http01Port, challenges)
  })
  after(async () => {
    await closeFolder?.()
    await service?.dispose()
  })

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

    const dehydrated = (...args: string[]) => mustRun('dehydrated', ['--config', path.join(folder, 'config'), ...args])
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
      await mustRun('openssl', [
        'req',
        '-new',
        '-newkey',
        'rsa:2048',
        '-nodes',
        '-keyout',
        file('site.key'),
        '-out',
        file('site.csr'),
        '-subj',
        '/',
        '-addext',
        `subjectAltName=${names.map((name) => `DNS:${name}`).join(',')}`,
      ])
    })
    const file = (name: string) => path.join(folder, name)

    /** @returns the leaf, and what the client said. */
    async function obtain(contact: string): Promise<{ leaf: X509Certificate; output: string }> {
      const words = [
        '--account-key',
        file('account.key'),
        '--csr',
        file('site.csr'),
        '--acme-dir',
        challenges,
        // Its own check would ask the system's resolver for names that only the service knows.
        '--directory-url',
        service.directoryUrl,
        '--disable-check',
        '--contact',
        contact,
      ]
      const output = await mustRun('acme-tiny', words, { env: { SSL_CERT_FILE: service.rootFile } })
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
