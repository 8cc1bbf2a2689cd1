/** Memory that runs out: the kernel ends what asks for more (control groups of version 1 or 2). */

import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { familyOf } from '../../measure/server-cpu.ts'
import type { Part } from '../part.ts'
import type { Chance } from '../random.ts'
import type { Stand } from '../stand.ts'
import type { Kind, Kinds } from './kind.ts'

const VERSIONS = [
  { top: '/sys/fs/cgroup/memory', limit: 'memory.limit_in_bytes' },
  { top: '/sys/fs/cgroup', limit: 'memory.max' },
]
const version = VERSIONS.find(({ top, limit }) => existsSync(path.join(top, 'cgroup.procs')) && isWritable(top, limit))

const KILOBYTE = 2 ** 10
/** What a process may take from now on; pages that it has already count for the group it comes from. */
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
      // What it had started itself is gone by then, and the group empty.
      repair: async () => rmdirSync(folder),
    }
  },
})

/** With all that it has started. */
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

export const MEMORY_KINDS: Kinds = {
  'memory-instance': limited('instance', ({ instances }, chance) => instances[chance.whole(2)]!.part),
  'memory-signer': limited('signer', ({ signer }) => signer),
  'memory-primary': limited('primary', ({ databases }) => databases.primary.part),
}
