/** SQL of passkeys (tables admin_passkeys, admin_answered_challenges). */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { rowsOf, sql } from '../../store/slonik.ts'

const None = z.object({})
const Passkey = z.object({
  id: z.string(),
  user_id: z.string(),
  credential_id: z.string(),
  public_key: z.instanceof(Buffer),
  counter: z.coerce.number(),
  transports: z.array(z.string()),
  name: z.string(),
  created_at: z.date(),
  last_used_at: z.date().nullable(),
})
export type PasskeyRow = z.infer<typeof Passkey>

const columns = sql.fragment`id, user_id, credential_id, public_key, counter, transports, name, created_at, last_used_at`

/** The oldest first. admin_passkeys_user. */
export function listPasskeys(db: CommonQueryMethods, userId: string): Promise<readonly PasskeyRow[]> {
  return db.any(rowsOf(Passkey)`SELECT ${columns} FROM admin_passkeys WHERE user_id = ${userId} ORDER BY id`)
}

export function findPasskey(db: CommonQueryMethods, credentialId: string): Promise<PasskeyRow | null> {
  return db.maybeOne(rowsOf(Passkey)`SELECT ${columns} FROM admin_passkeys WHERE credential_id = ${credentialId}`)
}

type NewPasskey = Omit<PasskeyRow, 'created_at' | 'last_used_at'>

/** Null when the credential is known already. */
export function insertPasskey(tx: CommonQueryMethods, passkey: NewPasskey): Promise<PasskeyRow | null> {
  const { id, user_id, credential_id, public_key, counter, transports, name } = passkey
  return tx.maybeOne(rowsOf(Passkey)`
    INSERT INTO admin_passkeys (id, user_id, credential_id, public_key, counter, transports, name)
    VALUES (${id}, ${user_id}, ${credential_id}, ${sql.binary(public_key)}, ${counter},
            ${sql.array(transports, 'text')}, ${name})
    ON CONFLICT (credential_id) DO NOTHING RETURNING ${columns}`)
}

/** The counter only rises: of two assertions with the same one, a copied passkey made one. @returns false for the second */
export async function notePasskeyUse(tx: CommonQueryMethods, id: string, counter: number): Promise<boolean> {
  const { rowCount } = await tx.query(rowsOf(None)`
    UPDATE admin_passkeys SET counter = ${counter}, last_used_at = now()
     WHERE id = ${id} AND (counter < ${counter} OR (counter = 0 AND ${counter}::bigint = 0))`)
  return rowCount > 0
}

/** @returns null when the user has no such passkey */
export function renamePasskey(tx: CommonQueryMethods, userId: string, id: string, name: string) {
  return tx.maybeOne(rowsOf(Passkey)`
    UPDATE admin_passkeys SET name = ${name} WHERE id = ${id} AND user_id = ${userId} RETURNING ${columns}`)
}

/** @returns null when the user has no such passkey */
export function deletePasskey(tx: CommonQueryMethods, userId: string, id: string): Promise<PasskeyRow | null> {
  return tx.maybeOne(rowsOf(Passkey)`
    DELETE FROM admin_passkeys WHERE id = ${id} AND user_id = ${userId} RETURNING ${columns}`)
}

/** @returns how many there were */
export async function deletePasskeysOf(tx: CommonQueryMethods, userId: string): Promise<number> {
  const { rowCount } = await tx.query(rowsOf(None)`DELETE FROM admin_passkeys WHERE user_id = ${userId}`)
  return rowCount
}

/** @returns false when the challenge was answered before */
export async function useChallenge(tx: CommonQueryMethods, hash: Buffer, expiresAt: Date): Promise<boolean> {
  await tx.query(rowsOf(None)`DELETE FROM admin_answered_challenges WHERE expires_at < slow_now()`)
  const { rowCount } = await tx.query(rowsOf(None)`
    INSERT INTO admin_answered_challenges (challenge, expires_at)
    VALUES (${sql.binary(hash)}, ${expiresAt.toISOString()}::timestamptz) ON CONFLICT DO NOTHING`)
  return rowCount > 0
}
