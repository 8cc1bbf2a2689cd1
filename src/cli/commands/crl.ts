/**
 * `chancery crl rebuild`: requests new lists from the running service and waits for their
 * publication.
 */

import type { Config } from '../../config/schema.ts'
import { crlName } from '../../domain/crl-shard.ts'
import { type CrlStore, createCrlStore, type PublishedCrl } from '../../store/crl-store.ts'
import type { Statement } from '../../store/database.ts'
import { withDatabase } from './operator-database.ts'

const LIVE: Statement = { name: 'live-instances', text: 'SELECT id FROM live_instances() AS id LIMIT 1' }
/** A list of millions of entries takes a minute, and a build under way ends first. */
const WAIT_MS = 300_000
const LOOK_MS = 200
/** Short lists are ready before this, so no message is needed. */
const PATIENCE_MS = 2_000

/**
 * @returns 0 when all lists are new
 * @throws Error in a plain sentence when no service builds them
 */
export async function rebuildCrls(config: Config): Promise<number> {
  if (!config.crl.enabled) throw new Error('crl.enabled is false: there is no CRL to rebuild')
  return withDatabase(config, async (db) => {
    const store = createCrlStore(db)
    const requestedAt = await store.requestRebuild()
    if ((await db.query(LIVE, [])).length === 0) {
      throw new Error('no service is running on this database; the first one that starts builds the CRL')
    }
    for (const crl of await newLists(store, requestedAt)) {
      console.log(`CRL ${crlName(crl.issuerId, crl)}: number ${crl.number}, ${crl.entries} entries, ${crl.bytes} bytes`)
      console.log(`  from ${crl.thisUpdate.toISOString()} to ${crl.nextUpdate.toISOString()}`)
    }
    return 0
  })
}

/** Waits for all lists with a current validity; an expired list belongs to a removed issuer. */
async function newLists(store: CrlStore, requestedAt: Date): Promise<PublishedCrl[]> {
  const startedAt = performance.now()
  const told = createStory()
  for (;;) {
    const lists = (await store.published()).filter(({ nextUpdate }) => nextUpdate > requestedAt)
    if (lists.length > 0 && lists.every((list) => list.startedAt > requestedAt)) return lists
    const waitedMs = performance.now() - startedAt
    const obstacle = await store.obstacle()
    if (waitedMs > WAIT_MS)
      throw new Error(`the CRL was not rebuilt in time: ${obstacle ?? 'see the log of the service'}`)
    if (waitedMs > PATIENCE_MS) told.waiting()
    if (obstacle !== undefined) told.obstacle(obstacle)
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  }
}

/** Messages for the operator on standard error, each printed once. */
function createStory() {
  let isWaitingTold = false
  let toldObstacle: string | undefined
  const waiting = () => {
    if (isWaitingTold) return
    isWaitingTold = true
    const minutes = WAIT_MS / 60_000
    process.stderr.write(`waiting for the new CRL, up to ${minutes} minutes; the request stands when this is ended\n`)
  }
  return {
    waiting,
    obstacle(obstacle: string) {
      if (obstacle === toldObstacle) return
      toldObstacle = obstacle
      process.stderr.write(`no CRL yet: ${obstacle}; the service goes on trying\n`)
      waiting()
    },
  }
}
