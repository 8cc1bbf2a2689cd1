/** External account binding by clients that nobody here wrote (RFC 8555 §7.3.4). */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import acme from 'acme-client'
import { createCredential, operate } from '../support/operator.ts'
import { requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'
import { startTestService, type TestService } from '../support/service.ts'

describe('unmodified clients bind their account', { timeout: 120_000 }, () => {
  let service: TestService
  let folder: string
  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'chancery-interop-eab-'))
    const keyFile = path.join(folder, 'eab.key')
    writeFileSync(keyFile, randomBytes(32))
    service = await startTestService({ config: { acme: { eab_required: true, eab_key_file: keyFile } } })
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
    assert.match(await operate(service, 'eab', 'list'), new RegExp(`^used {5}${client} .*account `, 'm'))
  }

  test('certbot', requireCommand('certbot'), async () => {
    const { kid, hmacKey } = await credentialFor('certbot')
    const folders = ['--config-dir', folder, '--work-dir', folder, '--logs-dir', folder]
    const common = [...folders, '-n', '--server', service.directoryUrl]
    const binding = ['--eab-kid', kid, '--eab-hmac-key', hmacKey]
    await mustRun('certbot', [
      'register',
      '--agree-tos',
      '-m',
      'admin@certbot.test',
      '--no-eff-email',
      ...binding,
      ...common,
    ])
    await assertUsed('certbot')
  })

  test('lego, with a certificate', requireCommand('lego'), async () => {
    const { kid, hmacKey } = await credentialFor('lego')
    await mustRun('lego', [
      ...[
        '--server',
        service.directoryUrl,
        '--email',
        'admin@lego.test',
        '--accept-tos',
        '--path',
        path.join(folder, 'lego'),
      ],
      ...['--http', '--http.port', `:${service.http01Port}`, '--domains', 'lego-eab.test'],
      ...['--eab', '--kid', kid, '--hmac', hmacKey, 'run'],
    ])
    await assertUsed('lego')
  })

  test('acme-client', async () => {
    const { kid, hmacKey } = await credentialFor('npm')
    const client = new acme.Client({
      directoryUrl: service.directoryUrl,
      accountKey: await acme.crypto.createPrivateKey(),
      externalAccountBinding: { kid, hmacKey },
    })
    await client.createAccount({ termsOfServiceAgreed: true })
    await assertUsed('npm')
  })
})
