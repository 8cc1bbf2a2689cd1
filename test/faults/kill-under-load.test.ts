/**
 * kill -9 of PostgreSQL's postmaster, of the signer and of the service, one after the other, while clients are busy
 * (ARCHITECTURE.md, life of an issuance).
 *
 * An issuance that was interrupted between signature and record is finished once its intent is older than
 * `ca.signer.timeout_seconds` + 5 s, by a recovery round every 2 s; a challenge whose claim was committed but not
 * acknowledged is taken up after `challenges.background_worker.stale_seconds`.
 */

import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { HeldCertificate } from '../../bench/client/persistent-client.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/dev/postgres.ts'
import { restartedScene } from '../support/acme-scene.ts'
import { type Books, checkBooks } from '../support/books.ts'
import { assertNoComplaints, type Crowd, createMoments, startCrowd } from '../support/clients/crowd.ts'
import { WAIT_MS } from '../support/patience.ts'
import type { TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

/** Of each. */
const KILLS = 2
/** Who was told to come back a minute later is not late. */
const CLIENTS_MS = 4 * WAIT_MS

describe('kill -9', () => {
  const dataDir = path.join(tmpdir(), `chancery-faults-${process.pid}`)
  let postgres: EmbeddedPostgres
  const held: HeldCertificate[] = []
  before(async () => {
    postgres = await startPostgres()
  })
  const { service, again } = restartedScene(() => ({
    database: { connection: postgres.connection, drop: async () => undefined },
    config,
  }))
  after(async () => {
    await postgres?.stop()
    rmSync(postgres.folder, { recursive: true, force: true })
  })
  const config = {
    database: { auto_setup: true },
    ca: { signer: { timeout_seconds: 2 } },
    challenges: { background_worker: { stale_seconds: 5 } },
  }

  // Its data outlives the kill of a process; only a loss of power would need fsync.
  const startPostgres = () => startEmbeddedPostgres({ dataDir, settings: { fsync: 'off' }, log: () => undefined })

  /** Kills at random moments while a crowd orders; every client gets in the end what it has begun, and the books agree. */
  async function underLoad(kill: (crowd: Crowd, round: number) => Promise<void>): Promise<[Crowd, Books]> {
    const { directoryUrl, http01Port } = service
    const load = { accounts: 4, ordersAtOnce: 8, timeoutMs: CLIENTS_MS }
    const crowd = await startCrowd({ directoryUrl, http01Port, ...load })
    try {
      const moment = createMoments(200, 1500)
      for (let round = 0; round < KILLS; round++) {
        await sleep(moment())
        await kill(crowd, round)
      }
      await crowd.finish()
    } finally {
      await crowd.close()
    }
    assertNoComplaints(crowd)
    held.push(...crowd.held)
    const { folder, database } = service
    const books = await checkBooks({ connection: database.connection, folder, held })
    console.log(`${KILLS} kills, ${crowd.held.length} certificates held, books: ${JSON.stringify(books)}`)
    return [crowd, books]
  }

  test('of PostgreSQL: 503 and Retry-After while it lasts, and the same service goes on', async () => {
    const [crowd, books] = await underLoad(async (crowd, round) => {
      const told = () => crowd.clients.reduce((sum, { unavailable }) => sum + unavailable, 0)
      const before = told()
      await killPostgres()
      assert.equal((await fetch(service.directoryUrl)).status, 200, 'what needs no database goes on')
      await until('clients are told to come back', () => told() > before)
      if (round === 0) {
        await untilReadiness(503)
        await service.waitForLog('background task failed; it is tried again')
      }
      postgres = await startPostgres()
      const issued = crowd.held.length
      await until('certificates are issued again', () => crowd.held.length > issued)
    })
    await untilReadiness(200)
    assert.equal(service.process.exitCode, null)
    assert.ok(crowd.clients.some(({ unavailable }) => unavailable > 0))
    assertEpisodes(service.log)
    assertNoAlarm(service.log)
    // Also of those whose record was committed and not acknowledged.
    const issued = () =>
      service.log.filter(({ event, orderId }) => event === 'certificate_issued' && orderId !== undefined)
    await until('a line of each certificate', () => issued().length >= books.certificates)
    assert.equal(new Set(issued().map(({ id }) => id)).size, issued().length, 'one line each')
    assert.equal(issued().length, books.certificates)
  })

  test('of the signer: the service starts it again by itself and every order comes to its end', async () => {
    const { certificates: before } = await booksNow()
    const [crowd, books] = await underLoad(async () => {
      const killed = service.signerPid()
      process.kill(killed, 'SIGKILL')
      await until('a new signer is ready', () => service.signerPid() !== killed)
    })
    assert.equal(service.process.exitCode, null)
    assert.equal(books.certificates - before, crowd.held.length)
  })

  test('of the service: no order stuck, no certificate unknown, and clients that go on get theirs', async () => {
    // It has lost its database, and its signer, and ends in order all the same.
    assert.equal(await service.stop(), 0)
    await again()
    const [, books] = await underLoad(async () => {
      await service.kill()
      await again()
    })
    assert.ok(books.certificates >= held.length)
  })

  test('of PostgreSQL does not keep the service from an orderly end', async () => {
    await killPostgres()
    assert.equal(await service.stop(), 0)
    postgres = await startPostgres()
  })

  const booksNow = () => checkBooks({ connection: service.database.connection, folder: service.folder, held })

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
  }

  async function killPostgres(): Promise<void> {
    const { pid, exited } = postgres
    process.kill(pid, 'SIGKILL')
    // The handle does not keep this process alive, a timer does.
    const hold = setInterval(() => undefined, 1_000)
    await exited
    clearInterval(hold)
  }

  /** Probes are a few seconds old at most. */
  const untilReadiness = (status: number) =>
    until(`/readyz says ${status}`, async () => (await fetch(`${service.baseUrl}/readyz`)).status === status)
})
