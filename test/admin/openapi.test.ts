/** The OpenAPI document of the Admin API, and what is made from it. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { AdminApiError, AdminClient, type Routes } from '../../src/admin/client.ts'
import { ENDPOINTS } from '../../src/admin/endpoints.ts'
import { openApiDocument } from '../../src/admin/openapi.ts'
import { ROLES, type Role } from '../../src/domain/administrator.ts'
import { AUDIT_ACTIONS } from '../../src/domain/audit-chain.ts'
import { ADMINISTRATIVE_REQUESTS } from '../support/admin/administrative-requests.ts'
import { administrator, adminRequest, createAdministrator } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { each } from '../support/each.ts'
import { sharedService } from '../support/shared-service.ts'
import { words } from '../support/words.ts'

const document = openApiDocument(ENDPOINTS, { version: '0.0.0', baseUrl: 'https://ca.example/api' })

describe('the OpenAPI document', () => {
  test('is valid OpenAPI 3.1 for a validator that is not ours', async () => {
    const result = await new Validator().validate(structuredClone(document))
    assert.deepEqual(result.errors ?? [], [])
    assert.equal(result.valid, true)
  })

  test('every $ref leads to a component', () => {
    const { schemas } = document.components as { schemas: Record<string, unknown> }
    const references = [...JSON.stringify(document).matchAll(/"#\/components\/schemas\/([^"]+)"/g)].map(
      ([, name]) => name,
    )
    assert.deepEqual(
      references.filter((name) => !Object.hasOwn(schemas, name as string)),
      [],
    )
  })

  test('operation ids are unique, and every audit action is in the list', () => {
    const ids = ENDPOINTS.map(({ id }) => id)
    assert.equal(new Set(ids).size, ids.length)
    for (const { audit, id } of ENDPOINTS) if (audit) assert.ok(AUDIT_ACTIONS.includes(audit), id)
  })

  test('an endpoint that changes something says which audit action it leaves', () => {
    const reads = new Set(words`
      validateCsr validateCsrAgainst checkCsrProfile beginAuditVerification startOidc examineIncident
      previewIncidentMail getPasskeyOptions getConfirmOptions getRegistrationOptions
    `)
    const silent = ENDPOINTS.filter(({ method, audit, id }) => method !== 'GET' && !audit && !reads.has(id))
    assert.deepEqual(each(silent, 'id'), [])
  })
})

test('for every endpoint that changes something there is a request that an ending session must stop', () => {
  const changing = ENDPOINTS.filter(({ audit, roles }) => audit && roles !== 'none').map(({ id }) => id)
  assert.deepEqual(
    Object.keys(ADMINISTRATIVE_REQUESTS).sort(),
    changing.sort(),
    'test/support/admin/administrative-requests.ts',
  )
})

describe('over HTTP', () => {
  const { service, sql } = administered(() => sharedService('admin'))

  describe('the typed client', () => {
    test('signs in, reads and gets errors as errors', async () => {
      const routes = Object.fromEntries(
        ENDPOINTS.map(({ id, method, path }) => [id, [method, path]]),
      ) as unknown as Routes
      let token: string | undefined
      const client = new AdminClient({ routes, baseUrl: `${service.baseUrl}/api`, token: () => token, fetch })
      const password = await createAdministrator(service.database, 'tina')
      const login = await client.call('login', { body: { username: 'tina', password } })
      assert.ok('token' in login)
      token = login.token
      assert.equal((await client.call('getMe', {})).username, 'tina')
      assert.equal((await client.call('getUser', { params: { user_id: login.user.id } })).role, 'admin')
      await assert.rejects(
        client.call('createUser', { body: { username: 'tina', email: 'tina@example.com' } }),
        (error) => error instanceof AdminApiError && error.status === 409 && error.body.error === 'conflict',
      )
    })

    test('the document is served without a token', async () => {
      const reply = await adminRequest(service.baseUrl, 'GET', '/openapi.json')
      assert.equal(reply.status, 200)
      assert.equal(reply.json.servers[0].url, `${service.baseUrl}/api`)
    })
  })

  describe('roles', () => {
    const SAMPLE = '0192a1b2-0000-7000-8000-000000000000'
    const pathOf = (path: string) => path.replaceAll(/\{[^}]+\}/g, SAMPLE)

    /** The sessions must last for the others; a machine has none. */
    const ENDING = ['logout', 'logoutEverywhere', 'resetMyPassword']

    /** Of users and machines by role, and of sessions that have ended. */
    async function tokens() {
      const boss = await administrator(service, 'boss')
      const [gone, late] = [await administrator(service, 'gone'), await administrator(service, 'late')]
      await gone.send('POST', '/auth/logout')
      await sql(
        `UPDATE admin_sessions SET expires_at = now() - interval '1 s'
        WHERE user_id = (SELECT id FROM admin_users WHERE username = 'late')`,
      )
      const users = new Map<Role, string>()
      const machines = new Map<Role, string>()
      for (const role of ROLES) {
        users.set(role, (await administrator(service, `user-${role}`, role)).token)
        const scope = role === 'registrar' ? ['team'] : []
        machines.set(role, (await boss.send('POST', '/tokens', { name: role, role, scope })).json.token)
      }
      return { users, machines, gone: gone.token, late: late.token }
    }

    test('every endpoint × no token, unsigned, expired, logged out, each role, API tokens of each role', async () => {
      const { users, machines, gone, late } = await tokens()
      for (const { id, method, path, roles, body, needsSession } of ENDPOINTS) {
        if (roles === 'none') continue
        const ask = async (token?: string) =>
          (
            await adminRequest(service.baseUrl, method, pathOf(path), {
              ...(token && { token }),
              ...(body && { body: {} }),
            })
          ).status
        const check = async (token: string | undefined, isAllowed: boolean, who: string) => {
          const status = await ask(token)
          if (isAllowed) assert.ok(![401, 403].includes(status), `${id} ${who}: ${status}`)
          else assert.equal(status, 403, `${id} ${who}`)
        }
        for (const [token, what] of [
          [undefined, 'no token'],
          ['eyJhbGciOiJub25lIn0.e30.', 'an unsigned token'],
          [gone, 'a token that was logged out'],
          [late, 'an expired token'],
        ] as const)
          assert.equal(await ask(token), 401, `${id} with ${what}`)
        for (const role of ROLES) {
          const isAllowed = roles.includes(role)
          if (isAllowed && ENDING.includes(id)) continue
          await check(machines.get(role), isAllowed && needsSession !== true, `as a machine that is ${role}`)
          await check(users.get(role), isAllowed, `as ${role}`)
        }
      }
    })
  })
})
