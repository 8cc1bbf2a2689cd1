/**
 * A machine withholds something: memory, a free byte on a disk, the right time, or the token with the issuer's key.
 *
 * The kernel ends a process that asks for more memory than its control group has (version 1 or 2). Clocks jump by an hour,
 * both ways, and back again.
 */

import { existsSync, mkdirSync, renameSync, rmdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { familyOf } from '../../measure/server-cpu.ts'
import { hasClockLibrary, setClock } from '../clock-files.ts'
import type { Disk } from '../disks.ts'
import type { Part } from '../part.ts'
import type { Chance } from '../random.ts'
import type { Stand } from '../stand.ts'
import { SOFTHSM } from '../token.ts'
import type { Kind, Kinds } from './kind.ts'

const VERSIONS = [
  { top: '/sys/fs/cgroup/memory', limit: 'memory.limit_in_bytes' },
  { top: '/sys/fs/cgroup', limit: 'memory.max' },
]
const version = VERSIONS.find(({ top, limit }) => existsSync(path.join(top, 'cgroup.procs')) && isWritable(top, limit))

const KILOBYTE = 2 ** 10
/** A process may take so much more. Pages that it has already count for the group it comes from. */
const MORE_KILOBYTES = { instance: 4_096, primary: 4_096, signer: 128 }

function isWritable(top: string, limit: string): boolean {
  const folder = path.join(top, `chancery-faults-${process.pid}`)
  try {
    mkdirSync(folder)
    const isThere = existsSync(path.join(folder, limit))
    rmdirSync(folder)
    return isThere
  } catch {
    // Not root, or the control groups are somebody else's.
    return false
  }
}

const limited = (role: keyof typeof MORE_KILOBYTES, partOf: (stand: Stand, chance: Chance) => Part): Kind => ({
  about: `the ${role} gets no more than ${MORE_KILOBYTES[role]} kB of further memory`,
  lasts: [3, 15],
  impossible: version ? undefined : 'needs a memory control group that may be written',
  mayEnd: true,
  begin(stand, chance) {
    const part = partOf(stand, chance)
    const { top, limit } = version!
    const folder = path.join(top, `chancery-faults-${process.pid}-${role}`)
    mkdirSync(folder, { recursive: true })
    writeFileSync(path.join(folder, limit), String(MORE_KILOBYTES[role] * KILOBYTE))
    move(part, folder)
    return {
      target: part.name,
      end: () => move(part, top),
      // The processes that it had started are gone by then, and the group is empty.
      repair: async () => rmdirSync(folder),
    }
  },
})

/** Moves a part with all that it has started. */
function move({ pid }: Part, folder: string): void {
  if (pid === undefined) return
  for (const { pid: one } of familyOf(pid)) {
    try {
      writeFileSync(path.join(folder, 'cgroup.procs'), String(one))
    } catch (error) {
      // It has ended meanwhile.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
}

const MEMORY_KINDS: Kinds = {
  'memory-instance': limited('instance', ({ instances }, chance) => instances[chance.whole(2)]!.part),
  'memory-signer': limited('signer', ({ signer }) => signer),
  'memory-primary': limited('primary', ({ databases }) => databases.primary.part),
}

const DISKS = {
  database: ({ databases, disks }) => disks.database[databases.nodes[0] === databases.primary ? 0 : 1],
  audit: ({ disks }) => disks.audit,
  temporary: ({ disks }) => disks.temporary,
} satisfies Record<string, (stand: Stand) => Disk>

const ABOUT = {
  database: 'the disk of the primary is full',
  audit: 'the disk of the signer’s audit chain is full',
  temporary: 'the temporary folder of the instances is full',
}

const full = (what: keyof typeof DISKS): Kind => ({
  about: ABOUT[what],
  lasts: [3, 15],
  // Without root there are no mounts.
  impossible: process.getuid?.() === 0 ? undefined : 'needs root',
  // PostgreSQL ends when it cannot write its log.
  ...(what === 'database' && { mayEnd: true }),
  begin(stand) {
    const disk = DISKS[what](stand)
    disk.fill()
    return { target: what, end: () => disk.empty() }
  },
})

const DISK_KINDS: Kinds = {
  'full-database': full('database'),
  'full-audit': full('audit'),
  'full-temporary': full('temporary'),
}

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

const CLOCK_KINDS: Kinds = Object.fromEntries(
  (Object.keys(CLOCKS) as (keyof typeof CLOCKS)[]).flatMap((what) => [
    [`clock-${what}-ahead`, jumped(what, HOUR)],
    [`clock-${what}-behind`, jumped(what, -HOUR)],
  ]),
)

const TOKEN_KINDS: Kinds = {
  'lost-token': {
    about: 'the token with the issuer’s key is gone, and comes back',
    lasts: [3, 20],
    impossible: SOFTHSM === undefined ? 'needs SoftHSM (Debian: softhsm2)' : undefined,
    begin({ tokenFolder = '' }) {
      const away = `${tokenFolder}.away`
      renameSync(tokenFolder, away)
      return { target: 'the token', end: () => renameSync(away, tokenFolder) }
    },
  },
}

export const HOST_KINDS: Kinds = { ...DISK_KINDS, ...CLOCK_KINDS, ...MEMORY_KINDS, ...TOKEN_KINDS }
