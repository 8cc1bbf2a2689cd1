/** `chancery admin …`, `users …` and `audit …`: administrators, and what they did. */

import { ROLES } from '../../domain/administrator.ts'
import { parseHead } from '../../domain/audit-verdict.ts'
import { isGiven, option, optional, UsageError } from '../../shared/command-line/options.ts'
import { configured } from '../command.ts'
import { oneOf, text } from '../values.ts'

const JSON_OPTION = { json: isGiven('Print JSON') }
const EMAIL = optional('Address of the user; admin_api.initial_admin_email when absent', text)
const role = oneOf(ROLES)

const head = (value: string) => {
  const noted = parseHead(value)
  if (noted) return noted
  throw new Error('takes a number, a colon and 64 hexadecimal digits, as a line audit_head of the log has them')
}

const access = (value: string) => oneOf(['true', 'false'])(value) === 'true'

export const ADMINISTRATION = [
  configured({
    usage: 'admin create-user',
    about: 'Make an administrator and print the generated password, once',
    options: {
      username: option('Name of the user', text, 'admin'),
      email: EMAIL,
      role: option('admin or auditor', role, 'admin'),
      ...JSON_OPTION,
    },
    examples: ['-c config.yaml admin create-user --username alice --email alice@example.com'],
    run: async (config, options) => (await import('../commands/users.ts')).createUser(config, options),
  }),
  configured({
    usage: 'users create <username>',
    about: 'Make a user of the Admin API and print the generated password, once',
    options: { email: EMAIL, role: option('admin or auditor', role, 'auditor'), ...JSON_OPTION },
    examples: ['-c config.yaml users create bob --email bob@example.com'],
    run: async (config, options, [username = '']) =>
      (await import('../commands/users.ts')).createUser(config, { ...options, username }),
  }),
  configured({
    usage: 'users list',
    about: 'List the users of the Admin API, newest first',
    options: JSON_OPTION,
    examples: ['-c config.yaml users list'],
    run: async (config, { json }) => (await import('../commands/users.ts')).listUsers(config, json),
  }),
  configured({
    usage: 'users update <username>',
    about: 'Change role or access of a user, at once',
    options: {
      role: optional('admin or auditor', role),
      enabled: optional('true, or false to keep the user out', access),
      ...JSON_OPTION,
    },
    examples: ['-c config.yaml users update bob --role admin', '-c config.yaml users update bob --enabled false'],
    async run(config, options, [username = '']) {
      if (options.role === undefined && options.enabled === undefined)
        throw new UsageError('users update needs --role or --enabled')
      return (await import('../commands/users.ts')).updateUser(config, username, options)
    },
  }),
  configured({
    usage: 'users delete <username>',
    about: 'Delete a user with all sessions and API tokens',
    options: JSON_OPTION,
    examples: ['-c config.yaml users delete bob'],
    run: async (config, { json }, [username = '']) =>
      (await import('../commands/users.ts')).deleteUser(config, username, json),
  }),
  configured({
    usage: 'users reset-password <username>',
    about: 'Generate a new password, print it once, and end all sessions of the user',
    options: JSON_OPTION,
    examples: ['-c config.yaml users reset-password bob'],
    run: async (config, { json }, [username = '']) =>
      (await import('../commands/users.ts')).resetPassword(config, username, json),
  }),
  configured({
    usage: 'users unlock <username>',
    about: 'Let a user log in again whose name is locked after failed logins',
    options: JSON_OPTION,
    examples: ['-c config.yaml users unlock bob'],
    run: async (config, { json }, [username = '']) =>
      (await import('../commands/users.ts')).unlockUser(config, username, json),
  }),
  configured({
    usage: 'users unlock-address <address>',
    about: 'Let users log in again from an address that is locked after failed logins',
    options: JSON_OPTION,
    examples: ['-c config.yaml users unlock-address 192.0.2.7'],
    run: async (config, { json }, [address = '']) =>
      (await import('../commands/users.ts')).unlockAddress(config, address, json),
  }),
  configured({
    usage: 'users import <file>',
    about: 'Take users over with their password hashes: a JSON array, or one JSON object a line',
    options: JSON_OPTION,
    examples: ['-c config.yaml users import users.json'],
    run: async (config, { json }, [file = '']) =>
      (await import('../commands/users.ts')).importUsers(config, file, json),
  }),
  configured({
    usage: 'audit verify',
    about: 'Check that no entry of the audit log was changed, removed or moved',
    options: {
      head: optional('A head noted earlier, from a line audit_head of the log: finds a cut tail', head),
      ...JSON_OPTION,
    },
    examples: ['-c config.yaml audit verify', '-c config.yaml audit verify --head 812:9f86d0…'],
    run: async (config, options) => (await import('../commands/audit.ts')).verifyAudit(config, options),
  }),
]
