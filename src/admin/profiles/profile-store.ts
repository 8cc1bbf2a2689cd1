/**
 * SQL of CSR profiles for administrators.
 *
 * account_csr_profiles is the profile that counts for an account, as the ACME side reads it. A row
 * without eab_credential_id was assigned to the account itself; the others are copies of its
 * credential's profile. A profile of the account itself hides the copy, and gives way to it.
 */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { ALL_ROWS, pageById, type ReadPage } from '../../store/list-page.ts'
import { rowsOf, sql } from '../../store/slonik.ts'

const Profile = z.object({
  id: z.string(),
  name: z.string(),
  description: z.string().nullable(),
  profile_data: z.record(z.string(), z.unknown()),
  created_by: z.string().nullable(),
  created_at: z.date(),
  updated_at: z.date(),
})
export type ProfileRow = z.infer<typeof Profile>

/** It comes with the first of the accounts for which it counts, by their own or by their credential. */
const WithAccounts = Profile.extend({ account_ids: z.array(z.string()), more_accounts: z.boolean() })
type ProfileWithAccounts = z.infer<typeof WithAccounts>

/** Through which credential it counts; null for a profile of the account itself. */
const OfAccount = Profile.extend({ eab_credential_id: z.string().nullable() })
type ProfileOfAccount = z.infer<typeof OfAccount>

const Id = z.object({ id: z.string() })
const columns = sql.fragment`
  p.id, p.name, p.description, p.profile_data, p.created_by, p.created_at, p.updated_at`

export function isAnyProfileStored(db: CommonQueryMethods): Promise<boolean> {
  return db.exists(rowsOf(Id)`SELECT id FROM csr_profiles`)
}

/** Along csr_profiles_pkey, without numbers: a profile may have any number of accounts. */
export function pagesOfProfiles(db: CommonQueryMethods, name?: string): ReadPage<ProfileRow> {
  const named = name === undefined ? ALL_ROWS : sql.fragment`p.name = ${name}`
  return pageById(sql.fragment`p.id`, (condition, limit) =>
    db.any(rowsOf(Profile)`
      SELECT ${columns} FROM csr_profiles p WHERE ${condition} AND ${named} ORDER BY p.id DESC LIMIT ${limit}`),
  )
}

export function findProfile(db: CommonQueryMethods, id: string): Promise<ProfileRow | null> {
  return db.maybeOne(rowsOf(Profile)`SELECT ${columns} FROM csr_profiles p WHERE p.id = ${id}`)
}

const MOST_IDS = 10_000

export function findProfileByName(db: CommonQueryMethods, name: string): Promise<ProfileRow | null> {
  return db.maybeOne(rowsOf(Profile)`SELECT ${columns} FROM csr_profiles p WHERE p.name = ${name}`)
}

export function findProfileWithAccounts(db: CommonQueryMethods, id: string): Promise<ProfileWithAccounts | null> {
  return db.maybeOne(rowsOf(WithAccounts)`
    SELECT ${columns},
           ARRAY(SELECT a.account_id::text FROM account_csr_profiles a WHERE a.csr_profile_id = p.id
                  ORDER BY a.account_id LIMIT ${MOST_IDS}) AS account_ids,
           EXISTS (SELECT FROM account_csr_profiles a WHERE a.csr_profile_id = p.id OFFSET ${MOST_IDS}) AS more_accounts
      FROM csr_profiles p WHERE p.id = ${id}`)
}

export function findProfileOfAccount(db: CommonQueryMethods, accountId: string): Promise<ProfileOfAccount | null> {
  return db.maybeOne(rowsOf(OfAccount)`
    SELECT ${columns}, a.eab_credential_id FROM account_csr_profiles a JOIN csr_profiles p ON p.id = a.csr_profile_id
     WHERE a.account_id = ${accountId}`)
}

export function findProfileOfCredential(db: CommonQueryMethods, credentialId: string): Promise<ProfileRow | null> {
  return db.maybeOne(rowsOf(Profile)`
    SELECT ${columns} FROM eab_csr_profiles e JOIN csr_profiles p ON p.id = e.csr_profile_id
     WHERE e.eab_credential_id = ${credentialId}`)
}

