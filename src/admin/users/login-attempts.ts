/**
 * Failed logins: they lock the username and the address, and the audit log records them.
 *
 * The guesses at a user have an entry each: the lock of the username bounds them. Guesses at unknown names could fill the
 * log: the first of each minute have an entry, and one entry counts the others.
 */

import type { CommonQueryMethods, DatabasePool } from 'slonik'
import * as z from 'zod/v4'
import { AdminError } from '../../domain/admin-error.ts'
import { isUsername } from '../../domain/administrator.ts'
import {
  addressSubject,
  KNOWN_ADDRESS_HOURS,
  LOGIN_LIMIT,
  MOST_OF_ADDRESS,
  MOST_OF_USERNAME,
  secondFactorSubject,
  usernameSubject,
} from '../../domain/rate-limit.ts'
import { countedAddress } from '../../shared/lib/ip-address.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import type { UserForLogin } from '../../store/user-store.ts'
import type { AuditLog } from '../audit/audit-log.ts'

/** An id that no user has. */
const NOBODY = '00000000-0000-0000-0000-000000000000'
/** Entries of guesses at unknown names: enough to see what is tried, and 14,400 rows a day at most. */
const MOST_STRANGERS_A_MINUTE = 10

interface LoginAttempt {
  user: UserForLogin | null
  /** The client gave it so. */
  username: string
  ipAddress: string
}

/** By the stored name: all spellings that the database takes for one user share one lock. */
const subjectsOf = ({ user, username, ipAddress }: LoginAttempt): readonly [address: string, name: string] => [
  addressSubject(ipAddress),
  usernameSubject(user?.username ?? username),
]

/**
 * Locked means locked, with the right password too.
 * @returns whether the user has signed in from the address lately
 * @throws AdminError rate_limited
 */
export async function requireUnlocked(db: DatabasePool, attempt: LoginAttempt): Promise<boolean> {
  const { user, ipAddress } = attempt
  // Asked for an unknown user as well, who must cost the same time.
  const isKnown = await isKnownAddress(db, user?.id ?? NOBODY, countedAddress(ipAddress))
  await requireFree(db, isKnown ? [addressSubject(ipAddress)] : subjectsOf(attempt))
  return isKnown
}

/** For a change by a signed-in user. @throws AdminError rate_limited while the name or the address is locked */
export const requireNoLock = (db: DatabasePool, attempt: LoginAttempt) => requireFree(db, subjectsOf(attempt))

async function requireFree(db: DatabasePool, subjects: readonly string[]): Promise<void> {
  const seconds = await lockedFor(db, subjects)
  if (seconds === 0) return
  throw new AdminError('rate_limited', `too many failed logins; try again in ${seconds} seconds`, {
    retryAfterSeconds: seconds,
  })
}

/** @returns whether the address has failed so often that it is answered slowly */
export async function noteFailure(db: DatabasePool, audit: AuditLog, attempt: LoginAttempt): Promise<boolean> {
  const { user, username, ipAddress } = attempt
  await forgetOldFailures(db)
  const [address, name] = subjectsOf(attempt)
  return audit.transaction({ userId: user?.id, ipAddress }, async (tx, note) => {
    const ofAddress = await countFailure(tx, address, MOST_OF_ADDRESS)
    const ofName = await countFailure(tx, name, MOST_OF_USERNAME)
    const locked = [...(ofAddress.locked ? [address] : []), ...(ofName.locked ? [name] : [])]
    if (user || (await hasRoomForStranger(tx))) {
      // A text that is no username may be a password in the wrong field.
      note('auth.login_failed', { username: isUsername(username) ? username : null }, user?.id)
      for (const subject of locked) note('auth.locked', { subject }, user?.id)
    }
    return ofAddress.failures >= MOST_OF_USERNAME
  })
}

/** Counts a failure of a stranger. @returns whether it gets an entry of its own */
export async function hasRoomForStranger(tx: CommonQueryMethods): Promise<boolean> {
  return (await countStranger(tx)) <= MOST_STRANGERS_A_MINUTE
}

const NO_LOCK = 2_147_483_647

/**
 * A right password, behind which a passkey is asked for. The first in five minutes has an entry, and the first after a
 * sign-in: who knows the password alone cannot fill the log.
 */
export function noteSecondFactorAsked(
  audit: AuditLog,
  { id, username }: UserForLogin,
  ipAddress: string,
): Promise<void> {
  return audit.transaction({ userId: id, ipAddress }, async (tx, note) => {
    const { failures } = await countFailure(tx, secondFactorSubject(username), NO_LOCK)
    if (failures === 1) note('auth.second_factor_asked', { username }, id)
  })
}

const SERVICE = { userId: undefined, ipAddress: undefined }

