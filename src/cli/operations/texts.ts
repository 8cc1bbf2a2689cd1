/** Replies of the Admin API in words for a reader. */

import { isBehind } from '../../domain/alarms.ts'
import type { ReplyBody } from './words.ts'

export const passwordText = ({ username, role, password }: ReplyBody): string =>
  `username  ${username}\nrole      ${role}\npassword  ${password}`

export const userText = ({ username, role, enabled }: ReplyBody): string =>
  `${username} is ${role}, ${enabled ? 'enabled' : 'disabled'}`

/** A credential may have any number of accounts; the reply names the first. */
export function revokedText({ kid, revoked_accounts: total, revoked_account_ids: ids }: ReplyBody): string {
  const further = total - ids.length
  return [
    `${kid} is revoked`,
    ...ids.map((id: string) => `account ${id} is revoked`),
    ...(further > 0 ? [`${further} more accounts are revoked`] : []),
  ].join('\n')
}

function switchText(position: string, meaning: string | undefined, { since, set_by: by, reason }: ReplyBody): string {
  const author = by === null ? '' : ` by ${by}`
  return [
    `${position}${since === null ? '' : ` since ${since}${author}`}`,
    ...(reason === null ? [] : [`reason: ${reason}`]),
    ...(meaning === undefined ? [] : [meaning]),
  ].join('\n')
}

export const maintenanceText = (reply: ReplyBody): string =>
  reply.maintenance_mode
    ? switchText('maintenance is on', 'new-order and new-authz answer 503; orders that exist can be finished', reply)
    : switchText('maintenance is off', undefined, reply)

export const signingText = (reply: ReplyBody): string =>
  reply.signing_stopped
    ? switchText(
        'signing is stopped',
        'no certificate and no CRL is signed; finalize answers 503 and its order stays ready',
        reply,
      )
    : switchText('signing is not stopped', undefined, reply)

export function workersText({ tasks, consumers }: ReplyBody): string {
  const lines = [...tasks.map(taskLine), ...consumers.map(consumerLine)]
  return tasks.length === 0 ? ['no background task has run yet', ...lines].join('\n') : lines.join('\n')
}

/** Runs are reported a few seconds after they end. */
const LATE_MS = 60_000

function taskLine(task: ReplyBody): string {
  const { name, leader, leader_is_alive: isAlive, last_run, next_run, errors, last_error, failed_at } = task
  const where = `instance ${leader}${isAlive ? '' : ' (gone)'}`
  const trouble = errors === 0 ? '' : `  errors ${errors}, at ${failed_at}: ${last_error}`
  const isLate = Date.now() - Date.parse(next_run) > LATE_MS
  return `${name.padEnd(28)} ${where}  last ${last_run}  ${isLate ? 'due since' : 'next'} ${next_run}${trouble}`
}

function consumerLine({ name, waiting, oldest_seconds: oldestSeconds }: ReplyBody): string {
  const age = waiting > 0 ? `, the oldest for ${oldestSeconds} s` : ''
  return `consumer ${name}: ${waiting} waiting${age}${isBehind({ name, waiting, oldestSeconds }) ? '  BEHIND' : ''}`
}
