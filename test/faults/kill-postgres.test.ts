/**
 * kill -9 of PostgreSQL's postmaster while clients are busy: the service survives, says 503 with Retry-After meanwhile,
 * and goes on by itself when the database is back.
 *
 * Bound: an issuance that was interrupted between signature and record is finished once its intent is older than
 * `ca.signer.timeout_seconds` + 5 s, by a recovery round every 2 s; a challenge whose claim was committed but not
 * acknowledged is taken up after `challenges.background_worker.stale_seconds`. With the settings of this test: 9 s, and `BOUND_MS` allows for a busy machine.
 */

import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/dev/postgres.ts'
import { checkBooks } from '../support/books.ts'
import { assertNoComplaints, type Crowd, createMoments, startCrowd } from '../support/crowd.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const KILLS = 3
const BOUND_MS = 40_000
/** From the database being back to the next certificate: under a second when the machine is free. */
const RECOVERY_MS = 60_000
const READINESS_MS = 60_000

describe('kill -9 of PostgreSQL', () => {
  const dataDir = path.join(tmpdir(), `chancery-faults-${process.pid}`)
  let postgres: EmbeddedPostgres
  let service: TestService
  let crowd: Crowd
  before(async () => {
    postgres = await startPostgres()
    const database = { connection: postgres.connection, drop: async () => undefined }
    service = await startTestService({
      database,
      config: {
        database: { auto_setup: true },
        ca: { signer: { timeout_seconds: 2 } },
        challenges: { background_worker: { stale_seconds: 5 } },
      },
    })
    const { directoryUrl, http01Port } = service
    crowd = await startCrowd({ directoryUrl, http01Port, accounts: 4, ordersAtOnce: 12, timeoutMs: 240_000 })
  })
  after(async () => {
    await crowd?.close()
    await service?.dispose()
    await postgres?.stop()
    rmSync(postgres.folder, { recursive: true, force: true })
  })

  // Its data outlives the kill of a process; only a loss of power would need fsync.
  const startPostgres = () => startEmbeddedPostgres({ dataDir, settings: { fsync: 'off' }, log: () => undefined })

  test('is answered with 503 and Retry-After while it lasts, and forgotten seconds after', async () => {
    const moment = createMoments(200, 1500)
    for (let kill = 0; kill < KILLS; kill++) {
      await sleep(moment())
      await killPostgres()
      await assertUnavailable()
      if (kill === 0) {
        await untilReadiness(503)
        await service.waitForLog('background task failed; it is tried again')
      }
      postgres = await startPostgres()
      await untilNextCertificate()
    }
    await untilReadiness(200)
    await crowd.finish()

    assert.equal(service.process.exitCode, null, 'the service is still the same process')
    assertNoComplaints(crowd)
    assert.ok(crowd.clients.some(({ unavailable }) => unavailable > 0))
    assertEpisodes(service.log)
    assertNoAlarm(service.log)
    const { connection } = service.database
    const books = await checkBooks({ connection, folder: service.folder, held: crowd.held, boundMs: BOUND_MS })
    // Also of those whose record was committed and not acknowledged.
    const issued = () =>
      service.log.filter(({ event, orderId }) => event === 'certificate_issued' && orderId !== undefined)
    await until('a line of each certificate', () => issued().length >= books.certificates)
    assert.equal(new Set(issued().map(({ id }) => id)).size, issued().length, 'one line each')
    assert.equal(issued().length, books.certificates)
    console.log(`${KILLS} kills, ${crowd.held.length} certificates held, books: ${JSON.stringify(books)}`)
  })

  test('does not keep the service from an orderly end, while it is away or after', async () => {
    assert.equal(await service.stop(), 0)
    service = await startTestService({ continueFrom: service })
    await killPostgres()
    assert.equal(await service.stop(), 0)
    postgres = await startPostgres()
  })

  /** Of each background task: one line when it begins to fail, without a stack, one when it works again, and so on. */
  function assertEpisodes(log: TestService['log']): void {
    const lines = log.filter(({ message }) => message.startsWith('background task ') && !message.includes('found work'))
    for (const task of new Set(lines.map((line) => line['task']))) {
      const told = lines.filter((line) => line['task'] === task)
      const levels = told.map((_, index) => (index % 2 === 0 ? 'error' : 'warn'))
      assert.deepEqual(
        told.map(({ level, err }) => (err === undefined ? level : 'a stack')),
        levels,
        String(task),
      )
    }
  }

  /** What recovery finishes is a warning, by which an operator finds the order. */
  function assertNoAlarm(log: TestService['log']): void {
    assert.deepEqual(
      log.filter(({ level, event }) => level === 'fatal' || event === 'alarm'),
      [],
    )
    const interrupted = log.filter(({ event }) => event === 'issuance_interrupted')
    for (const line of interrupted)
      for (const fact of ['orderId', 'accountId', 'serialNumber', 'certificateId'])
        assert.match(String(line[fact]), /^[0-9a-f-]{32,40}$/)
    console.log(`${interrupted.length} issuances interrupted: ${[...new Set(interrupted.map(({ reason }) => reason))]}`)
  }

  async function killPostgres(): Promise<void> {
    const { pid, exited } = postgres
    process.kill(pid, 'SIGKILL')
    // The handle does not keep this process alive, a timer does.
    const hold = setInterval(() => undefined, 1_000)
    await exited
    clearInterval(hold)
  }

  async function assertUnavailable(): Promise<void> {
    assert.equal((await fetch(service.directoryUrl)).status, 200, 'what needs no database goes on')
    const before = crowd.clients.reduce((sum, client) => sum + client.unavailable, 0)
    const deadline = performance.now() + RECOVERY_MS
    while (crowd.clients.reduce((sum, client) => sum + client.unavailable, 0) === before) {
      assert.ok(performance.now() < deadline, 'clients are told to come back')
      await sleep(20)
    }
  }

  /** Probes are a few seconds old at most. */
  async function untilReadiness(status: number): Promise<void> {
    const deadline = performance.now() + READINESS_MS
    while ((await fetch(`${service.baseUrl}/readyz`)).status !== status) {
      assert.ok(performance.now() < deadline, `/readyz answers ${status} in time`)
      await sleep(100)
    }
  }

  async function untilNextCertificate(): Promise<void> {
    const before = crowd.held.length
    const deadline = performance.now() + RECOVERY_MS
    while (crowd.held.length === before) {
      assert.ok(performance.now() < deadline, 'certificates are issued again in time')
      await sleep(20)
    }
  }
})
