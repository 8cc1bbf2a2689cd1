/**
 * The commands of chancery, a file of `groups` each. Their modules in `commands` are loaded when they
 * run: to load all of them would take ten times as long as `--help` needs.
 */

import { VERSION } from '../main/version.ts'
import { type Command, command, type Options, type Program, UsageError } from '../shared/command-line.ts'
import { HOST } from './groups/host.ts'
import { INSPECT } from './groups/inspect.ts'
import { examplesOf, type SharedCommand } from './operations/shared-command.ts'
import { WORDS } from './operations/word-list.ts'
import { NEEDS_USER, usageOf, type Words } from './operations/words.ts'
import { SHARED } from './shared/commands.ts'
import { type CommonOptions, PRINTING } from './values.ts'

const wordsOf = (usage: string) => usage.split(' ').filter((word) => !word.startsWith('<'))
const needsUser = ({ operations }: Words) => operations.some((id) => NEEDS_USER.includes(id))
const OPERATIONS: readonly Words[] = WORDS.filter((words) => !needsUser(words))

/** About the user of a session, which a configuration file does not have. */
const ofSession = ({ usage, about }: Pick<Words, 'usage' | 'about'>): Command => ({
  usage: usageOf({ usage }),
  about,
  options: PRINTING,
  further: true,
  async run() {
    throw new UsageError(`${wordsOf(usage).join(' ')} is about a login: use chancery --server URL`)
  },
})
const LOGIN = ['login', 'logout'].map((usage) => ({ usage, about: 'Begin or end a session' }))
const SESSION = [...WORDS.filter(needsUser), ...LOGIN]

/** A command on the database. */
function onDatabase(one: SharedCommand): Command {
  const { usage, about, options, further, anySchema, run } = one
  return command<Options & typeof PRINTING>({
    usage,
    about,
    options: { ...options, ...PRINTING },
    examples: examplesOf(one, '-c config.yaml'),
    ...(further && { further }),
    async run(values, words) {
      const { readConfigFile } = await import('./commands/config-file.ts')
      const { withLocalApi } = await import('./operations/local.ts')
      const config = await readConfigFile(values.config)
      return withLocalApi(config, (caller) => run(caller, values, words, config), anySchema ? 'any' : 'current')
    },
  })
}

async function prepared(asked: readonly Words[], everyOne: boolean): Promise<Command[]> {
  if (asked.length === 0 && !everyOne) return []
  const { everyOperation, preparedCommands } = await import('./operations/prepare.ts')
  return preparedCommands([...asked, ...(everyOne ? everyOperation(NEEDS_USER) : [])]).map(onDatabase)
}

/** @param typed only a command that they may mean is made whole: its options come from the Admin API's descriptions */
export async function localProgram(typed: readonly string[]): Promise<Program> {
  const words = typed.map((word) => ALIASES.get(word) ?? word)
  const isAsked = ({ usage }: Pick<Words, 'usage'>) => wordsOf(usage).every((word) => words.includes(word))
  const asked = OPERATIONS.filter(isAsked)
  const whole = await prepared(asked, words.includes('api'))
  const named = OPERATIONS.filter((one) => !asked.includes(one)).map(
    (one): Command => ({ usage: usageOf(one), about: one.about, run: () => Promise.resolve(2) }),
  )
  const session = SESSION.filter(isAsked).map(ofSession)
  const commands = inGroups([...HOST, ...SHARED.map(onDatabase), ...named, ...whole, ...session, ...INSPECT])
  return {
    name: 'chancery',
    version: VERSION,
    about: [
      'An ACME certificate authority server (RFC 8555).',
      '',
      'Exit codes: 0 done; 1 something failed or is wrong; 2 wrong usage.',
      'SIGTERM or SIGINT: finish what is in flight, then stop. SIGHUP: read the configuration file again.',
      'Commands read the configuration file that -c FILE or SERVICE_CONFIG names. From another machine most work through',
      'the Admin API: chancery --server URL --help',
    ],
    commands: typed.includes('--validate-only') ? commands.map(checking) : commands,
    aliases: ALIASES,
  }
}

const ALIASES = new Map([
  ['account', 'accounts'],
  ['certificate', 'certificates'],
  ['renewal', 'renewals'],
  ['csr-profile', 'profiles'],
])

/** Beside any command `--validate-only` must not cause a migration. */
const checking = (one: Command): Command => ({
  ...one,
  run: async (values) =>
    (await import('./commands/checked-config.ts')).validateOnly(values as CommonOptions, one.usage),
})

/** First words in the order of the help; others follow. */
const GROUPS = [
  'serve',
  'perspective',
  'db',
  'maintenance',
  'signing',
  'workers',
  'mail',
  'ca',
  'crl',
  'certificates',
  'bulk-revocations',
  'renewals',
  'keys',
  'orders',
  'accounts',
  'terms',
  'eab',
  'identifiers',
  'profiles',
  'admin',
  'users',
  'tokens',
  'audit',
]

/** Commands of one first word stand together. */
function inGroups(commands: readonly Command[]): Command[] {
  const groups = new Map<string, Command[]>(GROUPS.map((first) => [first, []]))
  for (const one of commands) {
    const [first = ''] = wordsOf(one.usage)
    groups.set(first, [...(groups.get(first) ?? []), one])
  }
  return [...groups.values()].flat()
}
