/**
 * kill -9 of the service or of the signer in the middle of a CRL build: the old list is served meanwhile, a new one with
 * a higher number and every entry follows, and nothing of the broken build is left.
 */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { fingerprintSha256 } from '../../src/shared/pki/certificate.ts'
import { decodePem } from '../../src/shared/pki/pem.ts'
import { closeConnections, send } from '../support/acme-client.ts'
import { type ReadCrl, readCrl } from '../support/crl.ts'
import { insertRevoked, withQuery } from '../support/revoked.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const ENTRIES = 100_000
/** Pieces of a build of this size; a third of them is in the middle. */
const PIECES_BEFORE_KILL = 8
const BUILD_MS = 180_000

describe('kill -9 in the middle of a CRL build', () => {
  let service: TestService
  const started: TestService[] = []
  const config = { crl: { enabled: true } }
  before(async () => {
    service = await startTestService({ fronts: 1, config })
    started.push(service)
  })
  after(async () => {
    closeConnections()
    for (const one of started.toReversed()) await one.dispose()
  })

  async function served(): Promise<ReadCrl> {
    const { status, body } = await send({ method: 'GET', url: `${service.baseUrl}/crl` })
    assert.equal(status, 200)
    return readCrl(body)
  }

  async function untilServed(entries: number, above: bigint): Promise<ReadCrl> {
    const deadline = performance.now() + BUILD_MS
    for (;;) {
      const crl = await served()
      if (crl.entries.length === entries && crl.number > above) return crl
      assert.ok(performance.now() < deadline, `${crl.entries.length} entries, number ${crl.number}`)
      await sleep(200)
    }
  }

  const query = (text: string) => withQuery(service.database.connection, (run) => run(text))

  /** @returns the number that is being built */
  async function untilBuilding(): Promise<string> {
    const deadline = performance.now() + BUILD_MS
    for (;;) {
      const [row] = await query(
        `SELECT number FROM crl_pieces WHERE number > (SELECT number FROM crls)
          GROUP BY number HAVING count(*) >= ${PIECES_BEFORE_KILL}`,
      )
      if (row) return String(row['number'])
      assert.ok(performance.now() < deadline, 'a build is under way')
      await sleep(5)
    }
  }

  /** While `work` runs no build comes to its end, so that the middle of one is not missed. */
  async function withoutPublication<T>(work: () => Promise<T>): Promise<T> {
    const locker = new pg.Client(service.database.connection)
    await locker.connect()
    try {
      await locker.query('BEGIN')
      await locker.query('LOCK TABLE crls IN EXCLUSIVE MODE')
      return await work()
    } finally {
      await locker.end()
    }
  }

  /** A statement that waits for a lock is carried out for a client that is gone, too. */
  const endConnections = () =>
    query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'chancery'`,
    )

  async function addRevoked(count: number): Promise<void> {
    const [{ der } = { der: Buffer.alloc(0) }] = decodePem(readFileSync(service.ca.intermediate, 'utf8'))
    await insertRevoked(service.database.connection, fingerprintSha256(der), count)
  }

  async function assertNothingLeftOf(number: string): Promise<void> {
    // Deleted when the list after the next one is published.
    const [{ number: current } = { number: 0 }] = await query('SELECT number FROM crls')
    await query('UPDATE crl_changes SET changes = changes + 1')
    await untilServed((await served()).entries.length, BigInt(current as string))
    const [{ left } = { left: -1 }] = await query(
      `SELECT count(*)::integer AS left FROM crl_pieces WHERE number = ${number}`,
    )
    assert.equal(left, 0)
  }

  test('of the service', async () => {
    const { number } = await served()
    const broken = await withoutPublication(async () => {
      await addRevoked(ENTRIES)
      const building = await untilBuilding()
      await service.kill()
      await endConnections()
      return building
    })
    const [unchanged] = await query('SELECT number FROM crls')
    assert.equal(BigInt(unchanged?.['number'] as string), number)

    service = await startTestService({ fronts: 1, config, continueFrom: service })
    started.push(service)
    const crl = await untilServed(ENTRIES, number)
    assert.ok(crl.number > BigInt(broken), 'its number is not used again')
    await assertNothingLeftOf(broken)
  })

  test('of the signer', async () => {
    const { number } = await served()
    const broken = await withoutPublication(async () => {
      await addRevoked(1)
      const building = await untilBuilding()
      process.kill(service.signerPid(), 'SIGKILL')
      return building
    })
    await service.waitForLog('signer restarted')
    const crl = await untilServed(ENTRIES + 1, number)
    // Ready again in time, the signer may still get the list it was killed for.
    assert.ok(crl.number >= BigInt(broken))
    if (crl.number > BigInt(broken)) await assertNothingLeftOf(broken)
    const { stale } = await until('health knows it', async () => {
      const { json } = await send({ method: 'GET', url: `${service.baseUrl}/healthz` })
      return json.checks.crl.status === 'ok' && json.checks.crl
    })
    assert.equal(stale, false)
  })
})
