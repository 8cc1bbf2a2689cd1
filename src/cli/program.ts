/**
 * The commands of chancery, a file of `groups` each. Their modules in `commands` are loaded when they
 * run: to load all of them would take ten times as long as `--help` needs.
 */

import { VERSION } from '../main/version.ts'
import type { Command, Program } from '../shared/command-line/program.ts'
import { ACCOUNT } from './groups/account.ts'
import { ADMINISTRATION } from './groups/administration.ts'
import { CERTIFICATE } from './groups/certificate.ts'
import { DATABASE } from './groups/database.ts'
import { EAB } from './groups/eab.ts'
import { IDENTIFIERS, PROFILES } from './groups/grants.ts'
import { INSPECT } from './groups/inspect.ts'
import { MAIL } from './groups/mail.ts'
import { SERVE } from './groups/serve.ts'
import { SWITCHES } from './groups/switches.ts'
import { WORKERS } from './groups/workers.ts'
import { NEEDS_USER, usageOf, WORDS, type Words } from './operations/words.ts'
import { COMMON } from './values.ts'

/** In the order of the help: what runs, then what it has issued, then who may what, then who administers. */
const OWN: readonly Command[] = [
  ...[...SERVE, ...DATABASE, ...SWITCHES, ...WORKERS, ...MAIL],
  ...[...CERTIFICATE, ...ACCOUNT, ...EAB, ...IDENTIFIERS, ...PROFILES, ...ADMINISTRATION, ...INSPECT],
]

const wordsOf = (usage: string) => usage.split(' ').filter((word) => !word.startsWith('<'))
const nameOf = ({ usage }: Pick<Command, 'usage'>) => wordsOf(usage).join(' ')

/** Operations of the Admin API that no command above does in a way of its own. */
const OPERATIONS: readonly Words[] = WORDS.filter(
  (words) =>
    !words.operations.some((id) => NEEDS_USER.includes(id)) && !OWN.some((one) => nameOf(one) === nameOf(words)),
)

/** @param typed only a command that they may mean is made whole: its options come from the Admin API's descriptions */
export async function localProgram(typed: readonly string[]): Promise<Program> {
  const isAsked = (words: Words) => wordsOf(words.usage).every((word) => typed.includes(word))
  const asked = OPERATIONS.filter(isAsked)
  const isAny = typed.includes('api')
  const local = asked.length > 0 || isAny ? await import('./operations/local.ts') : undefined
  const whole = [...(local?.localOperations(asked) ?? []), ...(isAny ? (local?.everyLocalOperation() ?? []) : [])]
  const named = OPERATIONS.filter((words) => !asked.includes(words)).map(
    (words): Command => ({ usage: usageOf(words), about: words.about, run: () => Promise.resolve(2) }),
  )
  return {
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
    commands: inGroups([...OWN, ...named, ...whole]),
    aliases: { account: 'accounts', certificate: 'certificates', renewal: 'renewals', 'csr-profile': 'profiles' },
  }
}

/** Commands of one first word stand together, where the first of them stands. */
function inGroups(commands: readonly Command[]): Command[] {
  const groups = new Map<string, Command[]>()
  for (const one of commands) {
    const [first = ''] = wordsOf(one.usage)
    groups.set(first, [...(groups.get(first) ?? []), one])
  }
  return [...groups.values()].flat()
}
