/** `chancery --server URL …`: the same administration from another machine, through the Admin API. */

import { type Described, describedApi } from '../../admin/described.ts'
import { VERSION } from '../../main/version.ts'
import { optional } from '../../shared/command-line/options.ts'
import { type Command, command, type Program } from '../../shared/command-line/program.ts'
import { text } from '../values.ts'
import { REMOTE_OPTIONS } from './connection.ts'
import { operationCommand } from './operation-command.ts'
import { WORDS, type Words } from './words.ts'

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
  const { document, operations } = describedApi()
  const byId = new Map(operations.map((one) => [one.operation.operationId, one]))
  const commandFor = (words: Words): Command => {
    const described = words.operations.map((id) => byId.get(id)).filter((one): one is Described => one !== undefined)
    return operationCommand(words, described, document.components.schemas)
  }
  const every = operations.map(({ path, operation: { operationId } }): Words => {
    const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ` <${name}>`)
    return { usage: `api ${operationId}${parameters.join('')}`, operations: [operationId] }
  })
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
    commands: [LOGIN, LOGOUT, ...(asked.includes('api') ? every : WORDS).map(commandFor)],
  }
}
