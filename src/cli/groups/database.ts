/** `chancery db …`: the schema of the database, and indexes that searches want. */

import { isGiven } from '../../shared/command-line/options.ts'
import { configured } from '../command.ts'

export const DATABASE = [
  configured({
    usage: 'db status',
    about: 'Check the database: reachable, and at the schema of this release',
    examples: ['-c config.yaml db status'],
    run: async (config) => (await import('../commands/db.ts')).databaseStatus(config),
  }),
  configured({
    usage: 'db migrate',
    about: 'Bring the database to the schema of this release',
    examples: ['-c config.yaml db migrate'],
    run: async (config) => (await import('../commands/db.ts')).databaseMigrate(config),
  }),
  configured({
    usage: 'db search-indexes',
    about: 'Make the indexes that `inspect` by name, issuer and contact is quick with',
    options: { drop: isGiven('Drop them') },
    examples: ['-c config.yaml db search-indexes'],
    run: async (config, { drop }) => (await import('../commands/search-indexes.ts')).searchIndexes(config, { drop }),
  }),
]
