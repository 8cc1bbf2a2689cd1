/** A primary that falls silent while another server is promoted: every kind of session moves, long before its time-out. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { DatabasePool } from 'slonik'
import { z } from 'zod/v4'
import { type Database, openDatabase } from '../../src/store/database.ts'
import { announceInstance, type InstancePresence } from '../../src/store/instance-presence.ts'
import { migrate } from '../../src/store/schema/migrate.ts'
import { openCheckedDatabase, sql } from '../../src/store/slonik.ts'
import { type DatabasePair, startDatabasePair } from '../support/databases/database-pair.ts'
import { openSilentNetwork, type SilentNetwork } from '../support/databases/silent-network.ts'
import { WAIT_MS } from '../support/patience.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { settingsFor } from './support.ts'

/** Of statements; nothing may wait for it, but the driver's timer at the end of the file. */
const TIMEOUT_MS = WAIT_MS / 4

describe('a primary that is cut off', () => {
  const folder = temporaryFolder()
  let pair: DatabasePair
  let network: SilentNetwork
  let db: Database
  let checked: DatabasePool
  let presence: InstancePresence
  before(async () => {
    pair = await startDatabasePair()
    const { connection } = pair.primary
    network = await openSilentNetwork({ hosts: [connection.host], port: connection.port }, folder)
    await migrate({ ...settingsFor(connection), statementTimeoutMs: 0 })
    const settings = {
      ...settingsFor(connection),
      hosts: [...network.address.hosts, pair.standby.connection.host],
      connectionTimeoutMs: TIMEOUT_MS,
      statementTimeoutMs: TIMEOUT_MS,
    }
    db = openDatabase(settings, () => undefined)
    checked = await openCheckedDatabase(settings)
    presence = await announceInstance(settings, () => undefined)
  })
  after(async () => {
    await presence?.close()
    await checked?.end()
    await db?.close()
    await network?.close()
    await pair?.stop()
  })

  const ASK = { name: 'started', text: 'SELECT pg_postmaster_start_time()::text AS started' }
  const STARTED = z.object({ started: z.string() })
  type Started = z.infer<typeof STARTED>

  /** Of each kind, by when it was started, the server that it leads to. */
  const ways: Record<string, () => Promise<Started | undefined>> = {
    query: async () => (await db.query<Started>(ASK, []))[0],
    group: async () => (await db.pipeline.run<Started>(ASK, []))[0],
    transaction: () => db.transaction(async (tx) => (await tx.query<Started>(ASK, []))[0]),
    slonik: () => checked.one({ ...sql.type(STARTED)``, sql: ASK.text }),
  }
  const lead = () => presence.lead('cleanup', async () => undefined)

  test('keeps no session: whoever waits on one is told, and the next ones begin on the promoted server', async () => {
    const former = (await ways['query']?.())?.started
    for (const [name, ask] of Object.entries(ways)) assert.equal((await ask())?.started, former, name)
    assert.equal(await lead(), true)
    network.silence({ isForGood: true })
    // What runs on a session fails with it; what still waits for one may get one on the other server.
    const hanging = Promise.allSettled([...Object.values(ways), lead].map((work) => work()))
    await pair.promote()
    const promoted = performance.now()
    await hanging
    for (const [name, ask] of Object.entries(ways))
      await until(name, async () => {
        const answer = await ask().catch(() => undefined)
        return answer !== undefined && answer.started !== former
      })
    await until('a leader', () => lead().catch(() => false))
    const movedMs = performance.now() - promoted
    console.log(`all sessions have moved ${movedMs.toFixed(0)} ms after the promotion`)
    assert.ok(movedMs < TIMEOUT_MS)
  })
})
