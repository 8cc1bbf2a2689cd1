/** Unmodified clients obtain and renew wildcard certificates through dns-01, publishing records by their own hooks. */

import assert from 'node:assert/strict'
import type { X509Certificate } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import acme from 'acme-client'
import pg from 'pg'
import { startApache } from '../support/apache.ts'
import { checkChain } from '../support/chain.ts'
import { waitFor } from '../support/daemon.ts'
import { type DnsRecords, startDnsRecords } from '../support/dns-records.ts'
import { startEmbedded } from '../support/embedded.ts'
import { freePort } from '../support/free-port.ts'
import { type IssuedChecks, issuedChecks } from '../support/issued.ts'
import { requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

describe('wildcards through dns-01', requireCommand('openssl'), () => {
  let folder: string
  let records: DnsRecords
  let service: TestService
  let database: pg.Client
  let checks: IssuedChecks
  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'chancery-dns-'))
    records = await startDnsRecords(folder)
    service = await startTestService({
      fronts: 1,
      config: {
        challenges: { enabled: ['http-01', 'dns-01'] },
        dns: { zones: [{ zone: 'test', addresses: ['127.0.0.1'], resolvers: [records.server.resolver] }] },
      },
    })
    database = new pg.Client(service.database.connection)
    await database.connect()
    checks = issuedChecks(service.ca.root, async (sql, values) => (await database.query(sql, [...values])).rows)
  })
  after(async () => {
    await database?.end()
    await service?.dispose()
    await records?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  /** Both authorizations of the order were validated by dns-01, at one name, and nothing is left there in the end: some clear up last. */
  async function assertByDns(leaf: X509Certificate, base: string): Promise<void> {
    const { rows } = await database.query(
      `SELECT z.wildcard, z.attempts->'dns-01'->>'status' AS status
         FROM authorizations AS z JOIN certificates AS c ON c.account_id = z.account_id
        WHERE c.der = $1 AND z.identifier_value = $2
        ORDER BY z.wildcard`,
      [leaf.raw, base],
    )
    assert.deepEqual(rows, [
      { wildcard: false, status: 'valid' },
      { wildcard: true, status: 'valid' },
    ])
    await until('the records are removed', () => records.values(`_acme-challenge.${base}`).length === 0)
  }

  describe('certbot', requireCommand('certbot'), () => {
    const names = ['certbot.test', '*.certbot.test']
    let own: string
    let first: X509Certificate
    const certbot = (...args: string[]) => {
      own = path.join(folder, 'certbot')
      const folders = ['--config-dir', own, '--work-dir', own, '--logs-dir', own]
      return mustRun('certbot', [...args, ...folders, '-n', '--server', service.directoryUrl], { env: records.env })
    }
    const file = () => path.join(own, 'live', 'wild', 'fullchain.pem')

    test('obtains a certificate for a name and its wildcard by manual hooks', async () => {
      await certbot(
        'certonly',
        '--manual',
        '--preferred-challenges',
        'dns',
        '--cert-name',
        'wild',
        '--agree-tos',
        '--manual-auth-hook',
        `${records.hookFile} present`,
        '--manual-cleanup-hook',
        `${records.hookFile} cleanup`,
        '--register-unsafely-without-email',
        ...names.flatMap((name) => ['-d', name]),
      )
      first = checks.checkFile(file(), names)
      await assertByDns(first, 'certbot.test')
    })
    test('renews it', async () => {
      await certbot('renew', '--cert-name', 'wild', '--force-renewal', '--no-random-sleep-on-renew')
      checks.checkFile(file(), names, first)
    })
  })

  describe('lego', requireCommand('lego'), () => {
    const names = ['lego.test', '*.lego.test']
    let first: X509Certificate
    const lego = (...args: string[]) =>
      mustRun(
        'lego',
        [
          '--server',
          service.directoryUrl,
          '--email',
          'admin@lego.test',
          '--accept-tos',
          '--path',
          path.join(folder, 'lego'),
          ...names.flatMap((name) => ['--domains', name]),
          // Its own check asks the zone's servers at port 53; the resolver keeps its other questions on this machine.
          '--dns',
          'exec',
          '--dns.disable-cp',
          '--dns.resolvers',
          records.server.resolver,
          ...args,
        ],
        {
          env: { ...records.env, EXEC_PATH: records.hookFile, EXEC_POLLING_INTERVAL: '1', EXEC_SEQUENCE_INTERVAL: '1' },
        },
      )
    const file = path.join('certificates', 'lego.test.crt')

    test('obtains a certificate for a name and its wildcard by its exec provider', async () => {
      await lego('run')
      first = checks.checkFile(path.join(folder, 'lego', file), names)
      await assertByDns(first, 'lego.test')
    })
    test('renews it', async () => {
      await lego('renew', '--days', '4000', '--no-random-sleep')
      checks.checkFile(path.join(folder, 'lego', file), names, first)
    })
  })

  describe('dehydrated', requireCommand('dehydrated'), () => {
    const names = ['dehydrated.test', '*.dehydrated.test']
    let own: string
    let first: X509Certificate
    before(() => {
      own = path.join(folder, 'dehydrated')
      mkdirSync(own)
      const settings = {
        CA: service.directoryUrl,
        BASEDIR: own,
        CHALLENGETYPE: 'dns-01',
        HOOK: records.hookFile,
        KEY_ALGO: 'prime256v1',
        KEYSIZE: '2048',
      }
      const lines = Object.entries(settings).map(([name, value]) => `${name}="${value}"\n`)
      writeFileSync(path.join(own, 'config'), lines.join(''))
    })
    const dehydrated = (...args: string[]) =>
      mustRun('dehydrated', ['--config', path.join(own, 'config'), ...args], { env: records.env })
    const domains = names.flatMap((name) => ['--domain', name])
    const file = () => path.join(own, 'certs', 'dehydrated.test', 'fullchain.pem')

    test('obtains a certificate for a name and its wildcard by its hook', async () => {
      await dehydrated('--register', '--accept-terms')
      await dehydrated('--cron', ...domains)
      first = checks.checkFile(file(), names)
      await assertByDns(first, 'dehydrated.test')
    })
    test('renews it', async () => {
      await dehydrated('--cron', '--force', ...domains)
      checks.checkFile(file(), names, first)
    })
  })

  describe('uacme', requireCommand('uacme'), () => {
    const names = ['uacme.test', '*.uacme.test']
    let first: X509Certificate
    const own = () => path.join(folder, 'uacme')
    const uacme = (...args: string[]) =>
      mustRun('uacme', ['--yes', '--confdir', own(), '--acme-url', service.directoryUrl, '--type', 'EC', ...args], {
        env: records.env,
      })
    const file = () => path.join(own(), 'uacme.test', 'cert.pem')

    test('obtains a certificate for a name and its wildcard by its hook', async () => {
      await uacme('new', 'admin@uacme.test')
      await uacme('--hook', records.hookFile, 'issue', ...names)
      first = checks.checkFile(file(), names)
      await assertByDns(first, 'uacme.test')
    })
    test('renews it', async () => {
      await uacme('--force', '--no-ocsp', '--hook', records.hookFile, 'issue', ...names)
      checks.checkFile(file(), names, first)
    })
  })

  describe('acme-client', () => {
    const names = ['npm.test', '*.npm.test']
    let client: acme.Client
    let first: X509Certificate
    before(async () => {
      client = new acme.Client({ directoryUrl: service.directoryUrl, accountKey: await acme.crypto.createPrivateKey() })
    })

    async function obtain(): Promise<X509Certificate> {
      const [, csr] = await acme.crypto.createCsr({ altNames: names }, await acme.crypto.createPrivateEcdsaKey('P-256'))
      // Name and wildcard have their records at the same place and at the same time.
      const chainPem = await client.auto({
        csr,
        email: 'admin@npm.test',
        termsOfServiceAgreed: true,
        challengePriority: ['dns-01'],
        skipChallengeVerification: true,
        async challengeCreateFn({ identifier: { value } }, _challenge, digest) {
          const name = `_acme-challenge.${value}`
          records.publish(name, ...records.values(name), digest)
        },
        async challengeRemoveFn({ identifier: { value } }, _challenge, digest) {
          const name = `_acme-challenge.${value}`
          records.publish(name, ...records.values(name).filter((other) => other !== digest))
        },
      })
      return checkChain({ chainPem, rootFile: service.ca.root, names })
    }

    test('obtains a certificate for a name and its wildcard', async () => {
      first = await obtain()
      await assertByDns(first, 'npm.test')
    })
    test('renews it', async () => {
      assert.notEqual((await obtain()).serialNumber, first.serialNumber)
    })
  })

  describe('Apache mod_md', requireCommand('apache2'), () => {
    test('obtains a certificate for a name and its wildcard by its command', async (t) => {
      const names = ['apache.test', '*.apache.test']
      const apache = startApache({
        names,
        httpsPort: await freePort(),
        directoryUrl: service.directoryUrl,
        rootFile: service.ca.root,
        http01Port: await freePort(),
        dns01: records,
      })
      t.after(() => apache.dispose())
      const file = await waitFor('a certificate', apache.daemon, () => {
        const found = apache.chain('staging')
        return found && /END CERTIFICATE/.test(readFileSync(found, 'utf8')) ? found : undefined
      })
      await assertByDns(checks.checkFile(file, names), 'apache.test')
    })
  })
})

