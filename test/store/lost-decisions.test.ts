/** Lost decisions are taken for an alarm (docs/decisions/decisions-outlive-the-database.md). */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type Database, openDatabase } from '../../src/store/database.ts'
import { createDecisionStore } from '../../src/store/decision-store.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { settingsFor } from './support.ts'

const MINUTE_MS = 60_000

describe('a lost decision', () => {
  let database: TestDatabase
  let db: Database
  before(async () => {
    database = await testDatabase()
    db = openDatabase(settingsFor(database.connection, 1), () => undefined)
  })
  after(async () => {
    await db?.close()
    await database?.drop()
  })

  test('is left, with all older ones, while one was found lately; else all are taken once', async () => {
    const decisions = createDecisionStore(db)
    const ids = [1, 2].map((last) => `0199a4f2-0b11-7c44-8d5e-6f7a8b9c0d0${last}`)
    for (const id of ids) {
      const decision = { id, at: '2026-03-01T21:04:11.000Z', by: 'alice', act: 'user.create' } as const
      await decisions.noteLost([{ decision: { ...decision, details: { username: id } }, outcome: 'lost' }], null)
      if (id === ids[0])
        await db.query({ name: 'older', text: "UPDATE lost_decisions SET found_at = now() - interval '1 hour'" }, [])
    }
    const taken = async (minAgeMs: number) => (await decisions.takeUntold(minAgeMs)).map((one) => one.id)
    assert.deepEqual(await taken(MINUTE_MS), [])
    assert.deepEqual(await taken(0), ids)
    assert.deepEqual(await taken(0), [])
  })
})
