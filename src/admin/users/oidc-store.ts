/** SQL of users who sign in by OpenID Connect (table admin_user_identities). */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { rowsOf } from '../../store/slonik.ts'
import { findUserForLoginById, type UserForLogin } from '../../store/user-store.ts'

const None = z.object({})
const UserId = z.object({ user_id: z.string() })

interface Identity {
  issuer: string
  subject: string
}

export async function findUserByIdentity(
  db: CommonQueryMethods,
  { issuer, subject }: Identity,
): Promise<UserForLogin | null> {
  const found = await db.maybeOne(rowsOf(UserId)`
    SELECT user_id FROM admin_user_identities WHERE issuer = ${issuer} AND subject = ${subject}`)
  return found && findUserForLoginById(db, found.user_id)
}

/** The provider has just said who it is. */
export async function confirmIdentity(tx: CommonQueryMethods, { issuer, subject }: Identity): Promise<void> {
  await tx.query(rowsOf(None)`
    UPDATE admin_user_identities SET confirmed_at = now() WHERE issuer = ${issuer} AND subject = ${subject}`)
}

export async function insertIdentity(
  tx: CommonQueryMethods,
  { issuer, subject }: Identity,
  userId: string,
): Promise<void> {
  await tx.query(rowsOf(None)`
    INSERT INTO admin_user_identities (issuer, subject, user_id) VALUES (${issuer}, ${subject}, ${userId})`)
}
