/** Acts that take something away, of every kind that an administrator or a client can do. */

import { Authenticator } from '../../client/authenticator.ts'
import { innerJws, newKey } from '../../client/jws.ts'
import {
  aCredential,
  aGrant,
  anAccountWithName,
  anApproval,
  aProfile,
  aProfileOfAccount,
  aUser,
  aUserSignedIn,
  optionsOf,
  type Prepare,
} from './prepare.ts'

/** By name, which is only for messages. */
export const RESTRICTING: Readonly<Record<string, Prepare>> = {
  async 'an account is deactivated by its holder'(world) {
    const holder = await world.register()
    return () => holder.post(holder.url, { status: 'deactivated' })
  },
  async 'an account is deactivated by an administrator'(world) {
    const { id } = await world.register()
    return () => world.admin.done('POST', `/accounts/${id}/deactivate`)
  },
  async 'an account gets another key'(world) {
    const holder = await world.register()
    const { keyChange } = await holder.client.requests.directory()
    const payload = JSON.stringify({ account: holder.url, oldKey: holder.client.key.jwk })
    return () => holder.post(keyChange, JSON.parse(innerJws(newKey(), keyChange, payload)))
  },
  async 'an account gets other contacts'(world, n) {
    const holder = await world.register()
    return () => holder.post(holder.url, { contact: [`mailto:new-${n}@faults.test`] })
  },
  async 'an account loses a tag'(world) {
    const { id } = await world.register()
    await world.admin.done('PATCH', `/accounts/${id}`, { tags: ['team', 'plant'] })
    return () => world.admin.done('PATCH', `/accounts/${id}`, { tags: ['team'] })
  },
  async 'an authorization is deactivated'(world) {
    const holder = await world.register()
    const { orderUrl } = await holder.client.obtain(holder.nameFor('authorized'))
    const { authorizations } = JSON.parse(await holder.post(orderUrl, '')) as { authorizations: [string] }
    return () => holder.post(authorizations[0], { status: 'deactivated' })
  },
  async 'the holder of a key proves its compromise'(world) {
    const holder = await world.register()
    const { leaf } = await holder.client.obtain(holder.nameFor('proved'))
    return () => holder.proveCompromise(leaf.raw)
  },
  async 'a credential is revoked'(world, n) {
    const { id } = await aCredential(world, `revoked-${n}`)
    return () => world.admin.done('POST', `/eab/${id}/revoke`)
  },
  async 'a credential loses a tag'(world, n) {
    const { id } = await aCredential(world, `tagged-${n}`)
    return () => world.admin.done('PATCH', `/eab/${id}`, { tags: ['team'] })
  },
  async 'a name is taken from a credential'(world, n) {
    const grant = await aGrant(world, `granted-${n}`)
    await world.admin.done('PUT', grant)
    return () => world.admin.done('DELETE', grant)
  },
  async 'a name is taken from an account'(world, n) {
    const grant = await anAccountWithName(world, `own-${n}.test`)
    await world.admin.done('PUT', grant)
    return () => world.admin.done('DELETE', grant)
  },
  async 'a name is deleted'(world, n) {
    const grant = await anAccountWithName(world, `deleted-${n}.test`)
    await world.admin.done('PUT', grant)
    return () => world.admin.done('DELETE', grant.slice(0, grant.indexOf('/accounts/')))
  },
  async 'a profile becomes tighter'(world, n) {
    const { id } = await aProfile(world, `tighter-${n}`)
    const body = { name: `tighter-${n}`, profile_data: { san_maximum: 1 } }
    return () => world.admin.done('PUT', `/csr-profiles/${id}`, body)
  },
  async 'a profile is given to an account'(world, n) {
    const place = await aProfileOfAccount(world, `given-${n}`)
    return () => world.admin.done('PUT', place)
  },
  async 'a profile is given to a credential'(world, n) {
    const [{ id }, profile] = [await aCredential(world, `profiled-${n}`), await aProfile(world, `of-eab-${n}`)]
    return () => world.admin.done('PUT', `/eab/${id}/csr-profile/${profile.id}`)
  },
  async 'a user is locked out'(world, n) {
    const { id } = await aUser(world, `disabled-${n}`)
    return () => world.admin.done('PATCH', `/users/${id}`, { enabled: false })
  },
  async 'a user gets fewer rights and another address'(world, n) {
    const { id } = await aUser(world, `lesser-${n}`, 'admin')
    return () => world.admin.done('PATCH', `/users/${id}`, { role: 'auditor', email: `other-${n}@faults.test` })
  },
  async 'a user is deleted'(world, n) {
    const { id } = await aUser(world, `gone-${n}`, 'admin')
    return () => world.admin.done('DELETE', `/users/${id}`)
  },
  async 'a password is reset'(world, n) {
    const { id } = await aUser(world, `reset-${n}`)
    return () => world.admin.done('POST', `/users/${id}/reset-password`)
  },
  async 'a user changes the password'(world, n) {
    const { caller, password } = await aUserSignedIn(world, `changes-${n}`)
    const body = { current_password: password, new_password: `vacant orchid tram ${n}1` }
    return () => caller.done('POST', '/me/password', body)
  },
  async 'a user signs out'(world, n) {
    const { caller } = await aUserSignedIn(world, `out-${n}`)
    return () => caller.done('POST', '/auth/logout')
  },
  async 'a session is ended by an administrator'(world, n) {
    const { id } = await aUserSignedIn(world, `ended-${n}`)
    const [session] = await world.admin.get<[{ id: string }]>(`/users/${id}/sessions`)
    return () => world.admin.done('DELETE', `/users/${id}/sessions/${session.id}`)
  },
  async 'a passkey is removed'(world, n) {
    const { caller } = await aUserSignedIn(world, `key-${n}`)
    const credential = new Authenticator(world.consoleOrigin).create(await optionsOf(caller))
    const { id } = await caller.make('/me/passkeys', { name: 'key', credential })
    return () => caller.done('DELETE', `/me/passkeys/${id}`)
  },
  async 'an API token is revoked'(world, n) {
    const { id } = await world.admin.make('/tokens', { name: `robot-${n}` })
    return () => world.admin.done('DELETE', `/tokens/${id}`)
  },
  async 'an approval is rejected'(world) {
    const id = await anApproval(world)
    return () => world.second.done('POST', `/approvals/${id}/reject`, { reason: 'no' })
  },
  async 'an approval is withdrawn'(world) {
    const id = await anApproval(world)
    return () => world.admin.done('POST', `/approvals/${id}/withdraw`)
  },
  async 'a bulk revocation is approved'(world) {
    const id = await anApproval(world)
    return () => world.second.done('POST', `/approvals/${id}/approve`)
  },
  async 'a key is blocked'(world, n) {
    const body = { spki_sha256: n.toString(16).padStart(64, 'b') }
    return () => world.admin.done('POST', '/blocked-keys', body)
  },
}
