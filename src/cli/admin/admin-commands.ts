/** All commands on the Admin API: rows of the operation table, and those that do more than one operation. */

import type { Command } from '../../shared/command-line.ts'
import { type AdminCommand, operationCommand } from './admin-command.ts'
import { ADMINISTRATION_COMMANDS } from './administration-commands.ts'
import { CERTIFICATE_COMMANDS } from './certificate-commands.ts'
import { GRANT_COMMANDS } from './grant-commands.ts'
import { OPERATION_ROWS } from './operation-table.ts'
import { PROFILE_COMMANDS } from './profile-commands.ts'

export const ADMIN_COMMANDS: readonly AdminCommand[] = [
  ...OPERATION_ROWS.filter(({ needsSession }) => !needsSession).map(operationCommand),
  ...ADMINISTRATION_COMMANDS,
  ...CERTIFICATE_COMMANDS,
  ...GRANT_COMMANDS,
  ...PROFILE_COMMANDS,
]

/** About the user of a session, and so only with `--server`. */
export const SESSION_COMMANDS: readonly AdminCommand[] = OPERATION_ROWS.filter(({ needsSession }) => needsSession).map(
  operationCommand,
)

/** First words of the commands in the order of the help. */
const GROUPS = [
  'login',
  'logout',
  'setup',
  'serve',
  'perspective',
  'doctor',
  'overview',
  'settings',
  'db',
  'reconcile',
  'import',
  'maintenance',
  'signing',
  'workers',
  'mail',
  'ca',
  'crl',
  'search',
  'names',
  'failures',
  'certificates',
  'bulk-revocations',
  'incidents',
  'renewals',
  'keys',
  'issuers',
  'orders',
  'accounts',
  'inspect',
  'terms',
  'eab',
  'identifiers',
  'profiles',
  'admin',
  'users',
  'me',
  'tokens',
  'approvals',
  'audit',
  'notifications',
  'events',
  'api',
]

/** Whether the command line has every word of the command. */
export const isTyped = (usage: string, typed: readonly string[]): boolean =>
  usage.split(' ').every((word) => word.startsWith('<') || typed.includes(word))

/** Commands of one first word stay together. */
export function inHelpOrder(commands: readonly Command[]): Command[] {
  const placeOf = ({ usage }: Command) => GROUPS.indexOf(usage.split(' ', 1)[0] ?? '')
  return [...commands].sort((one, other) => placeOf(one) - placeOf(other))
}
