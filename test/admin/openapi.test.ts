/** The OpenAPI document of the Admin API, and what is made from it. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { AdminApiError, AdminClient, type Routes } from '../../src/admin/client.ts'
import { ENDPOINTS } from '../../src/admin/endpoints.ts'
import { openApiDocument } from '../../src/admin/openapi.ts'
import { AUDIT_ACTIONS } from '../../src/domain/audit-chain.ts'
import { adminConfig, administrator, adminRequest, createAdministrator } from '../support/admin.ts'
import { ADMINISTRATIVE_REQUESTS } from '../support/administrative-requests.ts'
import { startTestService, type TestService } from '../support/service.ts'

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
    const reads = new Set(['validateCsr', 'validateCsrAgainst', 'checkCsrProfile'])
    const silent = ENDPOINTS.filter(({ method, audit, id }) => method !== 'GET' && !audit && !reads.has(id))
    assert.deepEqual(
      silent.map(({ id }) => id),
      [],
    )
  })
})

test('for every endpoint that changes something there is a request that an ending session must stop', () => {
  const changing = ENDPOINTS.filter(({ audit, roles }) => audit && roles !== 'none').map(({ id }) => id)
  assert.deepEqual(
    Object.keys(ADMINISTRATIVE_REQUESTS).sort(),
    changing.sort(),
    'test/support/administrative-requests.ts',
  )
})

let service: TestService
before(async () => {
  service = await startTestService({ config: adminConfig() })
})
after(() => service.dispose())

describe('the typed client', () => {
  test('signs in, reads and gets errors as errors', async () => {
    const routes = Object.fromEntries(
      ENDPOINTS.map(({ id, method, path }) => [id, [method, path]]),
    ) as unknown as Routes
    let token: string | undefined
    const client = new AdminClient({ routes, baseUrl: `${service.baseUrl}/api`, token: () => token, fetch })
    const password = await createAdministrator(service.database, 'tina')
    const login = await client.call('login', { body: { username: 'tina', password } })
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

  test('every endpoint asks for a token but those that say so, and refuses the wrong role', async () => {
    const auditor = await administrator(service, 'audrey', 'auditor')
    const gone = await administrator(service, 'gone')
    await gone.send('POST', '/auth/logout')
    for (const { id, method, path, roles, body } of ENDPOINTS) {
      const ask = (token?: string) =>
        adminRequest(service.baseUrl, method, pathOf(path), { ...(token && { token }), ...(body && { body: {} }) })
      if (roles === 'none') continue
      assert.equal((await ask()).status, 401, `${id} without a token`)
      assert.equal((await ask('eyJhbGciOiJub25lIn0.e30.')).status, 401, `${id} with an unsigned token`)
      assert.equal((await ask(gone.token)).status, 401, `${id} with a token that was logged out`)
      // Its own session must last for the others.
      if (id === 'logout' || id === 'logoutEverywhere' || id === 'resetMyPassword') continue
      const { status } = await ask(auditor.token)
      if (roles.includes('auditor')) assert.ok(status !== 401 && status !== 403, `${id} as auditor: ${status}`)
      else assert.equal(status, 403, `${id} as auditor`)
    }
  })
})
