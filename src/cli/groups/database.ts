/** `chancery db …`: the schema of the database, and indexes that searches want. */

import { isGiven } from '../../shared/command-line/options.ts'
import { configured, JSON_OPTION } from '../command.ts'

export const DATABASE = [
  configured({
    usage: 'db status',
    about: 'Check the database: reachable, and at the schema of this release',
    options: JSON_OPTION,
    examples: ['-c config.yaml db status'],
    run: async (config, { json }) => (await import('../commands/db.ts')).databaseStatus(config, json),
  }),
  configured({
    usage: 'db migrate',
    about: 'Bring the database to the schema of this release',
    options: JSON_OPTION,
    examples: ['-c config.yaml db migrate'],
    run: async (config, { json }) => (await import('../commands/db.ts')).databaseMigrate(config, json),
  }),
  configured({
    usage: 'db search-indexes',
    about: 'Make the indexes with which lists by name, issuer and contact are quick',
    options: { drop: isGiven('Drop them'), ...JSON_OPTION },
    examples: ['-c config.yaml db search-indexes'],
    run: async (config, options) => (await import('../commands/search-indexes.ts')).searchIndexes(config, options),
  }),
]
