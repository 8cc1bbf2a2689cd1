/** The primary dies and the replica takes its place: with all that was committed, or without the last seconds. */

import { type Decided, readDecided, undoneIn, untoldIn } from '../acts/decided.ts'
import type { DatabaseNode, Databases } from '../databases.ts'
import type { Finding } from '../finding.ts'
import type { Stand } from '../stand.ts'
import { until } from '../waiting.ts'
import type { Begun, Checked, Kinds } from './kind.ts'

const decidedIn = (databases: Databases, node?: DatabaseNode) => readDecided((text) => databases.ask(text, [], node))

/** A death of the primary, and what its replica knew of all that was decided until then. */
interface Death {
  at: number
  replica: Decided
}

async function takeOver({ databases }: Stand): Promise<Death> {
  await databases.primary.part.kill()
  const at = Date.now()
  const replica = await decidedIn(databases, databases.replica)
  await databases.promote()
  return { at, replica }
}

/** Compares the new primary with the former one, which ended when nothing was under way. */
async function compare({ databases }: Stand, { at, replica }: Death, withinMs: number): Promise<Checked> {
  const former = await databases.withFormer((node) => decidedIn(databases, node))
  // An administrator has resumed signing since.
  const was = { ...former, permits: new Set(former.permits).add('signs') }
  const ended = undoneIn(replica, was)
  const gone = untoldIn(replica, was)
  let [undone, untold] = [ended, gone]
  const isWhole = async () => {
    const now = await decidedIn(databases)
    // Permissions that clients have obtained since are no trouble.
    const permits = new Set([...now.permits].filter((line) => replica.permits.has(line)))
    undone = undoneIn({ ...now, permits }, was)
    untold = untoldIn(now, was)
    return undone.length + untold.length === 0
  }
  // Anything still at odds then is a finding.
  await until('all is in force or told', isWhole, withinMs).catch(() => undefined)
  const findings: Finding[] = [
    ...undone.map((what) => ({ trouble: 'undone' as const, at, what })),
    ...untold.map((id) => ({ trouble: 'untold' as const, at, what: `nobody is told of ${id}` })),
  ]
  return { findings, restored: ended.length - undone.length, told: gone.length - untold.length }
}

/** A new replica from the new primary. */
function promotion(stand: Stand, make: () => Promise<void>): Begun {
  let death: Death | undefined
  return {
    target: stand.databases.replica.part.name,
    async end() {
      death = await takeOver(stand)
      await make()
    },
    check: (withinMs) => compare(stand, death!, withinMs),
    repair: () => stand.databases.rebuildReplica(),
  }
}

export const PROMOTION_KINDS: Kinds = {
  'promote-synchronous': {
    about: 'kill -9 of the primary, and promotion of a replica that commits had waited for',
    lasts: [2, 6],
    promotes: true,
    async begin(stand) {
      await stand.databases.setSynchronous(true)
      return promotion(stand, async () => undefined)
    },
  },
  'promote-asynchronous': {
    about: 'promotion of a replica that had heard nothing for seconds: the database goes back in time',
    lasts: [3, 20],
    goesBack: true,
    promotes: true,
    begin(stand) {
      const { replication } = stand.links
      for (const link of replication) link.set('cut')
      return promotion(stand, async () => {
        for (const link of replication) link.set('whole')
      })
    },
  },
}