/** Finds the profile that an account would have without its own. */
export function findFallbackProfile(db: CommonQueryMethods, accountId: string): Promise<ProfileRow | null> {
  return db.maybeOne(rowsOf(Profile)`
    SELECT ${columns} FROM accounts c JOIN eab_csr_profiles e USING (eab_credential_id) JOIN csr_profiles p ON p.id = e.csr_profile_id
     WHERE c.id = ${accountId}`)
}

/** Accounts that have this profile themselves, and another one by their credential. account_csr_profiles_profile */
export async function accountsFallingBack(db: CommonQueryMethods, profileId: string): Promise<string[]> {
  const rows = await db.any(rowsOf(Id)`
    SELECT a.account_id AS id
      FROM account_csr_profiles a JOIN accounts c ON c.id = a.account_id JOIN eab_csr_profiles e ON e.eab_credential_id = c.eab_credential_id
     WHERE a.csr_profile_id = ${profileId} AND a.eab_credential_id IS NULL AND e.csr_profile_id <> a.csr_profile_id`)
  return rows.map(({ id }) => id)
}

export interface WantedProfile {
  name: string
  description: string | undefined
  data: object
}

/** Null when the name is taken. */
export function insertProfile(
  tx: CommonQueryMethods,
  id: string,
  { name, description, data }: WantedProfile,
  createdBy: string | undefined,
): Promise<ProfileRow | null> {
  return tx.maybeOne(rowsOf(Profile)`
    INSERT INTO csr_profiles AS p (id, name, description, profile_data, created_by)
    VALUES (${id}, ${name}, ${description ?? null}, ${JSON.stringify(data)}::jsonb, ${createdBy ?? null})
    ON CONFLICT (name) DO NOTHING RETURNING ${columns}`)
}

/** Locked until the transaction ends. */
export function lockProfile(tx: CommonQueryMethods, id: string): Promise<ProfileRow | null> {
  return tx.maybeOne(rowsOf(Profile)`SELECT ${columns} FROM csr_profiles p WHERE p.id = ${id} FOR NO KEY UPDATE`)
}

/** Keeps the profile from being deleted until the transaction ends. */
export function holdProfile(tx: CommonQueryMethods, id: string): Promise<ProfileRow | null> {
  return tx.maybeOne(rowsOf(Profile)`SELECT ${columns} FROM csr_profiles p WHERE p.id = ${id} FOR KEY SHARE`)
}

/** Null when it is already so. @throws UniqueIntegrityConstraintViolationError for a taken name */
export function replaceProfile(
  tx: CommonQueryMethods,
  id: string,
  { name, description, data }: WantedProfile,
): Promise<ProfileRow | null> {
  return tx.maybeOne(rowsOf(Profile)`
    UPDATE csr_profiles AS p
       SET name = i.name, description = i.description, profile_data = i.profile_data, updated_at = now()
      FROM (SELECT ${name}::text AS name, ${description ?? null}::text AS description,
                   ${JSON.stringify(data)}::jsonb AS profile_data) i
     WHERE p.id = ${id} AND (p.name, p.description, p.profile_data) IS DISTINCT FROM (i.name, i.description, i.profile_data)
    RETURNING ${columns}`)
}

/** Deletes it with every assignment. Accounts fall back to the profile of their credential. */
export async function deleteProfile(tx: CommonQueryMethods, id: string): Promise<void> {
  await tx.query(rowsOf(Id)`
    SELECT e.id FROM eab_credentials e
     WHERE e.id IN (SELECT c.eab_credential_id FROM account_csr_profiles a JOIN accounts c ON c.id = a.account_id
                     WHERE a.csr_profile_id = ${id} AND a.eab_credential_id IS NULL)
     ORDER BY e.id FOR SHARE`)
  await tx.query(rowsOf(Id)`
    UPDATE account_csr_profiles a SET csr_profile_id = e.csr_profile_id, eab_credential_id = e.eab_credential_id
      FROM accounts c JOIN eab_csr_profiles e USING (eab_credential_id)
     WHERE a.csr_profile_id = ${id} AND a.eab_credential_id IS NULL
       AND c.id = a.account_id AND e.csr_profile_id <> a.csr_profile_id`)
  await tx.query(rowsOf(Id)`DELETE FROM csr_profiles WHERE id = ${id}`)
}

