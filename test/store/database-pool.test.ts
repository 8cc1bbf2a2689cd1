/** How many connections a pool keeps (`database.min_connections`). */

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { openDatabase } from '../../src/store/database.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { settingsFor } from './support.ts'

const IDLE_MS = 50

let own: TestDatabase
before(async () => {
  own = await testDatabase()
})
after(() => own.drop())

/** @returns the size of the pool long after it had four connections */
async function sizeAfterBurst(minConnections: number | undefined): Promise<number> {
  const settings = { ...settingsFor(own.connection, 4), idleTimeoutMs: IDLE_MS }
  const database = openDatabase({ ...settings, ...(minConnections !== undefined && { minConnections }) }, assert.fail)
  try {
    const pause = { name: 'pause', text: 'SELECT pg_sleep(1)' }
    const burst = Promise.all(Array.from({ length: 4 }, () => database.query(pause, [])))
    await until('four connections', () => database.pressure().size === 4)
    await burst
    await until(`${minConnections ?? 0} connections`, () => database.pressure().size === (minConnections ?? 0))
    await sleep(10 * IDLE_MS)
    return database.pressure().size
  } finally {
    await database.close()
  }
}

test('idle connections are closed', async () => assert.equal(await sizeAfterBurst(undefined), 0))

test('down to the number that is kept', async () => assert.equal(await sizeAfterBurst(2), 2))
