/** The table of faults: what each does to the stand, and how it ends. */

import type { Part } from './part.ts'
import type { Chance } from './random.ts'
import type { Stand } from './stand.ts'

export interface Kind {
  /** One sentence for `--list`. */
  about: string
  /** How long it lasts, in seconds; chance chooses. */
  lasts: readonly [from: number, to: number]
  /** Begins it on the stand, and returns what ends it. */
  begin(stand: Stand, chance: Chance): Begun | Promise<Begun>
}

export interface Begun {
  /** What it was done to. */
  target: string
  end(): void | Promise<void>
}

/** A part by its role; where there are several, chance chooses. */
const ROLES = {
  instance: (stand, chance) => stand.instances[chance.whole(2)]!.part,
  signer: ({ signer }) => signer,
  primary: ({ databases }) => databases.primary.part,
  replica: ({ databases }) => databases.replica.part,
  balancer: ({ balancer }) => balancer,
  resolver: ({ resolver }) => resolver,
  mail: ({ mail }) => mail,
  webhook: ({ webhook }) => webhook,
} satisfies Record<string, (stand: Stand, chance: Chance) => Part>

const SHORT = [1, 6] as const

function killed(role: keyof typeof ROLES): Kind {
  return {
    about: `kill -9 of the ${role}, and started again`,
    lasts: SHORT,
    async begin(stand, chance) {
      const part = ROLES[role](stand, chance)
      await part.kill()
      return { target: part.name, end: () => part.start() }
    },
  }
}

function frozen(role: keyof typeof ROLES): Kind {
  return {
    about: `SIGSTOP of the ${role}, then SIGCONT`,
    lasts: [2, 12],
    begin(stand, chance) {
      const part = ROLES[role](stand, chance)
      part.freeze()
      return { target: part.name, end: () => part.thaw() }
    },
  }
}

function restarted(role: keyof typeof ROLES): Kind {
  return {
    about: `SIGTERM to the ${role}, and started again when it has ended`,
    lasts: [0, 0],
    async begin(stand, chance) {
      const part = ROLES[role](stand, chance)
      await part.stop()
      part.start()
      return { target: part.name, end: () => undefined }
    },
  }
}

const roles = Object.keys(ROLES) as (keyof typeof ROLES)[]
const of = (verb: string, make: (role: keyof typeof ROLES) => Kind) =>
  Object.fromEntries(roles.map((role) => [`${verb}-${role}`, make(role)]))

export const KINDS: Readonly<Record<string, Kind>> = {
  ...of('kill', killed),
  ...of('stop', frozen),
  ...of('restart', restarted),
}
