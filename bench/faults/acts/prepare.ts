/** Each act needs things of its own, which are made first. */

import type { Caller } from './caller.ts'
import type { World } from './world.ts'

/**
 * Makes what an act needs. Each is called with another number, as names are made of it.
 * @returns the act: one request, which throws unless it was answered with success
 */
export type Prepare = (world: World, n: number) => Promise<() => Promise<unknown>>

export async function aUser({ admin }: World, username: string, role = 'auditor') {
  const body = { username, email: `${username}@faults.test`, role }
  return { username, ...(await admin.make<{ id: string; password: string }>('/users', body)) }
}

export async function aUserSignedIn(world: World, name: string) {
  const user = await aUser(world, name)
  return { ...user, caller: await world.admin.as(name, user.password) }
}

export const aCredential = ({ admin }: World, kid: string) => admin.make('/eab', { kid, tags: ['team', 'plant'] })

export const aName = ({ admin }: World, value: string) => admin.make('/allowed-identifiers', { type: 'dns', value })

export const aProfile = ({ admin }: World, name: string) =>
  admin.make('/csr-profiles', { name, profile_data: { san_maximum: 9 } })

/** Asks for a bulk revocation; the other administrator has to approve it. @returns the id of the approval */
export async function anApproval(world: World): Promise<string> {
  const holder = await world.register()
  const domain = holder.nameFor('approval')
  await holder.client.obtain(domain)
  const why = { 'approval-reason': 'a ticket' }
  return (await world.admin.make('/certificates/bulk-revoke', { filter: { domain } }, why)).id
}

/** Path of the Admin API by which the account may have the name. */
export async function anAccountWithName(world: World, name: string): Promise<string> {
  const [account, { id }] = [await world.register(), await aName(world, name)]
  return `/allowed-identifiers/${id}/accounts/${account.id}`
}

/** Path of the Admin API by which the credential may have the name. */
export async function aGrant(world: World, label: string): Promise<string> {
  const [{ id }, name] = [await aCredential(world, label), await aName(world, `${label}.test`)]
  return `/eab/${id}/allowed-identifiers/${name.id}`
}

/** Path of the Admin API by which an account has the profile. */
export async function aProfileOfAccount(world: World, name: string): Promise<string> {
  const [{ id }, profile] = [await world.register(), await aProfile(world, name)]
  return `/csr-profiles/${profile.id}/accounts/${id}`
}

/** Asks for the options of a new passkey. */
export const optionsOf = (caller: Caller) =>
  caller.make<{ challenge: string; user: { id: string } }>('/me/passkeys/options', {})
