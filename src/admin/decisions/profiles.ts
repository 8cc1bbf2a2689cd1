/** Brings back what CSR profiles refuse. Of two profiles the tighter one counts; where that cannot be told, the recorded one. */

import { isDeepStrictEqual } from 'node:util'
import * as z from 'zod/v4'
import { domain } from '../../domain/csr-profile.ts'
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

type Data = Readonly<Record<string, unknown>>

interface Tighter {
  data: Data
  /** It refuses more than the first does. */
  isChanged: boolean
  /** It is the second one: nothing that this allows is refused. False where members have no order. */
  isWhole: boolean
}

const listed = (one: string[], other: string[]) => other.filter((value) => one.includes(value))
const both = (one: boolean, other: boolean) => one && other

function sizes(one: Record<string, number>, other: Record<string, number>) {
  const types = Object.entries(other).filter(([type]) => type in one)
  return Object.fromEntries(types.map(([type, size]) => [type, Math.max(size, one[type] ?? 0)]))
}

const bases = (one: string[], other: string[]) =>
  other.filter((base) => one.some((known) => domain(known) === domain(base)))

/** Compares two values that refuse something. Regular expressions have no order. */
const TIGHTER: { readonly [member: string]: ((one: never, other: never) => unknown) | undefined } = {
  authorized_keys: sizes,
  authorized_signature_algorithms: listed,
  authorized_key_usages: listed,
  authorized_extended_key_usages: listed,
  common_name_minimum: Math.max,
  common_name_maximum: Math.min,
  san_minimum: Math.max,
  san_maximum: Math.min,
  san_types: listed,
  wildcard_in_common_name: both,
  wildcard_in_san: both,
  max_subdomain_depth: Math.min,
  depth_base_domains: bases,
  reuse_key: both,
  renewal_window_days: Math.min,
}

const DEPTH = ['max_subdomain_depth', 'depth_base_domains'] as const

/** Without the members that refuse nothing. */
function effective(data: Data): Data {
  const hasDepth = DEPTH.every((name) => (data[name] ?? undefined) !== undefined)
  const isRule = ([name, value]: [string, unknown]) => {
    if (value === null || value === true) return false
    if (name.endsWith('_minimum') || name === 'renewal_window_days') return Number(value) > 0
    if (name.endsWith('_maximum')) return Number(value) >= 0
    return hasDepth || !DEPTH.some((one) => one === name)
  }
  return Object.fromEntries(Object.entries(data).filter(isRule))
}

/**
 * Which of two CSR profiles refuses more, member by member (src/domain/csr-profile.ts says what each means).
 * @returns what both refuse
 */
export function tighterProfile(now: Data, wanted: Data): Tighter {
  const [one, other] = [effective(now), effective(wanted)]
  const isRecorded = ([name, value]: [string, unknown]) =>
    !(name in one) || TIGHTER[name] !== undefined || isDeepStrictEqual(one[name], value)
  const tightened = Object.entries(other).map(([name, value]) => {
    const rule = TIGHTER[name]
    return [name, name in one && rule ? rule(one[name] as never, value as never) : value]
  })
  const data: Data = { ...one, ...Object.fromEntries(tightened) }
  return {
    data,
    isChanged: !isDeepStrictEqual(data, one),
    isWhole: isDeepStrictEqual(data, other) && Object.entries(other).every(isRecorded),
  }
}
