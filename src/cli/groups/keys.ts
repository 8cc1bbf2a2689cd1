/** `chancery keys …`: keys that are never certified again. */

import { isGiven, optional } from '../../shared/command-line/options.ts'
import type { Command } from '../../shared/command-line/program.ts'
import { configured } from '../command.ts'
import { text } from '../values.ts'
import { PAGE } from './inspect.ts'

const JSON_OUTPUT = { json: isGiven('Print JSON') }
const keys = () => import('../commands/keys.ts')

export const KEYS: Command[] = [
  configured({
    usage: 'keys list',
    about: 'List the blocked keys, newest first, a page at a time',
    options: { ...PAGE, after: optional('Where the page before ended', text) },
    examples: ['-c config.yaml keys list'],
    run: async (config, options) => (await keys()).listKeys(config, options),
  }),
  configured({
    usage: 'keys block <sha256>',
    about: 'Block a key by the SHA-256 of its SubjectPublicKeyInfo: no certificate is issued for it any more',
    options: JSON_OUTPUT,
    examples: ['-c config.yaml keys block 5f0c…'],
    run: async (config, { json }, [sha256 = '']) => (await keys()).blockKey(config, sha256, json),
  }),
  configured({
    usage: 'keys unblock <sha256>',
    about: 'Take the block of a key back',
    options: JSON_OUTPUT,
    examples: ['-c config.yaml keys unblock 5f0c…'],
    run: async (config, { json }, [sha256 = '']) => (await keys()).unblockKey(config, sha256, json),
  }),
]
