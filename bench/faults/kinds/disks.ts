/** Disks without a free byte. */

import type { Disk } from '../disks.ts'
import type { Stand } from '../stand.ts'
import type { Kind, Kinds } from './kind.ts'

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

export const DISK_KINDS: Kinds = {
  'full-database': full('database'),
  'full-audit': full('audit'),
  'full-temporary': full('temporary'),
}
