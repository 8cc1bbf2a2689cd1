/**
 * Acts of all kinds, some of each: what they need is made first, by `prepare`, and each act is one request whose success the
 * caller knows of. For what a fail-over does to them.
 */

import assert from 'node:assert/strict'
import {
  type AcmeClient,
  accountKeyOf,
  base64url,
  changeKey,
  JOSE,
  newAccountKey,
  type Responder,
  registeredClient,
  send,
  signedJws,
} from './acme-client.ts'
import { type AdminClient, adminRequest, signIn } from './admin.ts'
import { Authenticator } from './authenticator.ts'
import { accountIdOf, made } from './bound.ts'
import { freshP256Key } from './keys.ts'

export interface World {
  baseUrl: string
  directoryUrl: string
  console: string
  admin: AdminClient
  /** Approves what the other one asks for. */
  second: AdminClient
  responder: Responder
  /** Clients whose account was made by an act. */
  registered: AcmeClient[]
}

/** Makes what an act needs. @returns the act, which resolves when it was answered with success */
type Prepare = (world: World, n: number) => Promise<() => Promise<unknown>>

const answered = async (reply: Promise<{ status: number; text: string }>) => {
  const { status, text } = await reply
  assert.ok(status >= 200 && status < 300, `${status} ${text}`)
}

const reason = { 'approval-reason': 'a ticket' }

async function aUser({ admin, baseUrl }: World, name: string, role = 'auditor') {
  const { id, password } = await made<{ id: string; password: string }>(admin, '/users', {
    username: name,
    email: `${name}@example.com`,
    role,
  })
  return { id, password, signIn: () => signIn(baseUrl, name, password) }
}

const aCredential = ({ admin }: World, kid: string, more: object = {}) =>
  made<{ id: string }>(admin, '/eab', { kid, tags: ['team', 'plant'], ...more })
const aName = ({ admin }: World, value: string) => made(admin, '/allowed-identifiers', { type: 'dns', value })
const aProfile = ({ admin }: World, name: string) =>
  made(admin, '/csr-profiles', { name, profile_data: { san_maximum: 9 } })
const anAccount = async ({ directoryUrl }: World) => {
  const client = await registeredClient(directoryUrl)
  return { client, id: accountIdOf(client) }
}

async function anApproval(world: World, n: number): Promise<string> {
  const { admin, baseUrl, responder } = world
  await (await anAccount(world)).client.obtain([`approval-${n}.test`], responder)
  const body = { filter: { domain: `approval-${n}.test` } }
  const { token } = admin
  const reply = await adminRequest(baseUrl, 'POST', '/certificates/bulk-revoke', { token, body, headers: reason })
  assert.equal(reply.status, 202, reply.text)
  return reply.json.id
}

async function proveCompromise(client: AcmeClient, responder: Responder, n: number) {
  const own = freshP256Key()
  const key = accountKeyOf('ES256', own.privateKey, own.publicKey)
  const { der } = await client.obtain([`proved-${n}.test`], responder, { key: own })
  const url = client.directory['revokeCert'] as string
  return async () => {
    const header = { alg: key.alg, jwk: key.jwk, url, nonce: await client.nonce() }
    const jws = signedJws(key, header, { payload: { certificate: base64url(der), reason: 1 } })
    await answered(send({ url, headers: JOSE, body: JSON.stringify(jws) }))
  }
}

