/** `chancery --server URL …`: the same administration from another machine, through the Admin API. */

import {
  type Command,
  command,
  isGiven,
  type Options,
  option,
  optional,
  type Program,
  UsageError,
  type Values,
} from '../../shared/command-line.ts'
import { VERSION } from '../../shared/lib/program-files.ts'
import { type AdminCommand, adminCommand, examplesOf } from '../admin/admin-command.ts'
import { ADMIN_COMMANDS, inHelpOrder, isTyped, SESSION_COMMANDS } from '../admin/admin-commands.ts'
import { HOST_COMMANDS, type HostCommand } from '../host/host-commands.ts'
import { text } from '../values.ts'

function httpUrl(value: string): string {
  const { protocol, href } = new URL(value)
  if (!/^https?:$/.test(protocol)) throw new Error('takes a URL such as https://ca.example')
  return href.replace(/\/$/, '')
}

const REMOTE_OPTIONS = {
  server: optional('URL of the service, with the path of server.external_url', httpUrl),
  'base-path': option('Its admin_api.base_path', text, '/api'),
  'approval-reason': optional('Ask another person for approval where an act needs it, with this reason', text),
  json: isGiven('Print JSON'),
  debug: isGiven('Print stack traces of errors'),
}
type RemoteOptions = Values<typeof REMOTE_OPTIONS>

const LOGIN = command({
  usage: 'login',
  about: 'Get a token for a username and a password, and keep it for later commands',
  options: { username: optional('Name of the user; asked for when absent', text), ...REMOTE_OPTIONS },
  examples: ['--server https://ca.example login', '--server https://ca.example login --username ann < password-file'],
  run: async ({ username, ...options }) => (await sessionOf(options)).logIn(options, username),
})

const LOGOUT = command({
  usage: 'logout',
  about: 'End the session and forget its token',
  options: REMOTE_OPTIONS,
  examples: ['--server https://ca.example logout'],
  run: async (options) => (await sessionOf(options)).logOut(options),
})

const RESET_OWN_PASSWORD = adminCommand({
  usage: 'me reset-password',
  about: 'Ask for the current password, generate a new one, print it once, and end all sessions',
  run: async (caller, { json }) => (await import('./remote-session.ts')).resetOwnPassword(caller, json),
})

/** @throws UsageError without the URL of a service */
function sessionOf({ server }: RemoteOptions) {
  if (server === undefined) throw new UsageError('--server takes a URL')
  return import('./remote-session.ts')
}

/** @param typed the words of the command line; `api …` has a command for every operation */
export async function remoteProgram(typed: readonly string[]): Promise<Program> {
  const operations = typed.includes('api')
    ? (await import('../admin/api-commands.ts')).everyOperation()
    : [...ADMIN_COMMANDS, ...SESSION_COMMANDS, RESET_OWN_PASSWORD]
  const onHost = HOST_COMMANDS.filter(({ usage }) => isTyped(usage, typed))
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
    commands: inHelpOrder([LOGIN, LOGOUT, ...operations.map(onService), ...onHost.map(refused)]),
  }
}

/** A command that needs the host says so. */
const refused = ({ why, ...one }: HostCommand): Command => ({
  ...one,
  options: { ...one.options, ...REMOTE_OPTIONS },
  async run() {
    throw new UsageError(`${one.usage.replace(/ <.*/, '')} works on the host only, with -c FILE: ${why}`)
  },
})

function onService(one: AdminCommand): Command {
  const { usage, about, options = {}, further, run } = one
  return command<Options & typeof REMOTE_OPTIONS>({
    usage,
    about,
    options: { ...options, ...REMOTE_OPTIONS },
    examples: examplesOf(one, '--server https://ca.example'),
    ...(further && { further }),
    run: async (values, given) => run((await sessionOf(values)).callerOf(values), values, given),
  })
}
