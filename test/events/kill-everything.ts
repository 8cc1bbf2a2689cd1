/**
 * Issues certificates with mail, a webhook, audit export, statistics and an audit file, while the service, PostgreSQL,
 * the mail server and the receivers are killed in turn. Then counts what arrived.
 */

import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/dev/postgres.ts'
import { createMoments, startCrowd } from '../support/crowd.ts'
import { rowsIn } from '../support/database.ts'
import { freePort } from '../support/free-port.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

/** A receiver in a process of its own that a test kills and starts again on the same port and file. */
class Killable {
  readonly port: number
  readonly #entry: string
  readonly #file: string
  #child: ChildProcess | undefined

  private constructor(entry: string, port: number, file: string) {
    this.#entry = path.resolve(import.meta.dirname, '../../bench/faults/parts', entry)
    this.port = port
    this.#file = file
  }

  /** @param entry among the parts of the fault stand; it is given port and file */
  static async start(entry: string, file: string): Promise<Killable> {
    const made = new Killable(entry, await freePort(), file)
    await made.start()
    return made
  }

  async start(): Promise<void> {
    const child = spawn(process.execPath, [this.#entry, String(this.port), this.#file], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    this.#child = child
    await once(child.stdout as NodeJS.ReadableStream, 'data')
  }

  async kill(): Promise<void> {
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }

  /** What it has taken so far, one JSON object a line. */
  lines<T>(): T[] {
    if (!existsSync(this.#file)) return []
    const text = readFileSync(this.#file, 'utf8')
    // The last line of a killed process may be half a line.
    return text
      .slice(0, text.lastIndexOf('\n') + 1)
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as T)
  }
}

export interface KillPlan {
  certificates: number
  /** Of each of the four. */
  kills: number
  /** Of what the last kill left, with the pauses between attempts. */
  boundMs: number
}

export interface KillResult {
  certificates: number
  webhook: { deliveries: number; events: number }
  audit: { deliveries: number; events: number }
  mails: { received: number; distinct: number }
  /** By the statistics, whose counts are exact. */
  counted: number
}

const CONTACT = 'mailto:ops@example.com'

/** @throws AssertionError when something was lost, or a mail came under two names */
export async function killEverything(plan: KillPlan): Promise<KillResult> {
  const folder = temporaryFolder()
  const dataDir = path.join(folder, 'database')
  // Its data outlives the kill of a process; only a loss of power would need fsync.
  const startPostgres = () => startEmbeddedPostgres({ dataDir, settings: { fsync: 'off' }, log: () => undefined })
  const scene = {
    folder,
    postgres: await startPostgres(),
    webhook: await Killable.start('webhook-receiver.js', path.join(folder, 'webhook.jsonl')),
    audit: await Killable.start('webhook-receiver.js', path.join(folder, 'audit.jsonl')),
    mail: await Killable.start('mail-server.js', path.join(folder, 'mail.jsonl')),
  }
  const config = configOf(scene)
  const database = { connection: scene.postgres.connection, drop: async () => undefined }
  const first = await startTestService({ database, config })
  let service = first
  const { directoryUrl, http01Port } = service
  const timeoutMs = 600_000
  const crowd = await startCrowd({
    directoryUrl,
    http01Port,
    accounts: 4,
    ordersAtOnce: 8,
    timeoutMs,
    contact: CONTACT,
    most: plan.certificates,
  })
  try {
    const moment = createMoments(200, 1_500)
    const restart = async () => {
      await service.kill()
      service = await startTestService({ continueFrom: service, config })
    }
    const receivers = [scene.mail, scene.webhook, scene.audit]
    for (let kill = 0; kill < plan.kills; kill++) {
      await sleep(moment())
      for (const receiver of receivers) await receiver.kill()
      await sleep(moment())
      await killPostgres(scene.postgres)
      await sleep(moment())
      scene.postgres = await startPostgres()
      await sleep(moment())
      await restart()
      for (const receiver of receivers) await receiver.start()
      await sleep(moment())
    }
    await until('all are issued', () => crowd.held.length >= plan.certificates, plan.boundMs)
    await crowd.finish()
    return await counted(scene, service, plan)
  } finally {
    await crowd.close()
    await service.dispose()
    for (const receiver of [scene.mail, scene.webhook, scene.audit]) await receiver.kill()
    await scene.postgres.stop()
    await first.dispose()
    rmSync(scene.postgres.folder, { recursive: true, force: true })
  }
}

interface Scene {
  folder: string
  postgres: EmbeddedPostgres
  webhook: Killable
  audit: Killable
  mail: Killable
}

function configOf({ folder, webhook, audit, mail }: Scene): Record<string, unknown> {
  return {
    database: { auto_setup: true },
    ca: { signer: { timeout_seconds: 2 } },
    challenges: { background_worker: { stale_seconds: 5 } },
    admin_api: {
      enabled: true,
      token_secret: '0123456789abcdef0123456789abcdef',
      initial_admin_email: 'a@example.com',
    },
    smtp: { enabled: true, host: '127.0.0.1', port: mail.port, use_tls: false, from_address: 'acme@example.com' },
    notifications: {
      enabled: true,
      max_retries: 1_000,
      retry_delay_seconds: 1,
      retry_max_delay_seconds: 2,
      retry_interval_seconds: 1,
      max_per_recipient_per_hour: 100_000,
    },
    audit_export: { webhook_url: `http://127.0.0.1:${audit.port}/`, webhook_allow_private: true },
    logging: { audit: { enabled: true, file: path.join(folder, 'audit.log') } },
    hooks: {
      registered: [
        {
          class: 'webhook',
          events: ['certificate.issuance'],
          config: { url: `http://127.0.0.1:${webhook.port}/`, allow_private: true, max_retries: 50 },
        },
      ],
    },
  }
}

async function killPostgres({ pid, exited }: EmbeddedPostgres): Promise<void> {
  process.kill(pid, 'SIGKILL')
  // The handle does not keep this process alive, a timer does.
  const hold = setInterval(() => undefined, 1_000)
  await exited
  clearInterval(hold)
}

async function counted(scene: Scene, { database }: TestService, { boundMs }: KillPlan): Promise<KillResult> {
  const rows = <R extends object>(text: string) => rowsIn<R & Record<string, unknown>>(database, text)
  const issued = await rows<{ id: string; serial: string }>(
    `SELECT id::text, encode(serial_number, 'hex') AS serial FROM certificates WHERE order_id IS NOT NULL`,
  )
  await until('nothing waits', async () => (await rows('SELECT FROM event_deliveries LIMIT 1')).length === 0, boundMs)
  await until(
    'all mails are sent',
    async () => (await rows(`SELECT FROM notifications WHERE status <> 'sent' LIMIT 1`)).length === 0,
    boundMs,
  )
  assert.deepEqual(await rows('SELECT consumer, kind, error FROM event_dead_letters'), [])

  type Received<T> = { body: T & { data: { certificate_id: string } } }
  const webhook = scene.webhook.lines<Received<{ id: string }>>().map(({ body }) => body)
  const audit = scene.audit.lines<Received<{ event: string; event_id: string }>>().map(({ body }) => body)
  const audited = audit.filter(({ event }) => event === 'certificate.issuance')
  const mails = scene.mail.lines<{ id: string; text: string }>().filter(({ text }) => text.includes('was issued to'))
  for (const { id } of issued) {
    assert.equal(distinct(webhook.filter(({ data }) => data.certificate_id === id)), 1, `webhook of ${id}`)
    assert.equal(new Set(audited.filter((one) => one.data.certificate_id === id).map((one) => one.event_id)).size, 1)
  }
  for (const { serial } of issued)
    assert.equal(distinct(mails.filter(({ text }) => text.includes(serial))), 1, `mail of ${serial}`)
  const [counts] = await rows<{ events: number }>(
    `SELECT sum(events)::integer AS events FROM event_counts WHERE kind = 'certificate.issuance'`,
  )
  assert.equal(counts?.events, issued.length)
  assertAuditFile(scene.folder, issued)
  return {
    certificates: issued.length,
    webhook: { deliveries: webhook.length, events: distinct(webhook) },
    audit: { deliveries: audited.length, events: new Set(audited.map((one) => one.event_id)).size },
    mails: { received: mails.length, distinct: distinct(mails) },
    counted: counts?.events ?? 0,
  }
}

const distinct = (of: readonly { id: string }[]) => new Set(of.map(({ id }) => id)).size

function assertAuditFile(folder: string, issued: readonly { id: string }[]): void {
  const text = readdirSync(folder)
    .filter((name) => name.startsWith('audit.log'))
    .map((name) => readFileSync(path.join(folder, name), 'utf8'))
    .join('')
  const told = new Set([...text.matchAll(/"certificate_id":"([^"]+)"/g)].map(([, id]) => id))
  for (const { id } of issued) assert.ok(told.has(id), `${id} is in the audit file`)
}