/** By name, which is only for messages. */
export const RESTRICTING: Readonly<Record<string, Prepare>> = {
  async 'an account is deactivated by its holder'(world) {
    const { client } = await anAccount(world)
    return () => answered(client.post(client.kid, { status: 'deactivated' }))
  },
  async 'an account is deactivated by an administrator'(world) {
    const { id } = await anAccount(world)
    return () => answered(world.admin.send('POST', `/accounts/${id}/deactivate`))
  },
  async 'an account gets another key'(world) {
    const { client } = await anAccount(world)
    return () => answered(changeKey(client, newAccountKey()))
  },
  async 'an account gets other contacts'(world, n) {
    const { client } = await anAccount(world)
    return () => answered(client.post(client.kid, { contact: [`mailto:new-${n}@example.com`] }))
  },
  async 'an account loses a tag'(world) {
    const { id } = await anAccount(world)
    await answered(world.admin.send('PATCH', `/accounts/${id}`, { tags: ['team', 'plant'] }))
    return () => answered(world.admin.send('PATCH', `/accounts/${id}`, { tags: ['team'] }))
  },
  async 'an authorization is deactivated'(world, n) {
    const { client } = await anAccount(world)
    const order = await client.newOrder([`authz-${n}.test`])
    await client.authorize(order, world.responder)
    const [url] = order.json.authorizations
    return () => answered(client.post(url, { status: 'deactivated' }))
  },
  async 'the holder of a key proves its compromise'(world, n) {
    const { client } = await anAccount(world)
    return proveCompromise(client, world.responder, n)
  },
  async 'a credential is revoked'(world, n) {
    const { id } = await aCredential(world, `revoked-${n}`)
    return () => answered(world.admin.send('POST', `/eab/${id}/revoke`))
  },
  async 'a credential loses a tag'(world, n) {
    const { id } = await aCredential(world, `tagged-${n}`)
    return () => answered(world.admin.send('PATCH', `/eab/${id}`, { tags: ['team'] }))
  },
  async 'a name is taken from a credential'(world, n) {
    const [{ id }, name] = [await aCredential(world, `granted-${n}`), await aName(world, `granted-${n}.test`)]
    const path = `/eab/${id}/allowed-identifiers/${name.id}`
    await answered(world.admin.send('PUT', path))
    return () => answered(world.admin.send('DELETE', path))
  },
  async 'a name is taken from an account'(world, n) {
    const [{ id }, name] = [await anAccount(world), await aName(world, `own-${n}.test`)]
    const path = `/allowed-identifiers/${name.id}/accounts/${id}`
    await answered(world.admin.send('PUT', path))
    return () => answered(world.admin.send('DELETE', path))
  },
  async 'a name is deleted'(world, n) {
    const [{ id }, name] = [await anAccount(world), await aName(world, `deleted-${n}.test`)]
    await answered(world.admin.send('PUT', `/allowed-identifiers/${name.id}/accounts/${id}`))
    return () => answered(world.admin.send('DELETE', `/allowed-identifiers/${name.id}`))
  },
  async 'a profile becomes tighter'(world, n) {
    const { id } = await aProfile(world, `tighter-${n}`)
    const body = { name: `tighter-${n}`, profile_data: { san_maximum: 1 } }
    return () => answered(world.admin.send('PUT', `/csr-profiles/${id}`, body))
  },
  async 'a profile is given to an account'(world, n) {
    const [{ id }, profile] = [await anAccount(world), await aProfile(world, `given-${n}`)]
    return () => answered(world.admin.send('PUT', `/csr-profiles/${profile.id}/accounts/${id}`))
  },
  async 'a profile is given to a credential'(world, n) {
    const [{ id }, profile] = [await aCredential(world, `profiled-${n}`), await aProfile(world, `of-eab-${n}`)]
    return () => answered(world.admin.send('PUT', `/eab/${id}/csr-profile/${profile.id}`))
  },
  async 'a user is locked out'(world, n) {
    const { id } = await aUser(world, `disabled-${n}`)
    return () => answered(world.admin.send('PATCH', `/users/${id}`, { enabled: false }))
  },
  async 'a user gets fewer rights and another address'(world, n) {
    const { id } = await aUser(world, `lesser-${n}`, 'admin')
    const body = { role: 'auditor', email: `other-${n}@example.com` }
    return () => answered(world.admin.send('PATCH', `/users/${id}`, body))
  },
  async 'a user is deleted'(world, n) {
    const { id } = await aUser(world, `gone-${n}`, 'admin')
    return () => answered(world.admin.send('DELETE', `/users/${id}`))
  },
  async 'a password is reset'(world, n) {
    const { id } = await aUser(world, `reset-${n}`)
    return () => answered(world.admin.send('POST', `/users/${id}/reset-password`))
  },
  async 'a user changes the password'(world, n) {
    const user = await aUser(world, `changes-${n}`)
    const client = await user.signIn()
    const body = { current_password: user.password, new_password: `vacant orchid tram ${n}1` }
    return () => answered(client.send('POST', '/me/password', body))
  },
  async 'a user signs out'(world, n) {
    const client = await (await aUser(world, `out-${n}`)).signIn()
    return () => answered(client.send('POST', '/auth/logout'))
  },
  async 'a session is ended by an administrator'(world, n) {
    const { id, signIn: begin } = await aUser(world, `ended-${n}`)
    await begin()
    const [{ id: session }] = (await world.admin.get(`/users/${id}/sessions`)).json
    return () => answered(world.admin.send('DELETE', `/users/${id}/sessions/${session}`))
  },
  async 'a passkey is removed'(world, n) {
    const client = await (await aUser(world, `key-${n}`)).signIn()
    const wanted = (await client.send('POST', '/me/passkeys/options')).json
    const credential = new Authenticator(world.console).create(wanted)
    const { id } = await made(client, '/me/passkeys', { name: 'key', credential })
    return () => answered(client.send('DELETE', `/me/passkeys/${id}`))
  },
  async 'an API token is revoked'(world, n) {
    const { id } = await made(world.admin, '/tokens', { name: `robot-${n}` })
    return () => answered(world.admin.send('DELETE', `/tokens/${id}`))
  },
  async 'an approval is rejected'(world, n) {
    const id = await anApproval(world, n)
    return () => answered(world.second.send('POST', `/approvals/${id}/reject`, { reason: 'no' }))
  },
  async 'an approval is withdrawn'(world, n) {
    const id = await anApproval(world, n)
    return () => answered(world.admin.send('POST', `/approvals/${id}/withdraw`))
  },
  async 'a bulk revocation is approved'(world, n) {
    const id = await anApproval(world, n)
    return () => answered(world.second.send('POST', `/approvals/${id}/approve`))
  },
  async 'a key is blocked'(world, n) {
    const body = { spki_sha256: n.toString(16).padStart(64, 'b') }
    return () => answered(world.admin.send('POST', '/blocked-keys', body))
  },
}

