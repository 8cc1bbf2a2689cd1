/**
 * Mail over TLS, a hook, a transparency log, a webhook of the audit log and tasks in a whole service: what each hears,
 * which instance ran what, and what SIGTERM does in the middle of all.
 */

import assert from 'node:assert/strict'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parse, stringify } from 'yaml'
import { closeConnections, createAcmeClient, startResponder } from '../support/acme-client.ts'
import { loopbackCertificate } from '../support/certificates.ts'
import { sqlOn } from '../support/database.ts'
import { each } from '../support/each.ts'
import { type MailServer, startMailServer } from '../support/mail-server.ts'
import { healthOf } from '../support/metrics.ts'
import { operate } from '../support/operator.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { TestLog } from './transparency-log.ts'

const MODULE = path.resolve(import.meta.dirname, '../../../test/fixtures/hooks/hooks.mjs')

describe('a service with consumers', () => {
  const folder = temporaryFolder()
  let mail: MailServer
  /** Mails that have been received and wait for the answer; undefined answers at once. */
  let heldMails: (() => void)[] | undefined
  let webhook: Receiver
  /** Ids of alarms, as often as they came to the webhook. */
  const alarms: string[] = []
  /** Of them, those without an answer yet. */
  let heldAlarms: ServerResponse[] | undefined
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
  const sql = sqlOn(() => service.database)
  const health = () => healthOf(service)
  const notifications = () =>
    sql<{ type: string; status: string; error_detail: string | null }>(
      'SELECT notification_type AS type, status, error_detail FROM notifications ORDER BY id',
    )
  const deliveries = () =>
    sql<{ consumer: string; claimed_by: number | null }>(
      `SELECT consumer, claimed_by FROM event_deliveries WHERE consumer NOT IN ('notifications', 'strangers')
        ORDER BY consumer`,
    )
  const raiseAlarm = () => sql(`SELECT emit_event('alarm', 'x', NULL, '{"message": "an exercise"}')`)

  before(async () => {
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
          if (heldMails) heldMails.push(() => done())
          else done()
        })
      },
    })
    webhook = await startReceiver((body, response) => {
      const { event, event_id } = JSON.parse(body) as { event: string; event_id: string }
      if (event === 'alarm') alarms.push(event_id)
      if (event === 'alarm' && heldAlarms) heldAlarms.push(response)
      else response.writeHead(204).end()
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
        expiration_check_interval_seconds: 777,
        disabled_types: ['registration_succeeded'],
      },
      audit_export: { webhook_url: webhook.url, webhook_allow_private: true },
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
    webhook.close()
    await service?.dispose()
    await first?.dispose()
    await mail?.close()
  })

  async function issue(name: string): Promise<void> {
    const responder = await startResponder(service.http01Port)
    await client.obtain([name], responder).finally(() => responder.close())
  }
  const timestamps = () => sql<{ verified: boolean }>('SELECT verified FROM signed_certificate_timestamps')

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

  test('health and the command line say which instance ran each task, and when', async () => {
    const { checks, status } = await until('the first runs are recorded', async () => {
      const report = await health()
      const { order_expiry, expiration_warnings } = report.checks.workers.tasks ?? {}
      return (
        order_expiry && expiration_warnings && report.checks.events?.consumers['audit-webhook']?.waiting === 0 && report
      )
    })
    assert.equal(status, 'ok')
    const { leader, last_run, next_run, errors } = checks.workers.tasks?.order_expiry ?? assert.fail()
    assert.ok(leader > 0 && Date.parse(next_run) > Date.parse(last_run) && errors === 0)
    const warnings = checks.workers.tasks?.expiration_warnings ?? assert.fail()
    assert.equal(Date.parse(warnings.next_run) - Date.parse(warnings.last_run), 777_000)
    const printed = await operate(service, 'workers', 'status')
    assert.match(printed, new RegExp(`^order_expiry +instance ${leader}  last 2`, 'm'))
    assert.match(printed, /^consumer audit-webhook: 0 waiting$/m)
  })

  test('SIGTERM in the middle of each delivery ends in time, writes what waits, and all is delivered later', async () => {
    heldMails = []
    heldAlarms = []
    log.answers = ['hang']
    writeFileSync(`${calls()}.hold`, '')
    await sql("INSERT INTO event_consumers (name, kinds) VALUES ('strangers', '{abuse.summary}')")
    await raiseAlarm()
    await issue('second.test')
    await until(
      'all four are under way',
      () => heldMails?.length === 1 && heldAlarms?.length === 1 && called().length === 2 && log.submissions === 2,
    )
    for (let n = 0; n < 20; n++) assert.equal((await fetch(`${service.baseUrl}/nothing`)).status, 404)
    assert.equal(await service.stop(), 0)
    const waiting = await deliveries()
    assert.equal(new Set(waiting.map(({ consumer }) => consumer)).size, 3)
    assert.deepEqual(new Set(waiting.map(({ claimed_by }) => claimed_by)), new Set([null]))
    // There is more than one summary when a minute is over meanwhile.
    const [strangers] = await sql(
      `SELECT sum((data->>'count')::integer)::integer AS refused FROM event_deliveries
        WHERE consumer = 'strangers' AND data->>'refusal' = 'notFound'`,
    )
    assert.equal(strangers?.['refused'], 20)
    heldMails = undefined
    heldAlarms = undefined
    rmSync(`${calls()}.hold`)
    // Time for the receiver of the next test.
    service = await startTestService({
      fronts: 1,
      config: { ...config, server: { graceful_timeout: 60 } },
      continueFrom: first,
    })
    await until('nothing waits', async () => (await deliveries()).length === 0)
    await until('the mail is sent', async () => (await notifications()).every(({ status }) => status === 'sent'))
    assert.deepEqual([called().length, log.submissions, messageIds.length, alarms.length], [3, 3, 3, 2])
    assert.equal(called()[1], called()[2])
    assert.equal(messageIds[1], messageIds[2])
    assert.equal(alarms[0], alarms[1])
    assert.equal((await timestamps()).length, 2)
  })

  test('SIGTERM waits for a receiver that is about to answer', async () => {
    heldAlarms = []
    await raiseAlarm()
    await until('the receiver has the event', () => heldAlarms?.length === 1)
    const stopped = service.stop()
    setTimeout(() => heldAlarms?.[0]?.writeHead(204).end(), 500)
    assert.equal(await stopped, 0)
    assert.deepEqual(await deliveries(), [])
  })

  test('a mail server that is not trusted and a consumer that is behind are told by health, without failing', async () => {
    await raiseAlarm()
    await sql("UPDATE event_deliveries SET occurred_at = now() - interval '1 hour'")
    const { ca_file: _, ...smtp } = config.smtp
    service = await startTestService({ fronts: 1, config: { ...config, smtp }, continueFrom: first })
    const { status, checks } = await until('health says so', async () => {
      const report = await health()
      return report.checks.events?.status === 'behind' && report
    })
    assert.deepEqual([status, checks.smtp], ['ok', { status: 'error' }])
    await sql(
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
      await sql(
        `SELECT emit_event('${kind}', id::text, id, '{"row": {}, "deactivated_authorizations": 0}') FROM accounts`,
      )
    await until('what is recorded still', async () => (await notifications()).length > before)
    assert.deepEqual(each((await notifications()).slice(before), 'type'), ['account_revoked'])
  })
})
