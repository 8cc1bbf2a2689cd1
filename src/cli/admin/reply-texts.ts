/** Replies of the Admin API in words for a reader. */

import type { Output } from '../../admin/client.ts'

export const passwordText = ({ username, role, password }: Output<'createUser'>): string =>
  `username  ${username}\nrole      ${role}\npassword  ${password}`

export const userText = ({ username, role, scope, enabled }: Output<'updateUser'>): string =>
  `${username} is ${[role, ...(scope.length > 0 ? [`of ${scope.join(', ')}`] : [])].join(' ')}, ${enabled ? 'enabled' : 'disabled'}`

/** A credential may have any number of accounts; the reply names the first. */
export function revokedText(reply: Output<'revokeEabCredential'>): string {
  const { kid, revoked_accounts: total, revoked_account_ids: ids } = reply
  const further = total - ids.length
  return [
    `${kid} is revoked`,
    ...ids.map((id) => `account ${id} is revoked`),
    ...(further > 0 ? [`${further} more accounts are revoked`] : []),
  ].join('\n')
}

export const maintenanceText = (reply: Output<'getMaintenance'>): string =>
  reply.maintenance_mode
    ? switchText('maintenance is on', 'new-order and new-authz answer 503; orders that exist can be finished', reply)
    : switchText('maintenance is off', undefined, reply)

export const signingText = (reply: Output<'getSigning'>): string =>
  reply.signing_stopped
    ? switchText(
        'signing is stopped',
        'no certificate and no CRL is signed; finalize answers 503 and its order stays ready',
        reply,
      )
    : switchText('signing is not stopped', undefined, reply)

function switchText(
  position: string,
  meaning: string | undefined,
  { since, set_by: by, reason }: Pick<Output<'getSigning'>, 'since' | 'set_by' | 'reason'>,
): string {
  const author = by === null ? '' : ` by ${by}`
  return [
    `${position}${since === null ? '' : ` since ${since}${author}`}`,
    ...(reason === null ? [] : [`reason: ${reason}`]),
    ...(meaning === undefined ? [] : [meaning]),
  ].join('\n')
}

type Workers = Output<'getWorkers'>

export function workersText({ tasks, consumers }: Workers): string {
  const lines = [...tasks.map(taskLine), ...consumers.map(consumerLine)]
  return tasks.length === 0 ? ['no background task has run yet', ...lines].join('\n') : lines.join('\n')
}

/** Runs are reported a few seconds after they end. */
const LATE_MS = 60_000

function taskLine(task: Workers['tasks'][number]): string {
  const { name, leader, leader_is_alive: isAlive, last_run, next_run, errors, last_error, failed_at } = task
  const where = `instance ${leader}${isAlive ? '' : ' (gone)'}`
  const trouble = errors === 0 ? '' : `  errors ${errors}, at ${failed_at}: ${last_error}`
  const isLate = Date.now() - Date.parse(next_run) > LATE_MS
  return `${name.padEnd(28)} ${where}  last ${last_run}  ${isLate ? 'due since' : 'next'} ${next_run}${trouble}`
}

function consumerLine({ name, waiting, more, oldest_seconds, behind }: Workers['consumers'][number]): string {
  const age = waiting > 0 ? `, the oldest for ${oldest_seconds} s` : ''
  return `consumer ${name}: ${waiting}${more ? ' or more' : ''} waiting${age}${behind ? '  BEHIND' : ''}`
}

export function nameText({ name, state, entries, next, not_known }: Output<'getNameHistory'>): string {
  return [
    ...stateLines(name, state),
    '',
    ...(entries.length === 0 ? ['nothing is known of it'] : entries.map(entryLine)),
    ...(next === null ? [] : [`more: --before ${next}`]),
    '',
    ...not_known,
  ].join('\n')
}

type History = Output<'getNameHistory'>

function stateLines(name: string, { certificate, account_id, account_name, last_failure }: History['state']): string[] {
  return [
    certificate === null
      ? `${name} has no valid certificate`
      : `${name} is certified until ${certificate.not_after}, serial number ${certificate.serial_number}; renewal from ${certificate.window_start}`,
    ...(account_id === null ? [] : [`account ${account_name ?? ''}  ${account_id}`]),
    ...(last_failure === null
      ? []
      : [
          `last failure ${last_failure.at}${last_failure.resolved ? ', with a certificate since' : ''}: ${last_failure.title}. ${last_failure.detail}`,
          last_failure.advice,
          ...(last_failure.command === null ? [] : [`  ${last_failure.command}`]),
        ]),
  ]
}

function entryLine({ at, title, detail, names, order_id, serial_number }: History['entries'][number]): string {
  const id = serial_number ?? order_id
  return [at, title, ...(detail === '' ? [] : [detail]), names.join(', '), ...(id === null ? [] : [id])].join('  ')
}
