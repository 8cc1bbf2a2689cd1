/** Lists that clients expect whole have pages, too: no reply grows without bound. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod/v4'
import { ENDPOINTS } from '../../src/admin/endpoints.ts'
import { registeredClient } from '../support/acme-client.ts'
import { type AdminInstance, adminInstance } from '../support/admin/admin-instance.ts'
import { type AdminClient, administrator, allPages } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { accountIdOf, change, made } from '../support/bound.ts'
import { each } from '../support/each.ts'
import { sharedService } from '../support/shared-service.ts'
import { words } from '../support/words.ts'

describe('long lists', () => {
  const { service, sql } = administered(() => sharedService('small pages'))
  let instance: AdminInstance
  let admin: AdminClient
  let account: string
  let eab: string
  before(async () => {
    instance = await adminInstance(service, { admin_api: { max_page_size: 3 } })
    admin = await administrator({ baseUrl: instance.baseUrl, database: service.database }, 'alice')
    account = accountIdOf(await registeredClient(service.directoryUrl))
    eab = (await made(admin, '/eab', { kid: 'kid-0' })).id
    for (let n = 1; n <= 4; n++) {
      await made(admin, '/eab', { kid: `kid-${n}` })
      await made(admin, '/tokens', { name: `token-${n}` })
      await made(admin, '/csr-profiles', { name: `profile-${n}`, profile_data: {} })
      await made(admin, '/users', { username: `user-${n}`, email: 'u@example.com' })
      const { id } = await made(admin, '/allowed-identifiers', { type: 'dns', value: `n${n}.test` })
      await change(admin, 'PUT', `/allowed-identifiers/${id}/accounts/${account}`)
      await change(admin, 'PUT', `/eab/${eab}/allowed-identifiers/${id}`)
    }
  })

  after(() => instance?.close())

  const LISTS = words`
    /users /tokens /eab /csr-profiles /allowed-identifiers /accounts/ACCOUNT/allowed-identifiers
    /eab/EAB/allowed-identifiers
  `
  const pathOf = (list: string) => list.replace('ACCOUNT', account).replace('EAB', eab)

  for (const list of LISTS)
    test(`${list} comes in pages of the longest length, by offset and by cursor`, async () => {
      for (const first of [pathOf(list), `${pathOf(list)}?cursor=`, `${pathOf(list)}?limit=1`]) {
        const pages = await allPages(admin, first)
        for (const { json } of pages) assert.ok(json.length <= 3, `${json.length} rows`)
        const ids = pages.flatMap(({ json }) => json.map(({ id }: { id: string }) => id))
        assert.ok(ids.length >= 4, `${ids.length} ids`)
        assert.deepEqual(ids, [...new Set(ids)].sort().reverse())
      }
    })

  test('more than the longest page is refused', async () => {
    for (const list of LISTS) assert.equal((await admin.get(`${pathOf(list)}?limit=4`)).status, 400)
  })

  test('every list of the interface takes a limit', () => {
    // By hours, the last 50, what was asked, and the first 200.
    const bounded = new Set([
      'getEventCounts',
      'listFailuresOfAccount',
      'changeIdentifiersOfEab',
      'changeIdentifiersOfAccount',
      'listIncidentOwners',
    ])
    const whole = ENDPOINTS.filter(
      ({ id, reply, query }) =>
        reply.schema instanceof z.ZodArray && !bounded.has(id) && !('limit' in (shapeOf(query) ?? {})),
    )
    assert.deepEqual(each(whole, 'id'), [])
  })

  test('an identifier of many accounts names some of them, and says that there are more', async () => {
    const [{ id }] = (await admin.get('/allowed-identifiers?limit=1')).json
    await sql(
      `WITH made AS (
         INSERT INTO accounts (id, thumbprint, jwk)
         SELECT gen_random_uuid(), 'thumbprint ' || n, '{}' FROM generate_series(1, 150) AS n RETURNING id
       ) INSERT INTO account_allowed_identifiers (account_id, identifier_id) SELECT id, $1::uuid FROM made`,
      [id],
    )
    const [listed] = (await admin.get('/allowed-identifiers?limit=1')).json
    assert.deepEqual([listed.account_ids.length, listed.more_accounts], [100, true])
    const shown = (await admin.get(`/allowed-identifiers/${id}`)).json
    assert.deepEqual([shown.account_ids.length, shown.more_accounts], [151, false])
  })
})

const shapeOf = (schema: unknown) => (schema as { shape?: Record<string, unknown> } | undefined)?.shape