/** Whether something changed: it was not the profile of the account itself before. */
export async function assignToAccount(
  tx: CommonQueryMethods,
  profileId: string,
  accountId: string,
  assignedBy: string | undefined,
): Promise<boolean> {
  const changed = await tx.maybeOne(rowsOf(Id)`
    INSERT INTO account_csr_profiles AS a (account_id, csr_profile_id, assigned_by)
    VALUES (${accountId}, ${profileId}, ${assignedBy ?? null})
    ON CONFLICT (account_id) DO UPDATE
       SET csr_profile_id = excluded.csr_profile_id, eab_credential_id = NULL, assigned_by = excluded.assigned_by
     WHERE a.csr_profile_id <> excluded.csr_profile_id OR a.eab_credential_id IS NOT NULL
    RETURNING a.account_id AS id`)
  return changed !== null
}

/** Takes back the profile of the account itself; its credential's grants are locked. */
export async function unassignFromAccount(tx: CommonQueryMethods, profileId: string, accountId: string) {
  const fallenBack = await tx.maybeOne(rowsOf(Id)`
    UPDATE account_csr_profiles a
       SET csr_profile_id = e.csr_profile_id, eab_credential_id = e.eab_credential_id, assigned_by = e.assigned_by
      FROM accounts c JOIN eab_csr_profiles e USING (eab_credential_id)
     WHERE a.account_id = ${accountId} AND a.csr_profile_id = ${profileId} AND a.eab_credential_id IS NULL
       AND c.id = a.account_id
    RETURNING a.account_id AS id`)
  if (fallenBack) return true
  const removed = await tx.maybeOne(rowsOf(Id)`
    DELETE FROM account_csr_profiles
     WHERE account_id = ${accountId} AND csr_profile_id = ${profileId} AND eab_credential_id IS NULL
    RETURNING account_id AS id`)
  return removed !== null
}

/** To the credential, and to its accounts without a profile of their own. The credential is locked. */
export async function assignToCredential(
  tx: CommonQueryMethods,
  profileId: string,
  credentialId: string,
  assignedBy: string | undefined,
): Promise<boolean> {
  const changed = await tx.maybeOne(rowsOf(Id)`
    INSERT INTO eab_csr_profiles AS e (eab_credential_id, csr_profile_id, assigned_by)
    VALUES (${credentialId}, ${profileId}, ${assignedBy ?? null})
    ON CONFLICT (eab_credential_id) DO UPDATE
       SET csr_profile_id = excluded.csr_profile_id, assigned_by = excluded.assigned_by
     WHERE e.csr_profile_id <> excluded.csr_profile_id
    RETURNING e.eab_credential_id AS id`)
  if (!changed) return false
  await tx.query(rowsOf(Id)`
    INSERT INTO account_csr_profiles AS a (account_id, csr_profile_id, eab_credential_id, assigned_by)
    SELECT id, ${profileId}, ${credentialId}, ${assignedBy ?? null} FROM accounts WHERE eab_credential_id = ${credentialId}
    ON CONFLICT (account_id) DO UPDATE SET csr_profile_id = excluded.csr_profile_id, assigned_by = excluded.assigned_by
     WHERE a.eab_credential_id IS NOT NULL`)
  return true
}

export async function unassignFromCredential(tx: CommonQueryMethods, profileId: string, credentialId: string) {
  const removed = await tx.maybeOne(rowsOf(Id)`
    DELETE FROM eab_csr_profiles WHERE eab_credential_id = ${credentialId} AND csr_profile_id = ${profileId}
    RETURNING eab_credential_id AS id`)
  if (!removed) return false
  await tx.query(rowsOf(Id)`
    DELETE FROM account_csr_profiles a USING accounts c
     WHERE c.eab_credential_id = ${credentialId} AND a.account_id = c.id AND a.eab_credential_id = ${credentialId}`)
  return true
}

/** For the audit log. */
export const profileDetails = ({ id, name }: ProfileRow) => ({ profile_id: id, name })