export const PERMITTING: Readonly<Record<string, Prepare>> = {
  async 'an account registers'(world) {
    return async () => world.registered.push(await registeredClient(world.directoryUrl))
  },
  async 'a user is made'(world, n) {
    return () => aUser(world, `new-${n}`)
  },
  async 'an API token is made'(world, n) {
    return () => made(world.admin, '/tokens', { name: `new-${n}` })
  },
  async 'a credential is made'(world, n) {
    return () => aCredential(world, `new-${n}`)
  },
  async 'a name is granted to a credential'(world, n) {
    const [{ id }, name] = [await aCredential(world, `grants-${n}`), await aName(world, `grants-${n}.test`)]
    return () => answered(world.admin.send('PUT', `/eab/${id}/allowed-identifiers/${name.id}`))
  },
  async 'a name is granted to an account'(world, n) {
    const [{ id }, name] = [await anAccount(world), await aName(world, `to-account-${n}.test`)]
    return () => answered(world.admin.send('PUT', `/allowed-identifiers/${name.id}/accounts/${id}`))
  },
  async 'a profile is taken from an account'(world, n) {
    const [{ id }, profile] = [await anAccount(world), await aProfile(world, `taken-${n}`)]
    const path = `/csr-profiles/${profile.id}/accounts/${id}`
    await answered(world.admin.send('PUT', path))
    return () => answered(world.admin.send('DELETE', path))
  },
  async 'a profile is deleted'(world, n) {
    const { id } = await aProfile(world, `deleted-${n}`)
    return () => answered(world.admin.send('DELETE', `/csr-profiles/${id}`))
  },
  async 'a key is unblocked'(world, n) {
    const hash = n.toString(16).padStart(64, 'c')
    await made(world.admin, '/blocked-keys', { spki_sha256: hash })
    return () => answered(world.admin.send('DELETE', `/blocked-keys/${hash}`))
  },
}

/**
 * What a database permits, a line a permission. A fail-over may lose some, and must add none.
 */
export const PERMISSIONS = `
  WITH switches AS (SELECT key FROM server_settings WHERE (value->'enabled')::boolean)
  SELECT line FROM (
    SELECT 'signs' WHERE NOT EXISTS (SELECT FROM switches WHERE key = 'signing_stopped')
    UNION ALL SELECT 'takes orders' WHERE NOT EXISTS (SELECT FROM switches WHERE key = 'maintenance_mode')
    UNION ALL SELECT 'account ' || id || ' with key ' || thumbprint FROM accounts WHERE status = 'valid'
    UNION ALL SELECT 'account ' || id || ' is written to at ' || contact
      FROM accounts, unnest(contacts) AS contact WHERE status = 'valid'
    UNION ALL SELECT 'account ' || id || ' is of ' || tag FROM accounts, unnest(tags) AS tag
    UNION ALL SELECT 'authorization ' || id FROM authorizations WHERE status = 'valid'
    UNION ALL SELECT 'credential ' || kid FROM eab_credentials WHERE NOT revoked
    UNION ALL SELECT 'credential ' || kid || ' is of ' || tag FROM eab_credentials, unnest(tags) AS tag
    UNION ALL SELECT 'credential ' || eab_credential_id || ' for ' || identifier_id FROM eab_allowed_identifiers
    UNION ALL SELECT 'account ' || account_id || ' for ' || identifier_id FROM account_allowed_identifiers
    UNION ALL SELECT 'user ' || id || ' as ' || role || coalesce(' of ' || nullif(scope::text, '{}'), '') FROM admin_users WHERE enabled
    UNION ALL SELECT 'user ' || id || ' is written to at ' || email FROM admin_users WHERE enabled
    UNION ALL SELECT 'user ' || id || ' by password ' || password_hash FROM admin_users WHERE password_hash LIKE '$argon2%'
    UNION ALL SELECT 'session ' || id FROM admin_sessions
    UNION ALL SELECT 'token ' || id FROM admin_api_tokens WHERE revoked_at IS NULL
    UNION ALL SELECT 'passkey ' || id FROM admin_passkeys
    UNION ALL SELECT 'approval ' || id || ' may be decided' FROM admin_approvals WHERE decision IS NULL
    UNION ALL SELECT 'certificate ' || id || ' for ' || names::text FROM certificates WHERE revoked_at IS NULL
  ) AS permissions (line) ORDER BY line`

/** What a database refuses, a line a refusal. A fail-over must lose none of those that were decided. */
export const REFUSALS = `
  SELECT line FROM (
    SELECT 'key ' || encode(spki_sha256, 'hex') FROM blocked_keys
    UNION ALL SELECT 'account ' || account_id || ' has profile ' || csr_profile_id FROM account_csr_profiles
    UNION ALL SELECT 'credential ' || eab_credential_id || ' has profile ' || csr_profile_id FROM eab_csr_profiles
    UNION ALL SELECT 'profile ' || id || ' refuses ' || n || ' names'
      FROM csr_profiles, generate_series((profile_data->>'san_maximum')::integer + 1, 10) AS n
  ) AS refusals (line) ORDER BY line`
