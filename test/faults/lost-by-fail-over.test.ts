/**
 * A fail-over to a standby that was behind: what it has lost comes back from the signer, and no client sees a CRL go back
 * (docs/decisions/records-of-the-signer.md). `CHANCERY_NIGHTLY=1` tries a standby that is 20 s and 10 minutes behind, and
 * a backup of a day.
 */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { findRunningSigner } from '../../src/ca/signer-place.ts'
import { hashSpki } from '../../src/shared/pki/algorithms.ts'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import {
  type AcmeClient,
  closeConnections,
  csrFor,
  type Responder,
  registeredClient,
  revoke,
  send,
  serialOf,
  startResponder,
} from '../support/acme-client.ts'
import { adminConfig, createAdministrator } from '../support/admin.ts'
import { RelyingParty } from '../support/clients/relying-party.ts'
import { rowsIn } from '../support/database.ts'
import { type DatabasePair, makeOlder, startDatabasePair } from '../support/databases/database-pair.ts'
import { type MailServer, startMailServer } from '../support/mail-server.ts'
import { operate } from '../support/operator.ts'
import { WAIT_MS } from '../support/patience.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const IS_NIGHTLY = process.env['CHANCERY_NIGHTLY'] === '1'
/** Of the orders that the standby has, and of those that it has not. */
const [READY, NEW] = IS_NIGHTLY ? [27, 200] : [8, 32]
const REVOKED = IS_NIGHTLY ? 65 : 10

interface Lag {
  behind: string
  /** Between the last thing that the standby has and its promotion. */
  waitMs: number
  /** The standby stops instead, and its data begin again as a backup whose rows are made a day older. */
  isBackup?: true
}

const LAGS: Lag[] = IS_NIGHTLY
  ? [
      { behind: '20 seconds behind', waitMs: 20_000 },
      { behind: 'a backup of yesterday', waitMs: 0, isBackup: true },
      { behind: '10 minutes behind', waitMs: 600_000 },
    ]
  : [{ behind: 'behind', waitMs: 0 }]

for (const lag of LAGS) describe(`a fail-over to a standby that is ${lag.behind}`, () => survives(lag))

