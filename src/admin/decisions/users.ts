/** Brings back what was taken from administrators: rights, passwords, sessions, tokens and passkeys. */

import * as z from 'zod/v4'
import { ROLES } from '../../domain/administrator.ts'
import { lesserAuthority } from '../../domain/permissions.ts'
import {
  deleteUser,
  findUser,
  findUserForLoginById,
  lockUsers,
  setPassword,
  updateUser,
} from '../../store/user-store.ts'
import type { Transaction } from '../audit/audit-log.ts'
import { findApiTokenById, markRevoked } from '../users/api-tokens.ts'
import { deletePasskey, deletePasskeysOf } from '../users/passkey-store.ts'
import { NO_PASSWORD } from '../users/passwords.ts'
import { deleteSession, deleteSessionsOf, endAccess, endSessionOf } from '../users/sessions.ts'
import { changesOf } from '../users/users.ts'
import { changed, type Restore, restoredAs, restoredIf, restoring } from './restore.ts'

/** For acts about one of the users of an entry. The users are locked, as for every change of them. */
const about =
  (who: 'user_id' | 'target_user_id') =>
  <T>(details: z.ZodType<T>, restore: (tx: Transaction, userId: string, details: T) => ReturnType<Restore>): Restore =>
    restoring(details, async (tx, known, { entry }) => {
      const id = entry?.[who]
      if (!id) return 'lost'
      await lockUsers(tx)
      return restore(tx, id, known)
    })
const ofAuthor = about('user_id')
const ofUser = about('target_user_id')

const Anything = z.object({})

/** @returns whether there was any */
async function endAll(tx: Transaction, userId: string): Promise<boolean> {
  const sessions = await deleteSessionsOf(tx, userId)
  return (await endAccess(tx, userId)) + sessions > 0
}

const Change = z.object({
  username: changed(z.string()),
  email: changed(z.string()),
  enabled: changed(z.boolean()),
  role: changed(z.enum(ROLES)),
  scope: changed(z.array(z.string())),
})

/**
 * Where two roles have no order, the recorded one counts. The name is not restored: another user may have it. The last admin is
 * not protected here.
 */
const update = ofUser(Change, async (tx, id, { username, email, enabled, role, scope }) => {
  const now = await findUser(tx, id)
  if (!now) return 'overtaken'
  const wanted = {
    username: username?.after ?? now.username,
    email: email?.after ?? now.email,
    enabled: enabled?.after ?? now.enabled,
    role: role?.after ?? now.role,
    scope: scope?.after ?? now.scope,
  }
  const rights = role || scope ? (lesserAuthority(wanted, now) ?? wanted) : now
  const after = {
    ...wanted,
    username: now.username,
    enabled: now.enabled && wanted.enabled,
    role: rights.role,
    scope: [...rights.scope],
  }
  const isChanged = Object.keys(changesOf(now, after)).length > 0
  if (isChanged) await updateUser(tx, id, after)
  const isEnded = enabled?.after === false && (await endAll(tx, id))
  return restoredAs({
    isChanged: isChanged || isEnded,
    isWhole: Object.keys(changesOf(after, wanted)).length === 0,
  })
})

/** A record has no hash: a person gives another password. */
const withoutPassword = (end: (tx: Transaction, userId: string) => Promise<boolean>) =>
  ofUser(Anything, async (tx, id) => {
    const user = await findUserForLoginById(tx, id)
    if (!user) return 'overtaken'
    const isUsable = user.password_hash !== NO_PASSWORD
    if (isUsable) await setPassword(tx, id, NO_PASSWORD)
    const isEnded = await end(tx, id)
    return isUsable ? 'partly' : restoredIf(isEnded)
  })

const Logout = z.union([z.object({ session_id: z.string() }), z.object({ sessions: z.number() })])

export const USER_RESTORES = {
  'auth.login_failed': ofAuthor(Anything, async (tx, id) => restoredIf(await endAll(tx, id))),
  'auth.logout': ofAuthor(Logout, async (tx, id, ended) => {
    if ('session_id' in ended) return restoredIf((await deleteSession(tx, ended.session_id)) !== undefined)
    return restoredIf((await deleteSessionsOf(tx, id)) > 0)
  }),
  'user.update': update,
  'user.delete': ofUser(Anything, async (tx, id) => {
    const user = await findUser(tx, id)
    if (user) await deleteUser(tx, id)
    return restoredIf(user !== null)
  }),
  'user.reset_password': withoutPassword(endAll),
  // Tokens stay, as they did.
  'user.change_password': withoutPassword(async (tx, id) => (await deleteSessionsOf(tx, id)) > 0),
  'user.end_session': ofUser(z.object({ session_id: z.string() }), async (tx, id, { session_id }) =>
    restoredIf(await endSessionOf(tx, id, session_id)),
  ),
  'user.remove_passkey': ofUser(z.object({ passkey_id: z.string() }), async (tx, id, { passkey_id }) =>
    restoredIf((await deletePasskey(tx, id, passkey_id)) !== null),
  ),
  'user.reset_second_factor': ofUser(Anything, async (tx, id) => {
    const passkeys = await deletePasskeysOf(tx, id)
    return restoredIf((await endAll(tx, id)) || passkeys > 0)
  }),
  'token.revoke': restoring(z.object({ token_id: z.string() }), async (tx, { token_id: id }) => {
    const token = await findApiTokenById(tx, id)
    const isGood = token !== null && token.revoked_at === null
    if (isGood) await markRevoked(tx, id)
    return restoredIf(isGood)
  }),
}
