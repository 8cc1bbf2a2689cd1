/**
 * The commands of chancery. Their modules are loaded when they run: to load all of them would take
 * ten times as long as `--help` needs.
 */

import { PATHS } from '../installation/places.ts'
import { type Command, command, type Options, optional, type Program, UsageError } from '../shared/command-line.ts'
import { VERSION } from '../shared/lib/program-files.ts'
import { type AdminCommand, examplesOf } from './admin/admin-command.ts'
import { ADMIN_COMMANDS, inHelpOrder, isTyped, SESSION_COMMANDS } from './admin/admin-commands.ts'
import { HOST_COMMANDS } from './host/host-commands.ts'
import { type CommonOptions, PRINTING, text } from './values.ts'

/** @param typed the words of the command line; `api …` has a command for every operation */
export async function localProgram(typed: readonly string[]): Promise<Program> {
  const every = typed.includes('api') ? (await import('./admin/api-commands.ts')).everyOperation(NEED_SESSION) : []
  const session = SESSION.filter((usage) => isTyped(usage, typed))
  const administration = [...ADMIN_COMMANDS, ...every].map(onDatabase).map(alsoInArchive)
  const commands = inHelpOrder([...HOST_COMMANDS, ...administration, ...session.map(onlyRemote)])
  return {
    name: 'chancery',
    version: VERSION,
    about: [
      'An ACME certificate authority server (RFC 8555).',
      '',
      'Exit codes: 0 done; 1 something failed or is wrong; 2 wrong usage.',
      'SIGTERM or SIGINT: finish running requests, then stop. SIGHUP: read the configuration file again.',
      'Commands read the configuration file that -c FILE or SERVICE_CONFIG names. From another machine most work through',
      'the Admin API: chancery --server URL --help',
    ],
    commands: typed.includes('--validate-only') ? commands.map(onlyChecked) : commands,
  }
}

const NEED_SESSION = ['login', 'logout', 'confirmSignIn', 'getMe', 'resetMyPassword', 'createToken']
const SESSION = ['login', 'logout', 'me reset-password', ...SESSION_COMMANDS.map(({ usage }) => usage)]

/** A configuration file has no user of a session. */
const onlyRemote = (usage: string): Command => ({
  usage,
  about: 'Works with --server only',
  options: PRINTING,
  further: true,
  async run() {
    throw new UsageError(`${usage.replace(/ <.*/, '')} is about a login: use chancery --server URL`)
  },
})

const EMERGENCY = {
  emergency: optional(
    'Reason for doing alone what admin_api.approvals wants another person for; all administrators hear of it',
    text,
  ),
}

function onDatabase(one: AdminCommand): Command {
  const { usage, about, options, further, anySchema, approval, run } = one
  return command<Options & typeof PRINTING & typeof EMERGENCY>({
    usage,
    about,
    options: { ...options, ...(approval && EMERGENCY), ...PRINTING } as Options & typeof PRINTING & typeof EMERGENCY,
    examples: examplesOf(one, '-c config.yaml'),
    ...(further && { further }),
    async run(values, words) {
      const { readConfigFile } = await import('./config-file.ts')
      const { withLocalCaller } = await import('./admin/local-caller.ts')
      const config = await readConfigFile(values.config)
      const means = { schema: anySchema ? ('any' as const) : ('current' as const), emergency: values.emergency }
      return withLocalCaller(config, means, (caller) => run(caller, values, words, config))
    },
  })
}

/** `certificates show` with `--archive` reads files alone: an archive outlives its database. */
function alsoInArchive(one: Command): Command {
  if (one.usage !== 'certificates show <serial>') return one
  const archive = optional('Folder of an archive (retention.archive_dir) to look in instead; an id will do, too', text)
  return command<Options & typeof PRINTING & { archive: typeof archive }>({
    ...one,
    options: { ...(one.options as typeof PRINTING), archive },
    examples: [...(one.examples ?? []), `certificates show 0a1b2c --archive ${PATHS.serviceState}/archive`],
    async run(values, words, raw) {
      if (values.archive === undefined) return one.run(values, words, raw)
      return (await import('./host/archive-commands.ts')).showArchived(values.archive, words[0] ?? '', values.json)
    },
  })
}

/** With `--validate-only` no command may do anything else, such as a migration. */
const onlyChecked = (one: Command): Command => ({
  ...one,
  run: async (values) => (await import('./checked-config.ts')).validateOnly(values as CommonOptions, one.usage),
})
