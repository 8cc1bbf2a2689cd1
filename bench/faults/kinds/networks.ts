/** Connections that fail: links that are cut, slow, or silent, and TLS certificates that have expired. */

import { writeFileSync } from 'node:fs'
import type { Link, LinkState } from '../link.ts'
import type { Chance } from '../random.ts'
import type { Stand } from '../stand.ts'
import type { Begun, Kind, Kinds } from './kind.ts'

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

/** Connections that are open need no certificate any more. */
const END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'chancery'"

async function presentByDatabase({ databases }: Stand, expired: boolean): Promise<void> {
  databases.writeCertificate(expired)
  for (const { part } of databases.nodes) part.reload()
  await databases.ask(END_SESSIONS)
}

const CERTIFICATE_KINDS: Kinds = {
  'expired-database-certificate': {
    about: 'the certificate of PostgreSQL has expired; sessions begin anew',
    lasts: [3, 15],
    async begin(stand): Promise<Begun> {
      await presentByDatabase(stand, true)
      return { target: 'PostgreSQL', end: () => presentByDatabase(stand, false) }
    },
  },
  'expired-instance-certificate': {
    about: 'the certificate of an instance has expired; the balancer refuses it',
    lasts: [3, 15],
    async begin({ instances }, chance): Promise<Begun> {
      const { part, key, certificateFile } = instances[chance.whole(2)]!
      // Files of one's own are read at the start.
      const present = async (certificate: string) => {
        writeFileSync(certificateFile, certificate)
        await part.stop()
        part.start()
      }
      await present(key.expired)
      return { target: part.name, end: () => present(key.certificate) }
    },
  },
}

export const NETWORK_KINDS: Kinds = {
  ...ofAll('cut', 'cut'),
  ...ofAll('slow', 'slow'),
  ...ofAll('halfopen', 'silent'),
  ...CERTIFICATE_KINDS,
}
