/** Acts that permit something, of every kind that an administrator or a client can do. */

import { aCredential, aGrant, anAccountWithName, aProfile, aProfileOfAccount, aUser, type Prepare } from './prepare.ts'

/** By name, which is only for messages. */
export const PERMITTING: Readonly<Record<string, Prepare>> = {
  async 'an account registers'(world) {
    return async () => world.registered.push(await world.register())
  },
  async 'a user is made'(world, n) {
    return () => aUser(world, `new-${n}`)
  },
  async 'an API token is made'(world, n) {
    return () => world.admin.make('/tokens', { name: `new-${n}` })
  },
  async 'a credential is made'(world, n) {
    return () => aCredential(world, `new-${n}`)
  },
  async 'a name is granted to a credential'(world, n) {
    const grant = await aGrant(world, `grants-${n}`)
    return () => world.admin.done('PUT', grant)
  },
  async 'a name is granted to an account'(world, n) {
    const grant = await anAccountWithName(world, `to-account-${n}.test`)
    return () => world.admin.done('PUT', grant)
  },
  async 'a profile is taken from an account'(world, n) {
    const place = await aProfileOfAccount(world, `taken-${n}`)
    await world.admin.done('PUT', place)
    return () => world.admin.done('DELETE', place)
  },
  async 'a profile is deleted'(world, n) {
    const { id } = await aProfile(world, `deleted-${n}`)
    return () => world.admin.done('DELETE', `/csr-profiles/${id}`)
  },
  async 'a key is unblocked'(world, n) {
    const hash = n.toString(16).padStart(64, 'c')
    await world.admin.make('/blocked-keys', { spki_sha256: hash })
    return () => world.admin.done('DELETE', `/blocked-keys/${hash}`)
  },
}
