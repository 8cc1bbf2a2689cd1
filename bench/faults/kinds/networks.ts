/** Links that are cut, slow, or silent. */

import type { Link, LinkState } from '../link.ts'
import type { Chance } from '../random.ts'
import type { Stand } from '../stand.ts'
import type { Kind, Kinds } from './kind.ts'

interface Way {
  target: string
  links: readonly Link[]
}

/** Between two, or all that lead to one. */
const WAYS = {
  database: (stand, chance) => ofInstances(chance, (who) => stand.links.database[who]),
  signer: (stand, chance) => ofInstances(chance, (who) => [stand.links.signer[who]]),
  clients: ({ links }) => ({ target: 'all clients', links: [links.clients] }),
} satisfies Record<string, (stand: Stand, chance: Chance) => Way>

type WayName = keyof typeof WAYS

/** Chooses the links of one instance, or of both. */
function ofInstances(chance: Chance, linksOf: (who: 0 | 1) => readonly Link[]): Way {
  const who = chance.whole(3)
  if (who === 2) return { target: 'both instances', links: [...linksOf(0), ...linksOf(1)] }
  return { target: `instance ${who}`, links: linksOf(who as 0 | 1) }
}

const ABOUT: Record<WayName, string> = {
  database: 'an instance, or both, and PostgreSQL',
  signer: 'an instance, or both, and the signer',
  clients: 'clients and the balancer',
}

const disturbed = (state: Exclude<LinkState, 'whole'>, way: WayName): Kind => ({
  about: `the network between ${ABOUT[way]} is ${state === 'silent' ? 'half-open' : state}`,
  lasts: [2, 15],
  begin(stand, chance) {
    const { target, links } = WAYS[way](stand, chance)
    for (const link of links) link.set(state)
    return {
      target,
      end() {
        for (const link of links) link.set('whole')
      },
    }
  },
})

const ways = Object.keys(WAYS) as WayName[]
const ofAll = (verb: string, state: Exclude<LinkState, 'whole'>): Kinds =>
  Object.fromEntries(ways.map((way) => [`${verb}-${way}`, disturbed(state, way)]))

export const NETWORK_KINDS: Kinds = {
  ...ofAll('cut', 'cut'),
  ...ofAll('slow', 'slow'),
  ...ofAll('halfopen', 'silent'),
}
