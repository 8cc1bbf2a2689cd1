/** `chancery db …`: the schema of the database, and indexes that searches want. */

import { isGiven } from '../../shared/command-line.ts'
import { onHost } from '../on-host.ts'
import { PRINTING } from '../values.ts'

const WHY = 'it speaks to the database, whose password the configuration has'

export const DATABASE = [
  onHost(WHY, {
    usage: 'db status',
    about: 'Check the database: reachable, and at the schema of this release',
    options: PRINTING,
    examples: ['-c config.yaml db status'],
    run: async (options) => (await import('../commands/db.ts')).databaseStatus(options),
  }),
  onHost(WHY, {
    usage: 'db migrate',
    about: 'Bring the database to the schema of this release',
    options: PRINTING,
    examples: ['-c config.yaml db migrate'],
    run: async (options) => (await import('../commands/db.ts')).databaseMigrate(options),
  }),
  onHost(WHY, {
    usage: 'db search-indexes',
    about:
      'Make the indexes with which lists by name, issuer, key and contact, and of revoked certificates by expiry, are quick',
    options: {
      drop: isGiven('Drop them'),
      history: isGiven('Also the one that CSR profiles with reuse_key or renewal_window_days need'),
      ...PRINTING,
    },
    examples: ['-c config.yaml db search-indexes'],
    run: async (options) => (await import('../commands/search-indexes.ts')).searchIndexes(options),
  }),
]
