/** Clocks that jump by an hour, both ways, and back again. */

import { hasClockLibrary, setClock } from '../clock-files.ts'
import type { Chance } from '../random.ts'
import type { Stand } from '../stand.ts'
import type { Kind, Kinds } from './kind.ts'

const HOUR = 3_600

interface Clock {
  target: string
  file: string
}

const CLOCKS = {
  instance: ({ clocks, instances }, chance) => {
    const who = chance.whole(2)
    return { target: instances[who]!.part.name, file: clocks.instances[who]! }
  },
  signer: ({ clocks, signer }) => ({ target: signer.name, file: clocks.signer }),
  database: ({ clocks }) => ({ target: 'PostgreSQL', file: clocks.database }),
} satisfies Record<string, (stand: Stand, chance: Chance) => Clock>

const jumped = (what: keyof typeof CLOCKS, seconds: number): Kind => ({
  about: `the clock of the ${what} jumps ${seconds > 0 ? 'an hour ahead' : 'back by an hour'}, and is right again`,
  lasts: [5, 20],
  impossible: !hasClockLibrary ? 'needs libfaketime (Debian: faketime)' : undefined,
  begin(stand, chance) {
    const { target, file } = CLOCKS[what](stand, chance)
    setClock(file, seconds)
    return { target, end: () => setClock(file, 0) }
  },
})

export const CLOCK_KINDS: Kinds = Object.fromEntries(
  (Object.keys(CLOCKS) as (keyof typeof CLOCKS)[]).flatMap((what) => [
    [`clock-${what}-ahead`, jumped(what, HOUR)],
    [`clock-${what}-behind`, jumped(what, -HOUR)],
  ]),
)
