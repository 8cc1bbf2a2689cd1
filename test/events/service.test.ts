/** Mail over TLS, a hook and a transparency log in a whole service, and SIGTERM in the middle of all three. */

import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parse, stringify } from 'yaml'
import { closeConnections, createAcmeClient, startResponder } from '../support/acme-client.ts'
import { loopbackCertificate } from '../support/certificates.ts'
import { rowsIn } from '../support/database.ts'
import { type MailServer, startMailServer } from '../support/mail-server.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { TestLog } from './transparency-log.ts'

const MODULE = path.resolve(import.meta.dirname, '../../../test/fixtures/hooks/hooks.mjs')

interface Health {
  status: string
  checks: { smtp?: { status: string }; workers: { expiration: boolean } }
}

describe('a service with consumers', () => {
  let folder: string
  let mail: MailServer
  /** Mails that have been received and wait for the answer; undefined answers at once. */
  let held: (() => void)[] | undefined
  const log = new TestLog()
  let service: TestService
  let first: TestService
  let config: { smtp: Record<string, unknown> } & Record<string, unknown>
  let client: Awaited<ReturnType<typeof createAcmeClient>>

  const messageIds: string[] = []
  const calls = () => path.join(folder, 'calls.jsonl')
  /** Whole lines: the hook may be about to write one. */
  const called = (): string[] => {
    const text = existsSync(calls()) ? readFileSync(calls(), 'utf8') : ''
    const lines = text.slice(0, text.lastIndexOf('\n') + 1).split('\n')
    return lines.filter((line) => line !== '').map((line) => JSON.parse(line).eventId)
  }
  const health = async () => (await (await fetch(`${service.baseUrl}/healthz`)).json()) as Health
  const notifications = () =>
    rowsIn<{ type: string; status: string; error_detail: string | null }>(
      service.database,
      'SELECT notification_type AS type, status, error_detail FROM notifications ORDER BY id',
    )
  const deliveries = () =>
    rowsIn<{ consumer: string; claimed_by: number | null }>(
      service.database,
      'SELECT consumer, claimed_by FROM event_deliveries ORDER BY consumer',
    )

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'chancery-consumers-'))
    const tls = await loopbackCertificate()
    const authorities = path.join(folder, 'authorities.pem')
    writeFileSync(authorities, tls.cert)
    mail = await startMailServer({
      key: tls.key,
      cert: tls.cert,
      disabledCommands: ['AUTH'],
      onData(stream, _session, done) {
        let text = ''
        stream.on('data', (chunk: Buffer) => {
          text += chunk
        })
        stream.on('end', () => {
          messageIds.push(/^Message-ID: <(.*)>/m.exec(text)?.[1] ?? '')
          if (held) held.push(() => done())
          else done()
        })
      },
    })
    const public_key_path = path.join(folder, 'log.pem')
    writeFileSync(public_key_path, log.keys.publicKey.export({ type: 'spki', format: 'pem' }))
    config = {
      server: { graceful_timeout: 3 },
      smtp: {
        enabled: true,
        host: 'localhost',
        port: mail.port,
        from_address: 'acme@example.com',
        ca_file: authorities,
      },
      notifications: {
        enabled: true,
        retry_delay_seconds: 1,
        retry_interval_seconds: 1,
        disabled_types: ['registration_succeeded'],
      },
      ct_logging: { enabled: true, logs: [{ url: await log.listen(), public_key_path, timeout_seconds: 60 }] },
      hooks: { registered: [{ class: `ext:${MODULE}#Held`, config: { file: calls() } }] },
    }
    service = await startTestService({ fronts: 1, config })
    first = service
    client = await createAcmeClient(service.directoryUrl)
    const made = await client.newAccount({ termsOfServiceAgreed: true, contact: ['mailto:ops@example.com'] })
    assert.equal(made.status, 201)
  })
  after(async () => {
    closeConnections()
    log.close()
    await service?.dispose()
    await first?.dispose()
    await mail?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  async function issue(name: string): Promise<void> {
    const responder = await startResponder(service.http01Port)
    await client.obtain([name], responder).finally(() => responder.close())
  }
  const timestamps = () =>
    rowsIn<{ verified: boolean }>(service.database, 'SELECT verified FROM signed_certificate_timestamps')

  test('an issuance is told by mail over TLS, to the hook, and to the log, whose signature is checked', async () => {
    await issue('first.test')
    await until('the mail is sent', async () => (await notifications()).some(({ status }) => status === 'sent'))
    await until('the log has signed', async () => (await timestamps()).length === 1)
    assert.deepEqual(await timestamps(), [{ verified: true }])
    await until('the hook was called', () => called().length === 1)
    assert.deepEqual([messageIds.length, log.submissions], [1, 1])
    const { checks } = await health()
    assert.deepEqual([checks.smtp, checks.workers.expiration], [{ status: 'ok' }, true])
  })

  test('SIGTERM during a mail, a hook and an upload ends in time, and the three are delivered later', async () => {
    held = []
    log.answers = ['hang']
    writeFileSync(`${calls()}.hold`, '')
    await issue('second.test')
    await until('all three are under way', () => held?.length === 1 && called().length === 2 && log.submissions === 2)
    assert.equal(await service.stop(), 0)
    assert.deepEqual(
      (await deliveries()).map(({ claimed_by }) => claimed_by),
      [null, null],
    )
    held = undefined
    rmSync(`${calls()}.hold`)
    service = await startTestService({ fronts: 1, config, continueFrom: first })
    await until('nothing waits', async () => (await deliveries()).length === 0)
    await until('the mail is sent', async () => (await notifications()).every(({ status }) => status === 'sent'))
    assert.deepEqual([called().length, log.submissions, messageIds.length], [3, 3, 3])
    assert.equal(called()[1], called()[2])
    assert.equal(messageIds[1], messageIds[2])
    assert.equal((await timestamps()).length, 2)
  })

  test('without the file of the authorities nothing goes to that server, and health says so without failing', async () => {
    await service.stop()
    const { ca_file: _, ...smtp } = config.smtp
    service = await startTestService({ fronts: 1, config: { ...config, smtp }, continueFrom: first })
    const { status, checks } = await health()
    assert.deepEqual([status, checks.smtp], ['ok', { status: 'error' }])
    await rowsIn(
      service.database,
      `SELECT emit_event('account.deactivation', id::text, id, '{"row": {}, "deactivated_authorizations": 0}') FROM accounts`,
    )
    const failed = await until('an attempt has failed', async () =>
      (await notifications()).find(({ type, error_detail }) => type === 'account_deactivated' && error_detail !== null),
    )
    assert.match(failed.error_detail ?? '', /certificate/)
    assert.equal(messageIds.length, 3)
  })

  test('SIGHUP changes what is recorded', async () => {
    const file = path.join(service.folder, 'config.yaml')
    const settings = parse(readFileSync(file, 'utf8')) as { notifications: { disabled_types: string[] } }
    settings.notifications.disabled_types.push('account_deactivated')
    writeFileSync(file, stringify(settings))
    const before = (await notifications()).length
    service.process.kill('SIGHUP')
    const { applied } = await service.waitForLog('configuration read again')
    assert.deepEqual(applied, ['notifications.disabled_types'])
    for (const kind of ['account.deactivation', 'account.revocation'])
      await rowsIn(
        service.database,
        `SELECT emit_event('${kind}', id::text, id, '{"row": {}, "deactivated_authorizations": 0}') FROM accounts`,
      )
    await until('what is recorded still', async () => (await notifications()).length > before)
    assert.deepEqual(
      (await notifications()).slice(before).map(({ type }) => type),
      ['account_revoked'],
    )
  })
})
