/** External account binding by clients that nobody here wrote (RFC 8555 §7.3.4). */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import acme from 'acme-client'
import { startApache } from '../support/apache.ts'
import { caddyChain, startCaddy } from '../support/caddy.ts'
import { waitFor } from '../support/daemon.ts'
import { freePort } from '../support/free-port.ts'
import { createCredential, operate } from '../support/operator.ts'
import { requireCommand } from '../support/requirements.ts'
import { mustRun, runCommand } from '../support/run-command.ts'
import { startTestService, type TestService } from '../support/service.ts'

/**
 * Type or detail, as far as a client passes them on. certbot, dehydrated and uacme do not even ask: the directory says that a binding
 * is required (§7.1.1), and they say so in their own words.
 */
const REFUSAL = /externalAccount(Required|Binding)|external (account|credentials)/i

describe('unmodified clients bind their account', () => {
  let service: TestService
  let folder: string
  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'chancery-interop-eab-'))
    const keyFile = path.join(folder, 'eab.key')
    writeFileSync(keyFile, randomBytes(32))
    service = await startTestService({ fronts: 1, config: { acme: { eab_required: true, eab_key_file: keyFile } } })
  })
  after(async () => {
    await service.dispose()
    rmSync(folder, { recursive: true })
  })

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
  async function assertRefused(file: string, args: readonly string[]): Promise<void> {
    const { code, output } = await runCommand(file, args)
    assert.notEqual(code, 0, output)
    assert.match(output, REFUSAL)
  }

  test('certbot', requireCommand('certbot'), async () => {
    const folders = ['--config-dir', folder, '--work-dir', folder, '--logs-dir', folder]
    const common = [...folders, '-n', '--server', service.directoryUrl]
    const register = ['register', '--agree-tos', '-m', 'admin@certbot.test', '--no-eff-email', ...common]
    await assertRefused('certbot', register)
    const { kid, hmacKey } = await credentialFor('certbot')
    await mustRun('certbot', [...register, '--eab-kid', kid, '--eab-hmac-key', hmacKey])
    await assertUsed('certbot')
  })

  test('lego, with a certificate', requireCommand('lego'), async () => {
    const store = path.join(folder, 'lego')
    const common = [
      '--server',
      service.directoryUrl,
      '--email',
      'admin@lego.test',
      '--accept-tos',
      '--path',
      store,
      '--http',
      '--http.port',
      `:${service.http01Port}`,
      '--domains',
      'lego-eab.test',
    ]
    await assertRefused('lego', [...common, 'run'])
    const { kid, hmacKey } = await credentialFor('lego')
    await mustRun('lego', [...common, '--eab', '--kid', kid, '--hmac', hmacKey, 'run'])
    await assertUsed('lego')
  })

  test('acme-client', async () => {
    const options = { directoryUrl: service.directoryUrl, accountKey: await acme.crypto.createPrivateKey() }
    const registration = { termsOfServiceAgreed: true }
    await assert.rejects(new acme.Client(options).createAccount(registration), REFUSAL)
    const externalAccountBinding = await credentialFor('npm')
    await new acme.Client({ ...options, externalAccountBinding }).createAccount(registration)
    await assertUsed('npm')
  })

  test('uacme', requireCommand('uacme'), async () => {
    const common = ['--yes', '--confdir', path.join(folder, 'uacme'), '--acme-url', service.directoryUrl]
    await assertRefused('uacme', [...common, '--type', 'EC', 'new', 'admin@uacme.test'])
    const { kid, hmacKey } = await credentialFor('uacme')
    await mustRun('uacme', [...common, '--eab', `${kid}:${hmacKey}`, 'new', 'admin@uacme.test'])
    await assertUsed('uacme')
  })

  test('dehydrated', requireCommand('dehydrated'), async () => {
    const register = (settings: Record<string, string>) => {
      const store = path.join(folder, 'dehydrated')
      mkdirSync(store, { recursive: true })
      const lines = Object.entries({ CA: service.directoryUrl, BASEDIR: store, KEYSIZE: '2048', ...settings })
      const config = path.join(store, 'config')
      writeFileSync(config, lines.map(([name, value]) => `${name}="${value}"\n`).join(''))
      return ['--config', config, '--register', '--accept-terms']
    }
    await assertRefused('dehydrated', register({}))
    const { kid, hmacKey } = await credentialFor('dehydrated')
    await mustRun('dehydrated', register({ EAB_KID: kid, EAB_HMAC_KEY: hmacKey }))
    await assertUsed('dehydrated')
  })

  test('Caddy, with a certificate', requireCommand('caddy'), async () => {
    const options = {
      names: ['caddy-eab.test'],
      directoryUrl: service.directoryUrl,
      http01Port: service.http01Port,
      httpsPort: await freePort(),
      method: 'http-01' as const,
    }
    const without = await startCaddy({ ...options, folder: path.join(folder, 'caddy-without') })
    try {
      await waitFor('the refusal', without, () => REFUSAL.exec(without.output())?.[0])
    } finally {
      await without.stop()
    }
    const store = path.join(folder, 'caddy')
    const bound = await startCaddy({ ...options, folder: store, binding: await credentialFor('caddy') })
    try {
      await waitFor('a certificate', bound, () => caddyChain(store, 'caddy-eab.test'))
    } finally {
      await bound.stop()
    }
    await assertUsed('caddy')
  })

  test('Apache mod_md, with a certificate', requireCommand('apache2'), async () => {
    const options = {
      names: ['apache-eab.test'],
      directoryUrl: service.directoryUrl,
      rootFile: service.ca.root,
      http01Port: service.http01Port,
      httpsPort: await freePort(),
    }
    const without = startApache(options)
    try {
      await waitFor('the refusal', without.daemon, () => REFUSAL.exec(without.daemon.output())?.[0])
    } finally {
      await without.dispose()
    }
    const bound = startApache({ ...options, binding: await credentialFor('apache') })
    try {
      await waitFor('a certificate', bound.daemon, () => bound.chain('staging'))
    } finally {
      await bound.dispose()
    }
    await assertUsed('apache')
  })
})
