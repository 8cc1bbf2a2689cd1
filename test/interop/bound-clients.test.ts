/**
 * Unmodified clients bind their account (RFC 8555 §7.3.4), and obtain and renew wildcard certificates through dns-01, publishing
 * records by their own hooks. uacme, which trusts the authorities of the system only, does the rest over plain HTTP, too.
 */

import assert from 'node:assert/strict'
import { randomBytes, type X509Certificate } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import acme from 'acme-client'
import { checkChain } from '../support/chain.ts'
import { startApache } from '../support/clients/apache.ts'
import { caddyChain, startCaddy } from '../support/clients/caddy.ts'
import { startChallengeFolder } from '../support/clients/http01-responder.ts'
import { rowsIn } from '../support/database.ts'
import { freePort } from '../support/free-port.ts'
import { waitFor } from '../support/hosts/daemon.ts'
import { type IssuedChecks, issuedChecks, SUPERSEDED } from '../support/issued.ts'
import { type DnsRecords, startDnsRecords } from '../support/names/dns-records.ts'
import { createCredential, operate } from '../support/operator.ts'
import { requireCommand } from '../support/requirements.ts'
import { mustRun, runCommand } from '../support/run-command.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

/**
 * Type or detail, as far as a client passes them on. certbot, dehydrated and uacme do not even ask: the directory says that a binding
 * is required (§7.1.1), and they say so in their own words.
 */
const REFUSAL = /externalAccount(Required|Binding)|external (account|credentials)/i
const UACME_HOOK = '/usr/share/uacme/uacme.sh'

