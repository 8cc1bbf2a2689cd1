/** `chancery events …`: deliveries of events that failed for good. */

import { isGiven } from '../../shared/command-line/options.ts'
import { configured } from '../command.ts'

const events = () => import('../commands/events.ts')

export const EVENTS = [
  configured({
    usage: 'events dead',
    about: 'List the newest 100 deliveries that failed for good',
    options: { json: isGiven('Print JSON, one object a line, with the whole payload') },
    examples: ['-c config.yaml events dead'],
    run: async (config, { json }) => (await events()).showDeadLetters(config, json),
  }),
  configured({
    usage: 'events retry <id>',
    about: 'Deliver such an event again',
    options: {},
    examples: ['-c config.yaml events retry 6f1d…'],
    run: async (config, _options, [id = '']) => (await events()).retryDeadLetter(config, id),
  }),
]
