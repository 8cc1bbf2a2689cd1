/** The primary dies and the replica takes its place: with all that was committed, or without the last seconds. */

import type { Stand } from '../stand.ts'
import type { Begun, Kinds } from './kind.ts'

/** A new replica from the new primary. */
async function takeOver({ databases }: Stand): Promise<void> {
  await databases.primary.part.kill()
  await databases.promote()
}

export const PROMOTION_KINDS: Kinds = {
  'promote-synchronous': {
    about: 'kill -9 of the primary, and promotion of a replica that commits had waited for',
    lasts: [2, 6],
    async begin(stand): Promise<Begun> {
      await stand.databases.setSynchronous(true)
      return {
        target: stand.databases.replica.part.name,
        end: () => takeOver(stand),
        repair: () => stand.databases.rebuildReplica(),
      }
    },
  },
  'promote-asynchronous': {
    about: 'promotion of a replica that had heard nothing for seconds: the database goes back in time',
    lasts: [3, 20],
    goesBack: true,
    begin(stand): Begun {
      const { databases, links } = stand
      for (const link of links.replication) link.set('cut')
      return {
        target: databases.replica.part.name,
        async end() {
          await takeOver(stand)
          for (const link of links.replication) link.set('whole')
        },
        repair: () => databases.rebuildReplica(),
      }
    },
  },
}
