/**
 * Who may act is read again in the transaction that acts: what ends a session, a token or a role
 * ends requests that are under way, too.
 */

import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { ENDPOINTS } from '../../src/admin/endpoints.ts'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { ADMINISTRATIVE_REQUESTS } from '../support/admin/administrative-requests.ts'
import {
  type AdminClient,
  type AdminReplyText,
  clientWith,
  createAdministrator,
  TOKEN_SECRET,
} from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { made } from '../support/bound.ts'
import { waitersIn } from '../support/database.ts'
import { each } from '../support/each.ts'
import { withQuery } from '../support/revoked.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

const CHANGING = ENDPOINTS.filter(({ audit, roles }) => audit && roles !== 'none')

describe('the authority of a request under way', () => {
  const { service, sql } = administered(() => sharedService('admin'))
  let profile: string
  let alice: AdminClient
  let password: string
  before(async () => {
    password = await createAdministrator(service.database, 'alice')
    for (const name of ['another', 'carol']) await createAdministrator(service.database, name)
    alice = await sessionOf('alice')
    profile = (await made(alice, '/csr-profiles', { name: 'servers', profile_data: {} })).id
  })

  const entries = async () => Number((await sql('SELECT count(*) FROM admin_audit_log'))[0]?.['count'])

  /** A session as a login leaves it, without the time of one. */
  async function sessionOf(username: string): Promise<AdminClient & { id: string }> {
    const id = uuidv7(Date.now())
    await sql(
      `INSERT INTO admin_sessions (id, user_id, ip_address, authenticated_at, expires_at)
       SELECT $1, id, '::1', now(), now() + interval '1 hour' FROM admin_users WHERE username = $2`,
      [id, username],
    )
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const payload = { iss: 'chancery', jti: id, exp: Math.floor(Date.now() / 1000) + 3_600 }
    const text = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode(payload)}`
    const token = `${text}.${createHmac('sha256', TOKEN_SECRET).update(text).digest('base64url')}`
    return { ...clientWith(service.baseUrl, token), id }
  }

  /** Sends a request while a change is not yet committed, which commits before the request can write. */
  async function overtake(
    change: [string, ...unknown[]],
    request: () => Promise<AdminReplyText>,
  ): Promise<AdminReplyText> {
    const [text, ...values] = change
    return withQuery(service.database.connection, async (query) => {
      await query('BEGIN')
      await query(text, values)
      let isAnswered = false
      const reply = request().finally(() => {
        isAnswered = true
      })
      const isWaiting = async () => (await waitersIn(service.database)) > 0
      await until('the request waits for the change', async () => isAnswered || (await isWaiting()))
      await query('COMMIT')
      return reply
    })
  }

  const send = (client: AdminClient, id: string) => {
    const { path, body } = ADMINISTRATIVE_REQUESTS[id] as { path: string; body?: object }
    const { method } = CHANGING.find((one) => one.id === id) as { method: string }
    const proofs: Record<string, object> = {
      resetMyPassword: { current_password: password },
      changeMyPassword: { current_password: password },
      confirmSignIn: { password },
    }
    const proof = proofs[id]
    return client.send(method, path.replace('{profile_id}', profile), body && { ...body, ...proof })
  }

  for (const { id } of CHANGING)
    test(`${id} is refused when the session has just ended`, async () => {
      const client = await sessionOf('alice')
      const before = await entries()
      const reply = await overtake(['DELETE FROM admin_sessions WHERE id = $1', client.id], () => send(client, id))
      // The credential of the example is refused first.
      const code = id === 'addPasskey' ? 'passkey_refused' : 'unauthorized'
      assert.deepEqual([reply.status, reply.json?.error], [401, code], reply.text)
      assert.equal(await entries(), before)
    })

  const REPRESENTATIVES = ['setMaintenance', 'createUser', 'updateUser', 'deleteUser', 'createToken', 'bulkRevoke']

  test('an administrator who has just become an auditor changes nothing', async () => {
    for (const id of REPRESENTATIVES) {
      const client = await sessionOf('alice')
      const change = "UPDATE admin_users SET role = 'auditor' WHERE username = 'alice'"
      const reply = await overtake([change], () => send(client, id))
      assert.deepEqual([reply.status, reply.json?.error], [403, 'forbidden'], `${id} ${reply.text}`)
      await sql("UPDATE admin_users SET role = 'admin' WHERE username = 'alice'")
    }
  })

  test('a registrar who has just lost a tag, or become something else, changes nothing', async () => {
    await createAdministrator(service.database, 'rita', 'registrar', ['team-a', 'team-b'])
    const restored = "UPDATE admin_users SET role = 'registrar', scope = '{team-a,team-b}' WHERE username = 'rita'"
    for (const change of ["scope = '{team-b}'", "scope = '{}'", "role = 'auditor'", "role = 'operator'"])
      for (const id of ['createEabCredential', 'revokeEabCredential', 'revokeCertificate', 'adviseRenewal']) {
        const client = await sessionOf('rita')
        const reply = await overtake([`UPDATE admin_users SET ${change} WHERE username = 'rita'`], () =>
          send(client, id),
        )
        assert.deepEqual([reply.status, reply.json?.error], [403, 'forbidden'], `${id} ${change} ${reply.text}`)
        await sql(restored)
      }
  })

  test('an administrator who has just been disabled or deleted changes nothing', async () => {
    for (const id of REPRESENTATIVES) {
      const client = await sessionOf('alice')
      const change = "UPDATE admin_users SET enabled = false WHERE username = 'alice'"
      assert.equal((await overtake([change], () => send(client, id))).status, 401, id)
      await sql("UPDATE admin_users SET enabled = true WHERE username = 'alice'")
    }
    const carol = await sessionOf('carol')
    const gone = await overtake(["DELETE FROM admin_users WHERE username = 'carol'"], () =>
      send(carol, 'setMaintenance'),
    )
    assert.equal(gone.status, 401)
  })

  test('an API token that has just been revoked changes nothing', async () => {
    alice = await sessionOf('alice')
    for (const id of ['setMaintenance', 'updateUser', 'bulkRevoke', 'createEabCredential']) {
      const { id: tokenId, token } = await made<{ id: string; token: string }>(alice, '/tokens', {
        name: id,
        role: 'admin',
      })
      const change = ['UPDATE admin_api_tokens SET revoked_at = now() WHERE id = $1', tokenId] as [string, string]
      const reply = await overtake(change, () => send(clientWith(service.baseUrl, token), id))
      assert.equal(reply.status, 401, `${id} ${reply.text}`)
    }
  })

  test('two requests of one session at once do not stand in each other’s way', async () => {
    const client = await sessionOf('alice')
    const replies = await Promise.all(
      Array.from({ length: 8 }, (_, n) => client.send('POST', '/tokens', { name: `token ${n}` })),
    )
    assert.deepEqual(each(replies, 'status'), Array(8).fill(201))
  })

  test('a bulk revocation goes on after the session that began it', async () => {
    const client = await sessionOf('alice')
    const { json } = await send(client, 'bulkRevoke')
    const [job] = await sql('SELECT author FROM bulk_revocations WHERE id = $1', [json.job_id])
    assert.equal(Object.hasOwn((job?.['author'] ?? { sessionId: '' }) as object, 'sessionId'), false)
  })
})