describe('the embedded mode with a name server', requireCommand('lego'), () => {
  test('gives lego a wildcard certificate through dns-01', async (t) => {
    const folder = mkdtempSync(path.join(tmpdir(), 'chancery-dns-dev-'))
    const records = await startDnsRecords(folder)
    const service = await startEmbedded(undefined, ['--dns01-port', records.server.resolver.split(':')[1] ?? ''])
    t.after(async () => {
      await service.dispose()
      await records.close()
      rmSync(folder, { recursive: true, force: true })
    })
    assert.doesNotMatch(readFileSync(path.join(service.dataDir, 'chancery.yaml'), 'utf8'), /dns-persist-01/)
    const own = path.join(folder, 'lego')
    await mustRun(
      'lego',
      [
        '--server',
        service.directoryUrl,
        '--email',
        'admin@wild.test',
        '--accept-tos',
        '--path',
        own,
        '--dns',
        'exec',
        '--dns.disable-cp',
        '--dns.resolvers',
        records.server.resolver,
        '--domains',
        '*.wild.test',
        'run',
      ],
      {
        env: {
          ...records.env,
          LEGO_CA_CERTIFICATES: service.rootFile,
          EXEC_PATH: records.hookFile,
          EXEC_POLLING_INTERVAL: '1',
        },
      },
    )
    const chainPem = readFileSync(path.join(own, 'certificates', '_.wild.test.crt'), 'utf8')
    checkChain({ chainPem, rootFile: service.rootFile, names: ['*.wild.test'] })
  })
})
