/** Parts that are killed, stand still, or restart. */

import type { Part } from '../part.ts'
import type { Chance } from '../random.ts'
import type { Stand } from '../stand.ts'
import type { Kind, Kinds } from './kind.ts'

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

type Role = keyof typeof ROLES

const killed = (role: Role): Kind => ({
  about: `kill -9 of the ${role}; another process takes its place`,
  lasts: [1, 6],
  async begin(stand, chance) {
    const part = ROLES[role](stand, chance)
    await part.kill()
    return { target: part.name, end: () => part.start() }
  },
})

const frozen = (role: Role): Kind => ({
  about: `SIGSTOP of the ${role}, then SIGCONT`,
  lasts: [2, 12],
  begin(stand, chance) {
    const part = ROLES[role](stand, chance)
    part.freeze()
    return { target: part.name, end: () => part.thaw() }
  },
})

const restarted = (role: Role): Kind => ({
  about: `SIGTERM to the ${role}, and started again when it has ended`,
  lasts: [0, 0],
  async begin(stand, chance) {
    const part = ROLES[role](stand, chance)
    await part.stop()
    part.start()
    return { target: part.name, end: () => undefined }
  },
})

const roles = Object.keys(ROLES) as Role[]
const ofAll = (verb: string, make: (role: Role) => Kind): Kinds =>
  Object.fromEntries(roles.map((role) => [`${verb}-${role}`, make(role)]))

export const PROCESS_KINDS: Kinds = {
  ...ofAll('kill', killed),
  ...ofAll('stop', frozen),
  ...ofAll('restart', restarted),
}
