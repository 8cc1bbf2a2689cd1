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

  test('found now is left by an instance that waits for others, and taken once by one that does not', async () => {
    const decisions = createDecisionStore(db)
    const id = '0199a4f2-0b11-7c44-8d5e-6f7a8b9c0d01'
    const decision = { id, at: '2026-03-01T21:04:11.000Z', by: 'alice', act: 'user.create', details: {} } as const
    await decisions.noteLost([{ decision: { ...decision, details: { username: 'bob' } }, outcome: 'lost' }], null)
    assert.deepEqual(await decisions.takeUntold(MINUTE_MS), [])
    assert.deepEqual(
      (await decisions.takeUntold(0)).map((one) => one.id),
      [id],
    )
    assert.deepEqual(await decisions.takeUntold(0), [])
  })
})
