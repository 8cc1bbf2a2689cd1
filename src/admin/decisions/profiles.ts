/** Brings back what CSR profiles refuse. Of two profiles the tighter one counts; where that cannot be told, the recorded one. */

import * as z from 'zod/v4'
import { tighterProfile } from '../../domain/tighter-profile.ts'
import type { Transaction } from '../audit/audit-log.ts'
import { accountExists } from '../certificates/account-list.ts'
import { findCredential, lockCredential, lockGrantsOfAccount } from '../eab/credential-store.ts'
import {
  accountsFallingBack,
  assignToAccount,
  assignToCredential,
  findFallbackProfile,
  findProfile,
  findProfileByName,
  findProfileOfAccount,
  findProfileOfCredential,
  holdProfile,
  insertProfile,
  lockProfile,
  type ProfileRow,
  replaceProfile,
  unassignFromAccount,
} from '../profiles/profile-store.ts'
import { restoredAs, restoring } from './restore.ts'

const Named = z.object({ profile_id: z.string() })
const WithData = Named.extend({
  name: z.string(),
  description: z.string().nullish(),
  profile_data: z.record(z.string(), z.unknown()),
})

/** PostgreSQL takes 255 characters. */
const MOST_OF_NAME = 200

const create = restoring(WithData, async (tx, { profile_id: id, name, description, profile_data: data }, { entry }) => {
  if (await findProfile(tx, id)) return 'overtaken'
  const isTaken = (await findProfileByName(tx, name)) !== null
  const free = isTaken ? `${name.slice(0, MOST_OF_NAME)} (${id})` : name
  const made = await insertProfile(
    tx,
    id,
    { name: free, description: description ?? undefined, data },
    entry?.user_id ?? undefined,
  )
  return made ? 'restored' : 'lost'
})

/** Its name stays: another profile may have it. */
const update = restoring(WithData, async (tx, { profile_id: id, name: newName, profile_data: wanted }) => {
  const now = await lockProfile(tx, id)
  if (!now) return 'overtaken'
  const tighter = tighterProfile(now.profile_data, wanted)
  const { name, description } = now
  if (tighter.isChanged)
    await replaceProfile(tx, id, { name, description: description ?? undefined, data: tighter.data })
  return restoredAs({ ...tighter, isWhole: tighter.isWhole && name === newName })
})

const RESTRICTS = { isChanged: true, isWhole: true }

/** In the place of another profile it may loosen, and then stays away. */
async function assigned(
  tx: Transaction,
  profileId: string,
  now: ProfileRow | null,
  assign: () => Promise<boolean>,
): ReturnType<typeof create> {
  const wanted = await holdProfile(tx, profileId)
  if (!wanted) return 'lost'
  const isOther = now !== null && now.id !== profileId
  const { isChanged, isWhole } = isOther ? tighterProfile(now.profile_data, wanted.profile_data) : RESTRICTS
  if (!isChanged && !isWhole) return 'lost'
  return (await assign()) ? restoredAs({ isChanged: true, isWhole }) : 'overtaken'
}

/** @returns whether the account has the profile of its credential now, which is as tight */
async function fallenBack(tx: Transaction, profileId: string, accountId: string): Promise<boolean | undefined> {
  if (!(await lockGrantsOfAccount(tx, accountId))) return undefined
  const own = await findProfileOfAccount(tx, accountId)
  if (own?.id !== profileId || own.eab_credential_id !== null) return undefined
  const fallback = await findFallbackProfile(tx, accountId)
  const isAsTight = fallback !== null && tighterProfile(own.profile_data, fallback.profile_data).isWhole
  return isAsTight && unassignFromAccount(tx, profileId, accountId)
}

export const PROFILE_RESTORES = {
  'csr_profile.create': create,
  'csr_profile.update': update,
  'csr_profile.delete': restoring(Named, async (tx, { profile_id: id }) => {
    if (!(await findProfile(tx, id))) return 'overtaken'
    let isChanged = false
    for (const account of await accountsFallingBack(tx, id)) if (await fallenBack(tx, id, account)) isChanged = true
    return restoredAs({ isChanged, isWhole: false })
  }),
  'csr_profile.assign': restoring(
    Named.extend({ account_id: z.string() }),
    async (tx, { profile_id: profile, account_id: id }, { entry }) => {
      if (!(await accountExists(tx, id, undefined))) return 'overtaken'
      const now = await findProfileOfAccount(tx, id)
      return assigned(tx, profile, now, () => assignToAccount(tx, profile, id, entry?.user_id ?? undefined))
    },
  ),
  'csr_profile.unassign': restoring(
    Named.extend({ account_id: z.string() }),
    async (tx, { profile_id: profile, account_id: id }) => {
      const isBack = await fallenBack(tx, profile, id)
      return isBack === undefined ? 'overtaken' : isBack ? 'restored' : 'lost'
    },
  ),
  'eab.assign_csr_profile': restoring(
    Named.extend({ eab_id: z.string() }),
    async (tx, { profile_id: profile, eab_id: id }, { entry }) => {
      await lockCredential(tx, id)
      if (!(await findCredential(tx, id, undefined))) return 'overtaken'
      const now = await findProfileOfCredential(tx, id)
      return assigned(tx, profile, now, () => assignToCredential(tx, profile, id, entry?.user_id ?? undefined))
    },
  ),
}
