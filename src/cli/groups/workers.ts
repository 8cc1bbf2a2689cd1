/** `chancery workers …`: background work of all instances. */

import { isGiven } from '../../shared/command-line/options.ts'
import { configured } from '../command.ts'

export const WORKERS = [
  configured({
    usage: 'workers status',
    about: 'Say which instance runs each background task, when, and what waits for consumers of events',
    options: { json: isGiven('Print JSON') },
    examples: ['-c config.yaml workers status'],
    run: async (config, { json }) => (await import('../commands/workers.ts')).showWorkers(config, json),
  }),
]
