/** Checks of the audit log's chain as jobs: how far they are, one at a time, and what becomes of one whose instance ends. */

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, beforeEach, describe, test } from 'node:test'
import { AuditLog } from '../../src/admin/audit/audit-log.ts'
import { AuditVerifications } from '../../src/admin/audit/audit-verification.ts'
import type { AdminError } from '../../src/domain/admin-error.ts'
import { type DatabasePool, openCheckedDatabase } from '../../src/store/slonik.ts'
import { settingsFor } from '../store/support.ts'
import { rowsIn, type TestDatabase, testDatabase } from '../support/database.ts'
import { withQuery } from '../support/revoked.ts'
import { until } from '../support/until.ts'

const KEY = Buffer.alloc(32, 7)
const AUTHOR = { userId: undefined, ipAddress: '192.0.2.1', operator: 'root' }
/** Three pages. */
const ENTRIES = 1_200

describe('a check of the audit log', () => {
  let database: TestDatabase
  let db: DatabasePool
  let told: unknown[]
  before(async () => {
    database = await testDatabase()
    db = await openCheckedDatabase(settingsFor(database.connection, 4))
    const audit = new AuditLog(db, KEY)
    await audit.transaction(AUTHOR, async (_tx, note) => {
      for (let i = 0; i < ENTRIES; i++) note('maintenance.set', { i })
    })
  })
  after(async () => {
    await db.end()
    await database.drop()
  })
  beforeEach(async () => {
    told = []
    await rowsIn(database, 'TRUNCATE audit_verifications')
  })

  const instance = (options: { key?: () => Buffer } = {}) =>
    new AuditVerifications({
      db,
      key: () => KEY,
      rests: false,
      events: { failed: (error) => void told.push(error) },
      ...options,
    })
  const endOf = (jobs: AuditVerifications, id: string) =>
    until('the check has ended', async () => {
      const job = await jobs.find(id)
      return job.status === 'running' ? undefined : job
    })

  test('ends with its verdict, which any instance can tell', async () => {
    const jobs = instance()
    const begun = await jobs.begin([])
    assert.deepEqual([begun.status, begun.checked, begun.verdict], ['running', 0, null])
    const ended = await endOf(instance(), begun.id)
    assert.deepEqual([told, ended.status, ended.checked, ended.total], [[], 'done', ENTRIES, ENTRIES])
    assert.deepEqual([ended.verdict?.entries, ended.verdict?.faults, ended.failure], [ENTRIES, [], null])
    assert.deepEqual(told, [])
  })

  test('tells what a fail-over lost and was written back, under its seal', async () => {
    const details = { sequence: 7, at: '2026-03-01T21:04:12.000Z' }
    await new AuditLog(db, KEY).record(AUTHOR, 'database.lost_entry', details)
    const jobs = instance()
    const ended = await endOf(jobs, (await jobs.begin([])).id)
    assert.deepEqual([ended.status, ended.verdict?.written_back?.entries], ['done', 1])
    assert.match(String(ended.verdict?.written_back?.spans), /^entry 7, of 2026-03-01 21:04:12 UTC, was lost/)
  })

  test('that runs lets no second one begin, at any instance', async () => {
    // A check of 1,200 entries can end before the third instance asks: it reads none while they do.
    const begun = await withQuery(database.connection, async (query) => {
      await query('BEGIN')
      await query('LOCK TABLE admin_audit_log IN ACCESS EXCLUSIVE MODE')
      return Promise.allSettled([instance().begin([]), instance().begin([]), instance().begin([])])
    })
    const [first] = begun.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    const refusals = begun.flatMap((one) => (one.status === 'rejected' ? [(one.reason as AdminError).code] : []))
    assert.deepEqual(refusals, ['conflict', 'conflict'])
    const { status } = await endOf(instance(), first?.id ?? '')
    assert.equal(status, 'done')
  })

  test('whose instance is stopped has failed, and says so', async () => {
    const jobs = instance()
    const { id } = await jobs.begin([])
    await jobs.stop()
    const { status, failure, finished_at } = await jobs.find(id)
    assert.deepEqual([status, failure], ['failed', 'the instance that checked was stopped'])
    assert.ok(finished_at)
    assert.equal(told.length, 1)
  })

  test('whose instance was killed has failed after half a minute', async () => {
    const id = randomUUID()
    await rowsIn(database, `INSERT INTO audit_verifications (id) VALUES ('${id}')`)
    assert.equal((await instance().find(id)).status, 'running')
    await rowsIn(database, "UPDATE audit_verifications SET progressed_at = now() - interval '31 seconds'")
    const { status, failure } = await instance().find(id)
    assert.deepEqual([status, failure], ['failed', 'the process that checked has ended'])
    await endOf(instance(), (await instance().begin([])).id)
  })

  for (const [what, change] of [
    ['faults', `verdict = jsonb_set(verdict, '{faults}', '["entry 1 is missing"]')`],
    ['time', "finished_at = now() + interval '1 day'"],
    [
      'status',
      'status = \'done\', verdict = \'{"entries": 2, "head": "2:00", "cut_sequence": 0, "faults": []}\', seal = NULL',
    ],
  ] as const)
    test(`whose stored ${what} the owner of the database has changed tells no verdict`, async () => {
      const jobs = instance()
      const { id } = await jobs.begin([])
      assert.ok((await endOf(jobs, id)).verdict)
      await rowsIn(database, `UPDATE audit_verifications SET ${change}`)
      const { status, verdict, failure } = await jobs.find(id)
      assert.deepEqual([status, verdict, failure], ['failed', null, 'its stored result was changed'])
      assert.deepEqual((await jobs.list(1))[0]?.verdict, null)
    })

  test('is kept beside the nineteen before it', async () => {
    await rowsIn(
      database,
      `INSERT INTO audit_verifications (id, status)
       SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'done' FROM generate_series(1, 25) n`,
    )
    const jobs = instance()
    const { id } = await jobs.begin([])
    const kept = await jobs.list(100)
    assert.deepEqual([kept.length, kept[0]?.id, kept[19]?.id.slice(-2)], [20, id, '07'])
    await endOf(jobs, id)
  })

  test('without a key of the chain does not begin', async () => {
    const jobs = instance({
      key: () => {
        throw new Error('there is no key')
      },
    })
    await assert.rejects(jobs.begin([]), /there is no key/)
    assert.deepEqual(await jobs.list(1), [])
  })
})
