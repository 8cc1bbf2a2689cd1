/** `chancery --server URL …`: the same administration from another machine, through the Admin API. */

import { VERSION } from '../../main/version.ts'
import { type Command, command, type Options, optional, type Program, UsageError } from '../../shared/command-line.ts'
import { HOST } from '../groups/host.ts'
import { INSPECT } from '../groups/inspect.ts'
import type { HostCommand } from '../on-host.ts'
import { everyOperation, preparedCommands } from '../operations/prepare.ts'
import { examplesOf, type SharedCommand } from '../operations/shared-command.ts'
import { WORDS } from '../operations/word-list.ts'
import { SHARED } from '../shared/commands.ts'
import { text } from '../values.ts'
import { Connection, REMOTE_OPTIONS } from './connection.ts'

const LOGIN = command({
  usage: 'login',
  about: 'Get a token for a username and a password, and keep it for the commands that follow',
  options: { username: optional('Name of the user; asked for when absent', text), ...REMOTE_OPTIONS },
  examples: ['--server https://ca.example login', '--server https://ca.example login --username ann < password-file'],
  run: async ({ username, ...options }) => (await import('./session.ts')).logIn(options, username),
})

const LOGOUT = command({
  usage: 'logout',
  about: 'End the session and forget its token',
  options: REMOTE_OPTIONS,
  examples: ['--server https://ca.example logout'],
  run: async (options) => (await import('./session.ts')).logOut(options),
})

/** @param asked the words of the command line; `api …` has a command for every operation */
export function remoteProgram(asked: readonly string[]): Program {
  const operations = asked.includes('api')
    ? preparedCommands(everyOperation())
    : [...preparedCommands(WORDS), ...SHARED]
  const isAsked = ({ usage }: Command) => usage.split(' ').every((word) => word.startsWith('<') || asked.includes(word))
  const others = [...HOST, ...INSPECT].filter(isAsked).map(refused)
  return {
    name: 'chancery',
    version: VERSION,
    about: [
      'Administers a Chancery server from another machine.',
      '',
      '--server is the URL of the service, with the path of server.external_url.',
      'What has a name (user, token, EAB credential, identifier, CSR profile) is named by it or by its id.',
      'login keeps its token in XDG_CONFIG_HOME/chancery/tokens.json; CHANCERY_TOKEN, such as an API token, goes first.',
      'NODE_EXTRA_CA_CERTS names a file with the CA of the server. Every operation: chancery --server URL api --help',
    ],
    commands: [LOGIN, LOGOUT, ...operations.map(onService), ...others],
  }
}

/** What needs the host says so. */
const refused = ({ why, ...one }: HostCommand): Command => ({
  ...one,
  options: { ...one.options, ...REMOTE_OPTIONS },
  async run() {
    throw new UsageError(`${one.usage.replace(/ <.*/, '')} works on the host only, with -c FILE: ${why}`)
  },
})

/** A command on the service. */
function onService(one: SharedCommand): Command {
  const { usage, about, options = {}, further, run } = one
  return command<Options & typeof REMOTE_OPTIONS>({
    usage,
    about,
    options: { ...options, ...REMOTE_OPTIONS },
    examples: examplesOf(one, '--server https://ca.example'),
    ...(further && { further }),
    run: (values, given) => run(new Connection(values), values, given),
  })
}
