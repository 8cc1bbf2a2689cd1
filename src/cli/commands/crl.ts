/**
 * `chancery crl rebuild`: requests new lists from the running service and waits for their
 * publication.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../../config/schema.ts'
import { crlName } from '../../domain/crl-shard.ts'
import { CrlLists, type CrlStatus } from '../../services/admin/crl-lists.ts'
import { staleCrlAfterMs } from '../../settings/issuance.ts'
import { queriesOf } from '../../store/slonik.ts'
import { withAdministration } from './administration.ts'

const LIVE = { name: 'live-instances', text: 'SELECT id FROM live_instances() AS id LIMIT 1' }
/** A list of millions of entries takes a minute, and a build under way ends first. */
const WAIT_MS = 300_000
const LOOK_MS = 200
/** Short lists are ready before this, so no message is needed. */
const NOTICE_AFTER_MS = 2_000

/**
 * @returns 0 when all lists are new
 * @throws AdminError, or Error in a plain sentence when no service builds them
 */
export async function rebuildCrls(config: Config, { json }: { json: boolean }): Promise<number> {
  return withAdministration(config, async ({ db, audit, actor }) => {
    const crls = new CrlLists({ db, audit, staleAfterMs: staleCrlAfterMs(config) })
    const requestedAt = await crls.request(actor)
    if ((await queriesOf(db).query(LIVE, [])).length === 0)
      throw new Error('no service is running on this database; the first one that starts builds the CRL')
    const { lists } = await newLists(crls, requestedAt)
    for (const crl of lists) {
      const facts = {
        crl: crlName(crl.issuerId, crl),
        number: String(crl.number),
        entries: crl.entries,
        bytes: crl.bytes,
      }
      const [from, to] = [crl.thisUpdate.toISOString(), crl.nextUpdate.toISOString()]
      if (json) console.log(JSON.stringify({ ...facts, this_update: from, next_update: to }))
      else
        console.log(
          `CRL ${facts.crl}: number ${facts.number}, ${facts.entries} entries, ${facts.bytes} bytes\n  from ${from} to ${to}`,
        )
    }
    return 0
  })
}

async function newLists(crls: CrlLists, requestedAt: Date): Promise<CrlStatus> {
  const startedAt = performance.now()
  const notices = new OperatorNotices()
  for (;;) {
    if (await crls.areNew(requestedAt)) return crls.status()
    const waitedMs = performance.now() - startedAt
    const { obstacle } = await crls.status()
    if (waitedMs > WAIT_MS)
      throw new Error(`the CRL was not rebuilt in time: ${obstacle ?? 'see the log of the service'}`)
    if (waitedMs > NOTICE_AFTER_MS) notices.waiting()
    if (obstacle !== undefined) notices.obstacle(obstacle)
    await sleep(LOOK_MS)
  }
}

/** Messages for the operator on standard error, each printed once. */
class OperatorNotices {
  #isWaitingPrinted = false
  #printedObstacle: string | undefined

  waiting(): void {
    if (this.#isWaitingPrinted) return
    this.#isWaitingPrinted = true
    const minutes = WAIT_MS / 60_000
    process.stderr.write(`waiting for the new CRL, up to ${minutes} minutes; the request stands when this is ended\n`)
  }

  obstacle(obstacle: string): void {
    if (obstacle === this.#printedObstacle) return
    this.#printedObstacle = obstacle
    process.stderr.write(`no CRL yet: ${obstacle}; the service goes on trying\n`)
    this.waiting()
  }
}
