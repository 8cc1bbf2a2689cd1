/** `chancery --server URL …`: the same administration from another machine, through the Admin API. */

import { VERSION } from '../../main/version.ts'
import { optional } from '../../shared/command-line/options.ts'
import { type Command, command, type Program } from '../../shared/command-line/program.ts'
import { everyOperation, preparedCommands } from '../operations/prepare.ts'
import { WORDS } from '../operations/words.ts'
import { text } from '../values.ts'
import { Connection, REMOTE_OPTIONS } from './connection.ts'

const LOGIN = command({
  usage: 'login',
  about: 'Get a token for a username and a password, and keep it for the commands that follow',
  options: { username: optional('Name of the user; asked for when absent', text) },
  examples: ['--server https://ca.example login', '--server https://ca.example login --username ann < password-file'],
  run: async ({ username }, _, raw) => (await import('./session.ts')).logIn(raw, username),
})

const LOGOUT = command({
  usage: 'logout',
  about: 'End the session and forget its token',
  examples: ['--server https://ca.example logout'],
  run: async (_options, _, raw) => (await import('./session.ts')).logOut(raw),
})

/** @param asked the words of the command line; `api …` has a command for every operation */
export function remoteProgram(asked: readonly string[]): Program {
  const prepared = preparedCommands(asked.includes('api') ? everyOperation() : WORDS)
  const operations = prepared.map(
    ({ run, ...one }): Command =>
      command({
        ...one,
        examples: [`--server https://ca.example ${one.usage.replaceAll(/<[^>]+>/g, '…')}`],
        run(values, given, raw) {
          const connection = new Connection(raw)
          return run(connection, { ...values, json: connection.options.json }, given)
        },
      }),
  )
  return {
    name: 'chancery',
    version: VERSION,
    about: [
      'Administers a Chancery server from another machine.',
      '',
      'What has a name (user, token, EAB credential, identifier, CSR profile) is named by it or by its id.',
      'login keeps its token in XDG_CONFIG_HOME/chancery/tokens.json; CHANCERY_TOKEN, such as an API token, goes first.',
      'NODE_EXTRA_CA_CERTS names a file with the CA of the server. Every operation: chancery --server URL api --help',
    ],
    options: REMOTE_OPTIONS,
    commands: [LOGIN, LOGOUT, ...operations],
  }
}
