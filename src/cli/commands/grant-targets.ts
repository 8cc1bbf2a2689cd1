/** What commands about grants name: an account by id, a credential by kid, a CSR profile by name. */

import { AdminError } from '../../domain/admin-error.ts'
import { UsageError } from '../../shared/command-line/options.ts'
import { isUuid } from '../../shared/lib/uuid.ts'
import { type CredentialRow, findCredentialByKid } from '../../store/admin/credential-store.ts'
import { findProfileByName, type ProfileRow } from '../../store/admin/profile-store.ts'
import type { DatabasePool } from '../../store/slonik.ts'
import { CommandError } from '../values.ts'

export interface GrantTarget {
  account: string | undefined
  eab: string | undefined
}

export function requireOneTarget({ account, eab }: GrantTarget): void {
  if ((account === undefined) === (eab === undefined)) throw new UsageError('give either --account ID or --eab KID')
}

export function requireAccountId(text: string): string {
  if (isUuid(text)) return text
  throw new UsageError(`${JSON.stringify(text)} is no account id; it is the last part of the account URL`)
}

/** Gives "no such account" its id. */
export function ofAccount<T>(accountId: string, work: Promise<T>): Promise<T> {
  return work.catch((error: unknown) => {
    const isUnknown = error instanceof AdminError && error.code === 'not_found'
    throw isUnknown ? new CommandError(`there is no account ${accountId}`) : error
  })
}

/** @throws CommandError */
export async function requireCredential(db: DatabasePool, kid: string): Promise<CredentialRow> {
  const found = await findCredentialByKid(db, kid)
  if (found) return found
  throw new CommandError(`there is no credential with the kid ${JSON.stringify(kid)}`)
}

/** @throws CommandError */
export async function requireProfile(db: DatabasePool, name: string): Promise<ProfileRow> {
  const found = await findProfileByName(db, name)
  if (found) return found
  throw new CommandError(`there is no CSR profile ${JSON.stringify(name)}`)
}
