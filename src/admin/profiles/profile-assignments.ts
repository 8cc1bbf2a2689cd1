/**
 * CSR profiles of accounts and binding credentials. A profile of the account itself wins over its
 * credential's. Taking one back leaves the other.
 */

import * as z from 'zod/v4'
import { notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { scopeOf } from '../../domain/permissions.ts'
import { accountExists } from '../../store/account-list.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import type { AuditLog, Note, Transaction } from '../audit/audit-log.ts'
import { lockCredential, lockGrantsOfAccount } from '../eab/credential-store.ts'
import { uuid } from '../schemas.ts'
import { CsrProfile, csrProfileBody } from './profile-endpoints.ts'
import {
  assignToAccount,
  assignToCredential,
  findProfileOfAccount,
  holdProfile,
  type ProfileRow,
  profileDetails,
  unassignFromAccount,
  unassignFromCredential,
} from './profile-store.ts'

const CsrProfileOfAccount = z
  .strictObject({
    ...CsrProfile.shape,
    eab_credential_id: z
      .uuid()
      .nullable()
      .meta({ description: 'The credential through which it counts; null for a profile of the account itself.' }),
  })
  .meta({ id: 'CsrProfileOfAccount' })

const associationParams = z.strictObject({ profile_id: uuid(), account_id: uuid() })

export const CSR_PROFILE_ASSIGNMENTS = endpointGroup('CSR profiles', {
  assignCsrProfile: endpoint({
    route: 'PUT /csr-profiles/{profile_id}/accounts/{account_id}',
    permission: 'administer',
    summary: 'Gives a profile to an account itself, where it wins over the profile of its credential.',
    params: associationParams,
    reply: { status: 204 },
    errors: ['not_found'],
    audit: 'csr_profile.assign',
    async handle({ params, author }, { audit }) {
      await giveToAccount(audit, author, params.profile_id, params.account_id)
      return {}
    },
  }),
  unassignCsrProfile: endpoint({
    route: 'DELETE /csr-profiles/{profile_id}/accounts/{account_id}',
    permission: 'administer',
    summary: 'Takes it back: the account has the profile of its credential, or none.',
    params: associationParams,
    reply: { status: 204 },
    errors: ['not_found'],
    audit: 'csr_profile.unassign',
    async handle({ params, author }, { audit }) {
      await takeFromAccount(audit, author, params.profile_id, params.account_id)
      return {}
    },
  }),
  getCsrProfileOfAccount: endpoint({
    route: 'GET /accounts/{account_id}/csr-profile',
    permission: 'read_accounts',
    scope: 'accounts',
    summary: 'Shows the profile that counts for an account, or null.',
    params: z.strictObject({ account_id: uuid() }),
    reply: { status: 200, schema: CsrProfileOfAccount.nullable() },
    errors: ['not_found'],
    async handle({ params, author }, { db }) {
      if (!(await accountExists(db, params.account_id, scopeOf(author)))) throw notFound('account')
      const profile = await findProfileOfAccount(db, params.account_id)
      return { body: profile && { ...csrProfileBody(profile), eab_credential_id: profile.eab_credential_id } }
    },
  }),
})

export function giveToAccount(audit: AuditLog, actor: Actor, profileId: string, accountId: string): Promise<void> {
  return audit.transaction(actor, async (tx, note) => {
    const profile = await requireHeld(tx, profileId)
    if (!(await accountExists(tx, accountId, scopeOf(actor)))) throw notFound('account')
    if (await assignToAccount(tx, profileId, accountId, actor.userId))
      note('csr_profile.assign', { ...profileDetails(profile), account_id: accountId })
  })
}

function takeFromAccount(audit: AuditLog, actor: Actor, profileId: string, accountId: string): Promise<void> {
  return audit.transaction(actor, async (tx, note) => {
    if (!(await lockGrantsOfAccount(tx, accountId))) throw notFound('account')
    const profile = await requireHeld(tx, profileId)
    if (await unassignFromAccount(tx, profileId, accountId))
      note('csr_profile.unassign', { ...profileDetails(profile), account_id: accountId })
  })
}

export function giveToCredential(
  audit: AuditLog,
  actor: Actor,
  profileId: string,
  credentialId: string,
): Promise<void> {
  return audit.transaction(actor, async (tx, note) => {
    if (!(await lockCredential(tx, credentialId))) throw notFound('credential')
    await grantProfile(tx, note, actor, credentialId, await requireHeld(tx, profileId))
  })
}

export function takeFromCredential(
  audit: AuditLog,
  actor: Actor,
  profileId: string,
  credentialId: string,
): Promise<void> {
  return audit.transaction(actor, async (tx, note) => {
    if (!(await lockCredential(tx, credentialId))) throw notFound('credential')
    const profile = await requireHeld(tx, profileId)
    if (await unassignFromCredential(tx, profileId, credentialId))
      note('eab.unassign_csr_profile', { eab_id: credentialId, ...profileDetails(profile) })
  })
}

/** For a credential that is locked or was made in this transaction. */
export async function grantProfile(
  tx: Transaction,
  note: Note,
  actor: Actor,
  credentialId: string,
  profile: ProfileRow,
): Promise<void> {
  if (await assignToCredential(tx, profile.id, credentialId, actor.userId))
    note('eab.assign_csr_profile', { eab_id: credentialId, ...profileDetails(profile) })
}

export async function requireHeld(tx: Transaction, profileId: string): Promise<ProfileRow> {
  return (await holdProfile(tx, profileId)) ?? Promise.reject(notFound('CSR profile'))
}
