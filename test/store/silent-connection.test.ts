/** Connections that fall silent while their server leads, as behind a firewall that has lost its state: each wait has a bound. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { DatabasePool } from 'slonik'
import { type Database, type DatabaseSettings, openDatabase } from '../../src/store/database.ts'
import { openCheckedDatabase, sql } from '../../src/store/slonik.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { openSilentNetwork, type SilentNetwork } from '../support/databases/silent-network.ts'
import { until } from '../support/until.ts'
import { settingsFor } from './support.ts'

const CONNECTIONS = 2

describe('a connection that falls silent', () => {
  let own: TestDatabase
  let network: SilentNetwork
  let db: Database
  let checked: DatabasePool
  before(async () => {
    own = await testDatabase()
    const direct = settingsFor(own.connection, CONNECTIONS)
    network = await openSilentNetwork(direct)
    const limits = { statementTimeoutMs: 300, connectionTimeoutMs: 300 }
    const settings: DatabaseSettings = { ...direct, ...network.address, ...limits }
    db = openDatabase(settings, () => undefined)
    checked = await openCheckedDatabase(settings)
  })
  after(async () => {
    await checked?.end()
    await db?.close()
    await network?.close()
    await own?.drop()
  })

  const NUMBER = { name: 'number', text: 'SELECT 1 AS number' }
  const ways: Record<string, () => Promise<unknown>> = {
    query: () => db.query(NUMBER, []),
    group: () => db.pipeline.run(NUMBER, []),
    transaction: () => db.transaction((tx) => tx.query(NUMBER, [])),
    slonik: () => checked.any(sql.unsafe`SELECT 1 AS number`),
    'transaction of slonik': () => checked.transaction((tx) => tx.any(sql.unsafe`SELECT 1 AS number`)),
  }

  for (const [name, ask] of Object.entries(ways))
    test(`fails what waits on it, and frees its place: ${name}`, async () => {
      for (let round = 0; round <= CONNECTIONS; round++) {
        // The pool may have another silent one.
        await until('an answer', () => ask().then(Boolean, () => false))
        network.silence()
        await assert.rejects(ask)
      }
      await until('an answer', () => ask().then(Boolean, () => false))
    })
})

const LONG = sql.unsafe`SELECT repeat('x', 10000) AS long`

test('a session of slonik keeps no result: a race against its end would keep all of them until then', async () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const own = await testDatabase()
  const checked = await openCheckedDatabase(settingsFor(own.connection, 1))
  try {
    await checked.any(LONG)
    collect()
    const before = process.memoryUsage().heapUsed
    for (let done = 0; done < 2_000; done++) await checked.any(LONG)
    collect()
    const kept = process.memoryUsage().heapUsed - before
    assert.ok(kept < 10_000 * 500, `${kept} bytes of 20,000,000 are kept`)
  } finally {
    await checked.end()
    await own.drop()
  }
})
