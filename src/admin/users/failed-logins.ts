/**
 * Failed logins in the audit log, whose entries nobody without an account may multiply.
 *
 * The guesses at a user have an entry each: the lock of the username bounds them. Of the guesses at
 * names that nobody has, the first of each minute have one, and one entry counts the others.
 */

import type { CommonQueryMethods } from 'slonik'
import { isUsername } from '../../domain/administrator.ts'
import type { AuditLog, Note } from '../audit/audit-log.ts'
import { countStranger, takeStrangers } from './failed-login-store.ts'

export interface FailedLogin {
  /** As it was given. */
  username: string
  userId: string | undefined
  /** What this failure has locked. */
  locked: readonly string[]
}

/** Enough to see what is tried; 14,400 rows a day at most. */
export const MOST_STRANGERS_A_MINUTE = 10

export async function noteFailedLogin(tx: CommonQueryMethods, note: Note, failed: FailedLogin): Promise<void> {
  const { username, userId, locked } = failed
  if (userId === undefined && (await countStranger(tx)) > MOST_STRANGERS_A_MINUTE) return
  // What is no username may be a password in the wrong field.
  note('auth.login_failed', { username: isUsername(username) ? username : null }, userId)
  for (const subject of locked) note('auth.locked', { subject }, userId)
}

const SERVICE = { userId: undefined, ipAddress: undefined }

/** The entries of the minutes that are over. */
export function noteStrangers(audit: AuditLog): Promise<void> {
  return audit.onward(SERVICE, async (tx, note) => {
    for (const { minute, failures } of await takeStrangers(tx)) {
      const others = failures - MOST_STRANGERS_A_MINUTE
      if (others > 0) note('auth.login_failed', { others, minute })
    }
  })
}