function survives({ waitMs, isBackup }: Lag): void {
  let pair: DatabasePair
  let first: TestService
  let second: TestService
  let responder: Responder
  let mail: MailServer
  let client: AcmeClient
  const relying: RelyingParty[] = []
  const config = () => ({
    ...adminConfig({}),
    crl: { enabled: true },
    nonce: { store: 'database' },
    database: { auto_setup: true, host: pair.hosts },
    notifications: { enabled: true },
    smtp: {
      enabled: true,
      host: '127.0.0.1',
      port: mail.port,
      use_tls: false,
      from_address: 'acme@example.com',
    },
  })
  const signerOfFirst = () => {
    const place = findRunningSigner(path.join(first.folder, 'signer-audit.jsonl'))
    assert.ok(place && place !== 'starting')
    return { signer: { socket: place.socketPath, secret_file: place.secretFile } }
  }
  const startSecond = () =>
    startTestService({
      fronts: 1,
      config: { ...config(), ca: signerOfFirst() },
      beside: first,
      ...(second && { continueFrom: second }),
    })

  before(async () => {
    mail = await startMailServer()
    pair = await startDatabasePair()
    first = await startTestService({
      fronts: 1,
      database: { connection: pair.primary.connection, drop: async () => undefined },
      config: config(),
    })
    await createAdministrator(first.database, 'admin')
    second = await startSecond()
    responder = await startResponder(first.http01Port)
    client = await registeredClient(first.directoryUrl)
    relying.push(new RelyingParty(() => first.baseUrl), new RelyingParty(() => second.baseUrl))
  })
  after(async () => {
    for (const one of relying) await one.end()
    closeConnections()
    await responder?.close()
    await second?.dispose()
    await first?.dispose()
    await pair?.stop()
    await mail?.close()
  })

  const now = () => ({ connection: pair.standby.connection, drop: async () => undefined })

  async function revoked(by: AcmeClient, der: Buffer, reason = 4): Promise<string> {
    const answer = await revoke(by, der, reason)
    assert.equal(answer.status, 200, answer.text)
    return serialOf(der)
  }

  /** Order, and a certificate for it. */
  interface Held {
    order: string
    certificate: string
    der: Buffer
  }

  async function readyOrder(name: string) {
    const created = await client.newOrder([name])
    await client.authorize(created, responder)
    return { name, url: String(created.headers.location), finalize: created.json.finalize as string }
  }

  async function finalize({ name, url, finalize }: Awaited<ReturnType<typeof readyOrder>>): Promise<Held> {
    const answer = await client.post(finalize, { csr: await csrFor([name]) })
    const order = answer.json.status === 'processing' ? await client.settled(url) : answer
    assert.equal(order.json.status, 'valid', order.text)
    const certificate = order.json.certificate as string
    const { text } = await client.post(certificate)
    return { order: url, certificate, der: new X509Certificate(text).raw }
  }

  const inTurn = async <T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> => {
    const results: R[] = []
    for (let at = 0; at < items.length; at += 8) results.push(...(await Promise.all(items.slice(at, at + 8).map(work))))
    return results
  }
  const names = (label: string, count: number) => Array.from({ length: count }, (_, n) => `${label}-${n}.test`)

  test('loses no certificate and no revocation, and no relying party sees the list go back', async () => {
    const ready = await inTurn(names('ready', READY), readyOrder)
    const early = await inTurn(await inTurn(names('early', 3), readyOrder), finalize)
    const listed = [await revoked(client, early[0]!.der)]
    await until('the list has it', () => relying.every((one) => one.sees(listed)))
    if (isBackup) await makeOlder(pair.primary, '1 day')
    await pair.freeze(isBackup)
    const frozenAt = Date.now()

    const finalized = await inTurn(ready, finalize)
    const other = await registeredClient(first.directoryUrl)
    const strangers = [await other.obtain(['stranger.test'], responder)]
    const fresh = await inTurn(await inTurn(names('fresh', NEW / 2), readyOrder), finalize)
    await sleep(Math.max(0, frozenAt + waitMs - Date.now()))
    fresh.push(...(await inTurn(await inTurn(names('late', NEW / 2 - 1), readyOrder), finalize)))
    const lost = [
      ...finalized,
      ...fresh,
      ...strangers.map(({ der, certificateUrl }) => ({ der, order: '', certificate: certificateUrl })),
    ]
    assert.equal(lost.length, READY + NEW)
    const [compromised] = [early[1]!, finalized[0]!]
    listed.push(await revoked(client, compromised.der, 1))
    for (const { der } of fresh.slice(0, REVOKED - 2)) listed.push(await revoked(client, der))
    await until('the list has them', () => relying.every((one) => one.sees(listed)))
    // Committed and acknowledged, and perhaps on no list yet.
    listed.push(await revoked(client, fresh.at(-1)!.der))

    await second.stop()
    await pair.primary.stop()
    await pair.promote()
    second = await startSecond()
    const back = await until(
      'all is back',
      async () => {
        const rows = await rowsIn<{ serial: string; account: boolean; ordered: boolean; reason: number | null }>(
          now(),
          `SELECT encode(serial_number, 'hex') AS serial, account_id IS NOT NULL AS account, order_id IS NOT NULL AS ordered,
                revocation_reason AS reason FROM certificates WHERE der <> ''`,
        )
        const found = new Map(rows.map((row) => [row.serial, row]))
        const isThere = lost.every(({ der }) => found.has(serialOf(der)))
        return isThere && listed.every((one) => found.get(one)?.reason !== null) && found
      },
      2 * WAIT_MS,
    )
    await until('the lists have all', () => relying.every((one) => one.sees(listed)))

    for (const one of relying) one.assertNeverBack()
    // What the standby knew comes back whole: the account, and the order where that was there.
    assert.deepEqual(
      finalized.map(({ der }) => back.get(serialOf(der))).filter((row) => !row?.account || !row.ordered),
      [],
    )
    assert.ok(fresh.every(({ der }) => back.get(serialOf(der))?.account))
    assert.equal(back.get(serialOf(strangers[0]!.der))?.account, false, 'its account is lost')
    for (const { order, certificate, der } of finalized) {
      const { json } = await client.post(order)
      assert.deepEqual([json.status, json.certificate], ['valid', certificate])
      assert.deepEqual(new X509Certificate((await client.post(certificate)).text).raw, der)
    }
    for (const { certificate } of fresh) assert.equal((await client.post(certificate)).status, 200)
    const spki = hashSpki(parseCertificate(compromised.der).tbs.spki)
    assert.equal((await rowsIn(now(), 'SELECT FROM blocked_keys WHERE spki_sha256 = $1', [spki])).length, 1)
  })

  test('is told once: an alarm, a mail, an entry of the audit log, and numbers', async () => {
    const entries = await until('the entry', async () => {
      const rows = await rowsIn<{ details: Record<string, number> }>(
        now(),
        "SELECT details FROM admin_audit_log WHERE action = 'database.reconcile'",
      )
      // Decisions that were lost have an entry of their own.
      const ofCertificates = rows.filter(({ details }) => details.certificates !== undefined)
      return ofCertificates.length > 0 && ofCertificates
    })
    assert.deepEqual(
      entries.map(({ details }) => [details.certificates, details.without_order, details.given_up]),
      [[READY + NEW, NEW, 0]],
    )
    const alarms = () =>
      [...first.log, ...second.log].filter(({ event, code }) => event === 'alarm' && code === 'database_behind')
    // It waits until the former primary has been silent.
    await until('the alarm', () => alarms().length > 0)
    const told = () => mail.mails.filter(({ text }) => text.includes('the database was behind its signer'))
    await until('the mail', () => told().length > 0)
    assert.deepEqual(
      told().map(({ to }) => to),
      [['admin@example.com']],
    )
    assert.equal(alarms().length, 1)
    const health = (await send({ method: 'GET', url: `${first.baseUrl}/healthz` })).json
    assert.deepEqual(health.checks.signer_records, { status: 'ok' })
  })

  test('leaves nothing for a second comparison, from the mark or from the first record', async () => {
    for (const words of [[], ['--all'], ['--dry-run', '--all']]) {
      const report = JSON.parse(await operate(second, 'reconcile', '--json', ...words))
      assert.deepEqual(report.missing, { certificates: 0, revocations: 0 })
    }
  })
}
