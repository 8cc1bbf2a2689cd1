/**
 * The commands of chancery, a file of `groups` each. Their modules in `commands` are loaded when they
 * run: to load all of them would take ten times as long as `--help` needs.
 */

import { VERSION } from '../main/version.ts'
import type { Program } from '../shared/command-line/program.ts'
import { ACCOUNT } from './groups/account.ts'
import { ADMINISTRATION } from './groups/administration.ts'
import { CERTIFICATE } from './groups/certificate.ts'
import { DATABASE } from './groups/database.ts'
import { EAB } from './groups/eab.ts'
import { EVENTS } from './groups/events.ts'
import { IDENTIFIERS, PROFILES } from './groups/grants.ts'
import { INSPECT } from './groups/inspect.ts'
import { KEYS } from './groups/keys.ts'
import { MAIL } from './groups/mail.ts'
import { SERVE } from './groups/serve.ts'
import { SWITCHES } from './groups/switches.ts'
import { WORKERS } from './groups/workers.ts'
import { COMMON } from './values.ts'

export const CHANCERY: Program = {
  name: 'chancery',
  version: VERSION,
  about: [
    'An ACME certificate authority server (RFC 8555).',
    '',
    'Exit codes: 0 done; 1 something failed or is wrong; 2 wrong usage.',
    'SIGTERM or SIGINT: finish what is in flight, then stop. SIGHUP: read the configuration file again.',
    'From another machine, through the Admin API: chancery --server URL --help',
    'Ports and data folder of the development mode: chancery serve --help',
  ],
  options: COMMON,
  commands: [
    ...SERVE,
    ...DATABASE,
    ...CERTIFICATE,
    ...SWITCHES,
    ...WORKERS,
    ...EVENTS,
    ...MAIL,
    ...INSPECT,
    ...EAB,
    ...IDENTIFIERS,
    ...PROFILES,
    ...ACCOUNT,
    ...KEYS,
    ...ADMINISTRATION,
  ],
  aliases: { account: 'accounts', certificate: 'certificates', renewal: 'renewals', 'csr-profile': 'profiles' },
}