/** The entries of the minutes that are over. */
export function noteStrangers(audit: AuditLog): Promise<void> {
  return audit.continueWithoutAuthor(SERVICE, async (tx, note) => {
    for (const { minute, failures } of await takeStrangers(tx)) {
      const others = failures - MOST_STRANGERS_A_MINUTE
      if (others > 0) note('auth.login_failed', { others, minute })
    }
  })
}

const None = z.object({})
const Locked = z.object({ seconds: z.number() })

/** @returns seconds until the first of the subjects is free; 0 when none is locked */
async function lockedFor(db: CommonQueryMethods, subjects: readonly string[]): Promise<number> {
  const row = await db.one(rowsOf(Locked)`
    SELECT greatest(0, ceil(coalesce(max(extract(epoch FROM locked_until - now())), 0)))::float8 AS seconds
      FROM admin_login_limits WHERE subject = ANY (${sql.array([...subjects], 'text')})`)
  return row.seconds
}

const Failure = z.object({ failures: z.int(), locked: z.boolean() })

/** Counts a failure. @param most with which the subject is locked */
function countFailure(tx: CommonQueryMethods, subject: string, most: number): Promise<z.infer<typeof Failure>> {
  const { windowSeconds, lockSeconds } = LOGIN_LIMIT
  const window = sql.fragment`make_interval(secs => ${windowSeconds})`
  const isOver = sql.fragment`coalesce(l.locked_until, l.window_began_at + ${window}) < now()`
  return tx.one(rowsOf(Failure)`
    INSERT INTO admin_login_limits AS l (subject, failures, window_began_at) VALUES (${subject}, 1, now())
    ON CONFLICT (subject) DO UPDATE SET
      failures = CASE WHEN ${isOver} THEN 1 ELSE l.failures + 1 END,
      window_began_at = CASE WHEN ${isOver} THEN now() ELSE l.window_began_at END,
      locked_until = CASE WHEN NOT (${isOver}) AND l.failures + 1 >= ${most}
                          THEN now() + make_interval(secs => ${lockSeconds}) END
    RETURNING failures, coalesce(locked_until > now(), false) AS locked`)
}

export async function forgetFailures(tx: CommonQueryMethods, subjects: readonly string[]): Promise<number> {
  const { rowCount } = await tx.query(rowsOf(None)`
    DELETE FROM admin_login_limits WHERE subject = ANY (${sql.array([...subjects], 'text')})`)
  return rowCount
}

/** Entries that neither count nor lock any more. */
async function forgetOldFailures(db: CommonQueryMethods): Promise<number> {
  const { rowCount } = await db.query(rowsOf(None)`
    DELETE FROM admin_login_limits
     WHERE coalesce(locked_until, window_began_at + make_interval(secs => ${LOGIN_LIMIT.windowSeconds})) < slow_now()`)
  return rowCount
}

export async function noteLoginAddress(tx: CommonQueryMethods, userId: string, ipAddress: string): Promise<void> {
  await tx.query(rowsOf(None)`
    INSERT INTO admin_login_addresses (user_id, ip_address, last_login_at) VALUES (${userId}, ${ipAddress}, now())
    ON CONFLICT (user_id, ip_address) DO UPDATE SET last_login_at = now()`)
  await tx.query(rowsOf(None)`
    DELETE FROM admin_login_addresses
     WHERE user_id = ${userId} AND last_login_at < slow_now() - make_interval(hours => ${KNOWN_ADDRESS_HOURS})`)
}

/** Whether the user has signed in from this address lately. */
function isKnownAddress(db: CommonQueryMethods, userId: string, ipAddress: string): Promise<boolean> {
  return db.exists(rowsOf(None)`
    SELECT FROM admin_login_addresses WHERE user_id = ${userId} AND ip_address = ${ipAddress}
       AND last_login_at > now() - make_interval(hours => ${KNOWN_ADDRESS_HOURS})`)
}

const Count = z.object({ failures: z.int() })
const Minute = Count.extend({ minute: z.date() })

/** @returns how many there are in this minute, this one included */
async function countStranger(tx: CommonQueryMethods): Promise<number> {
  const { failures } = await tx.one(rowsOf(Count)`
    INSERT INTO admin_failed_logins AS f (minute, failures) VALUES (date_trunc('minute', now()), 1)
    ON CONFLICT (minute) DO UPDATE SET failures = f.failures + 1 RETURNING failures`)
  return failures
}

/** Removes the minutes that are over (table admin_failed_logins). */
function takeStrangers(tx: CommonQueryMethods): Promise<readonly z.infer<typeof Minute>[]> {
  return tx.any(rowsOf(Minute)`
    DELETE FROM admin_failed_logins WHERE minute < date_trunc('minute', now()) - interval '1 minute'
    RETURNING minute, failures`)
}