describe('unmodified clients', requireCommand('openssl'), () => {
  const folder = temporaryFolder()
  let records: DnsRecords
  let service: TestService
  let checks: IssuedChecks
  before(async () => {
    records = await startDnsRecords(folder)
    const keyFile = path.join(folder, 'eab.key')
    writeFileSync(keyFile, randomBytes(32))
    service = await startTestService({
      fronts: 1,
      config: {
        acme: { eab_required: true, eab_key_file: keyFile },
        challenges: { enabled: ['http-01', 'dns-01'] },
        dns: { zones: [{ zone: 'test', addresses: ['127.0.0.1'], resolvers: [records.server.resolver] }] },
      },
    })
    checks = issuedChecks(service.ca.root, (sql, values) => rowsIn(service.database, sql, [...values]))
  })
  after(async () => {
    await service?.dispose()
    await records?.close()
  })

  const inside = (...names: string[]) => path.join(folder, ...names)

  /** A credential's kid and key as a client is told them. */
  async function credentialFor(client: string): Promise<{ kid: string; hmacKey: string }> {
    const { kid, hmacKey } = await createCredential(service, client)
    return { kid, hmacKey: hmacKey.toString('base64url') }
  }

  async function assertUsed(client: string): Promise<void> {
    const { used, account_id } = JSON.parse(await operate(service, 'eab', 'show', client, '--json'))
    assert.deepEqual([used, typeof account_id], [true, 'string'])
  }

  /** Without a binding the client fails and passes on the reason. */
  async function assertRefused(file: string, args: readonly string[], env = {}): Promise<void> {
    const { code, output } = await runCommand(file, args, { env })
    assert.notEqual(code, 0, output)
    assert.match(output, REFUSAL)
  }

  /** Both authorizations of the order were validated by dns-01, at one name, and nothing is left there in the end: some clear up last. */
  async function assertByDns(leaf: X509Certificate, base: string): Promise<void> {
    const rows = await rowsIn(
      service.database,
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
    let first: X509Certificate
    const words = () => {
      const own = inside('certbot')
      return ['-n', '--server', service.directoryUrl, '--config-dir', own, '--work-dir', own, '--logs-dir', own]
    }
    const certbot = (...args: string[]) => mustRun('certbot', [...args, ...words()], { env: records.env })
    const file = () => inside('certbot', 'live', 'wild', 'fullchain.pem')

    test('binds its account', async () => {
      const register = ['register', '--agree-tos', '-m', 'admin@certbot.test', '--no-eff-email']
      await assertRefused('certbot', [...register, ...words()])
      const { kid, hmacKey } = await credentialFor('certbot')
      await certbot(...register, '--eab-kid', kid, '--eab-hmac-key', hmacKey)
      await assertUsed('certbot')
    })
    test('obtains a certificate for a name and its wildcard by manual hooks', async () => {
      const hooks = ['--manual-auth-hook', `${records.hookFile} present`]
      hooks.push('--manual-cleanup-hook', `${records.hookFile} cleanup`)
      const wanted = ['--cert-name', 'wild', ...names.flatMap((name) => ['-d', name])]
      await certbot('certonly', '--manual', '--preferred-challenges', 'dns', ...hooks, ...wanted)
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
    let binding: string[]
    const env = () => ({
      ...records.env,
      EXEC_PATH: records.hookFile,
      EXEC_POLLING_INTERVAL: '1',
      EXEC_SEQUENCE_INTERVAL: '1',
    })
    const words = () => [
      ...['--server', service.directoryUrl, '--email', 'admin@lego.test', '--accept-tos', '--path', inside('lego')],
      ...names.flatMap((name) => ['--domains', name]),
      // Its own check asks the zone's servers at port 53; the resolver keeps its other questions on this machine.
      ...['--dns', 'exec', '--dns.disable-cp', '--dns.resolvers', records.server.resolver],
    ]
    const lego = (...args: string[]) => mustRun('lego', [...words(), ...args], { env: env() })
    const file = () => inside('lego', 'certificates', 'lego.test.crt')

    test('binds its account and obtains a certificate for a name and its wildcard by its exec provider', async () => {
      await assertRefused('lego', [...words(), 'run'], env())
      const { kid, hmacKey } = await credentialFor('lego')
      binding = ['--eab', '--kid', kid, '--hmac', hmacKey]
      await lego(...binding, 'run')
      await assertUsed('lego')
      first = checks.checkFile(file(), names)
      await assertByDns(first, 'lego.test')
    })
    test('renews it', async () => {
      // It asks for the binding as soon as the directory does, also with an account that it has.
      await lego(...binding, 'renew', '--days', '4000', '--no-random-sleep')
      checks.checkFile(file(), names, first)
    })
  })

  describe('dehydrated', requireCommand('dehydrated'), () => {
    const names = ['dehydrated.test', '*.dehydrated.test']
    let first: X509Certificate
    const configure = (binding: Record<string, string>) => {
      mkdirSync(inside('dehydrated'), { recursive: true })
      const settings = {
        CA: service.directoryUrl,
        BASEDIR: inside('dehydrated'),
        CHALLENGETYPE: 'dns-01',
        HOOK: records.hookFile,
        KEY_ALGO: 'prime256v1',
        KEYSIZE: '2048',
        ...binding,
      }
      const lines = Object.entries(settings).map(([name, value]) => `${name}="${value}"\n`)
      writeFileSync(inside('dehydrated', 'config'), lines.join(''))
    }
    const words = () => ['--config', inside('dehydrated', 'config')]
    const dehydrated = (...args: string[]) => mustRun('dehydrated', [...words(), ...args], { env: records.env })
    const domains = names.flatMap((name) => ['--domain', name])
    const file = () => inside('dehydrated', 'certs', 'dehydrated.test', 'fullchain.pem')

    test('binds its account', async () => {
      configure({})
      await assertRefused('dehydrated', [...words(), '--register', '--accept-terms'])
      const { kid, hmacKey } = await credentialFor('dehydrated')
      configure({ EAB_KID: kid, EAB_HMAC_KEY: hmacKey })
      await dehydrated('--register', '--accept-terms')
      await assertUsed('dehydrated')
    })
    test('obtains a certificate for a name and its wildcard by its hook', async () => {
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
    const wild = ['uacme.test', '*.uacme.test']
    const names = ['uacme-a.test', 'uacme-b.test']
    let closeFolder: () => Promise<void>
    let first: X509Certificate
    let second: X509Certificate
    before(async () => {
      mkdirSync(inside('challenges'))
      closeFolder = await startChallengeFolder(service.http01Port, inside('challenges'))
    })
    after(() => closeFolder?.())
    const words = () => ['--yes', '--confdir', inside('uacme'), '--acme-url', service.directoryUrl]
    const uacme = (...args: string[]) =>
      mustRun('uacme', [...words(), ...args], {
        env: { ...records.env, UACME_CHALLENGE_PATH: inside('challenges') },
      })
    const chain = (name = names[0] as string) => inside('uacme', name, 'cert.pem')

    test('binds its account', async () => {
      await assertRefused('uacme', [...words(), '--type', 'EC', 'new', 'admin@uacme.test'])
      const { kid, hmacKey } = await credentialFor('uacme')
      await uacme('--type', 'EC', '--eab', `${kid}:${hmacKey}`, 'new', 'admin@uacme.test')
      await assertUsed('uacme')
    })
    test('obtains a certificate for a name and its wildcard by its hook', async () => {
      await uacme('--type', 'EC', '--hook', records.hookFile, 'issue', ...wild)
      const leaf = checks.checkFile(chain('uacme.test'), wild)
      await assertByDns(leaf, 'uacme.test')
      await uacme('--type', 'EC', '--force', '--no-ocsp', '--hook', records.hookFile, 'issue', ...wild)
      checks.checkFile(chain('uacme.test'), wild, leaf)
    })
    test('obtains a certificate for two names through http-01', async () => {
      await uacme('--type', 'EC', '--hook', UACME_HOOK, 'issue', ...names)
      first = checks.checkFile(chain(), names)
    })
    test('renews it', async () => {
      await uacme('--force', '--no-ocsp', '--hook', UACME_HOOK, 'issue', ...names)
      second = checks.checkFile(chain(), names, first)
    })
    test('revokes the one it holds, with a reason, and no other', async () => {
      await uacme('--reason', String(SUPERSEDED), 'revoke', chain())
      await checks.assertRevoked(second, SUPERSEDED)
      await checks.assertNotRevoked(first)
    })
    test('revokes with the key of a certificate (§7.6)', async () => {
      await uacme('--hook', UACME_HOOK, 'issue', ...names)
      const third = checks.checkFile(chain(), names, second)
      await uacme('revoke', chain(), inside('uacme', 'private', names[0] as string, 'key.pem'))
      await checks.assertRevoked(third, 0)
    })
    test('changes the contact of its account (§7.3.2)', async () => {
      await uacme('update', 'second@uacme.test')
      assert.deepEqual((await checks.accountOf(first)).contacts, ['mailto:second@uacme.test'])
    })
    test('changes the key of its account and goes on with the new one (§7.3.5)', async () => {
      await uacme('--type', 'RSA', 'newkey')
      assert.equal((await checks.accountOf(first)).keyVersion, 2)
      await uacme('--hook', UACME_HOOK, 'issue', ...names)
      assert.equal((await checks.accountOf(checks.checkFile(chain(), names, second))).keyVersion, 2)
    })
    test('deactivates its account (§7.3.6)', async () => {
      await uacme('deactivate')
      assert.equal((await checks.accountOf(first)).status, 'deactivated')
    })
  })

  describe('acme-client', () => {
    const names = ['npm.test', '*.npm.test']
    let client: acme.Client
    let first: X509Certificate

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

    test('binds its account', async () => {
      const options = { directoryUrl: service.directoryUrl, accountKey: await acme.crypto.createPrivateKey() }
      const registration = { termsOfServiceAgreed: true }
      await assert.rejects(new acme.Client(options).createAccount(registration), REFUSAL)
      client = new acme.Client({ ...options, externalAccountBinding: await credentialFor('npm') })
      await client.createAccount(registration)
      await assertUsed('npm')
    })
    test('obtains a certificate for a name and its wildcard', async () => {
      first = await obtain()
      await assertByDns(first, 'npm.test')
    })
    test('renews it', async () => {
      assert.notEqual((await obtain()).serialNumber, first.serialNumber)
    })
  })

  test('Caddy binds its account and obtains a certificate', requireCommand('caddy'), async () => {
    const options = {
      names: ['caddy-eab.test'],
      directoryUrl: service.directoryUrl,
      http01Port: service.http01Port,
      httpsPort: await freePort(),
      method: 'http-01' as const,
    }
    const without = await startCaddy({ ...options, folder: inside('caddy-without') })
    try {
      await waitFor('the refusal', without, () => REFUSAL.exec(without.output())?.[0])
    } finally {
      await without.stop()
    }
    const store = inside('caddy')
    const bound = await startCaddy({ ...options, folder: store, binding: await credentialFor('caddy') })
    try {
      await waitFor('a certificate', bound, () => caddyChain(store, 'caddy-eab.test'))
    } finally {
      await bound.stop()
    }
    await assertUsed('caddy')
  })

  test('Apache mod_md binds its account and obtains a wildcard by its command', requireCommand('apache2'), async () => {
    const names = ['apache.test', '*.apache.test']
    const options = {
      names,
      directoryUrl: service.directoryUrl,
      rootFile: service.ca.root,
      http01Port: await freePort(),
      httpsPort: await freePort(),
      dns01: records,
    }
    const without = startApache(options)
    try {
      await waitFor('the refusal', without.daemon, () => REFUSAL.exec(without.daemon.output())?.[0])
    } finally {
      await without.dispose()
    }
    const bound = startApache({ ...options, binding: await credentialFor('apache') })
    try {
      const file = await waitFor('a certificate', bound.daemon, () => {
        const found = bound.chain('staging')
        return found && /END CERTIFICATE/.test(readFileSync(found, 'utf8')) ? found : undefined
      })
      await assertByDns(checks.checkFile(file, names), 'apache.test')
    } finally {
      await bound.dispose()
    }
    await assertUsed('apache')
  })
})
