/** Rules of an account that an administrator changes while a finalize waits to begin. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { type AcmeClient, csrFor, registeredClient } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { type AdminClient, administrator } from '../support/admin.ts'
import { accountIdOf, change, made } from '../support/bound.ts'
import { until } from '../support/until.ts'
import { freshP256Key } from '../unit/shared/pki/support.ts'

describe('rules that change while a finalize waits to begin', () => {
  const { service, responder, database: db } = acmeScene('allowlists')
  let admin: AdminClient
  before(async () => {
    admin = await administrator(service, 'alice')
  })

  const profile = (name: string, rules: object = {}) => ({ name, profile_data: { reuse_key: false, ...rules } })

  async function allowed(client: AcmeClient, what: { allow: string[] } | { disallow: string[] }): Promise<void> {
    const { status, text } = await admin.send('POST', `/accounts/${accountIdOf(client)}/allowed-identifiers`, what)
    assert.equal(status, 200, text)
  }

  async function replace(id: string, body: object): Promise<void> {
    const { status, text } = await admin.send('PUT', `/csr-profiles/${id}`, body)
    assert.equal(status, 200, text)
  }

  /** A client whose finalize asks for the history, and so waits for the lock. */
  async function ruledClient(name: string) {
    const client = await registeredClient(service.directoryUrl)
    await allowed(client, { allow: [`*.${name}.test`] })
    const { id } = await made(admin, '/csr-profiles', profile(name))
    await change(admin, 'PUT', `/csr-profiles/${id}/accounts/${accountIdOf(client)}`)
    const order = await client.newOrder([`a.${name}.test`])
    await client.authorize(order, responder)
    return { client, order, profileId: id }
  }

  const waiting = async () => {
    const { rows } = await db.query(`
      SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
       WHERE d.datname = current_database() AND locktype = 'advisory' AND objid = 712103 AND NOT granted`)
    return rows.length > 0
  }

  async function finalizedDuring(
    { client, order }: Awaited<ReturnType<typeof ruledClient>>,
    name: string,
    work: () => Promise<void>,
  ) {
    const csr = await csrFor([`a.${name}.test`], freshP256Key())
    await db.query('BEGIN')
    await db.query('SELECT pg_advisory_xact_lock(712103)')
    const finalizing = client.post(order.json.finalize, { csr })
    try {
      await until('a finalize that waits', waiting)
      await work()
    } finally {
      await db.query('COMMIT')
    }
    const answer = await finalizing
    return { answer, status: (await client.post(String(order.headers.location))).json.status }
  }

  test('an identifier that is withdrawn is not issued, and the order stays ready', async () => {
    const ruled = await ruledClient('withdrawn')
    const withdraw = () => allowed(ruled.client, { disallow: ['*.withdrawn.test'] })
    const { answer, status } = await finalizedDuring(ruled, 'withdrawn', withdraw)
    assert.deepEqual([answer.status, status], [400, 'ready'], answer.text)
    assert.equal(answer.json.type, 'urn:ietf:params:acme:error:rejectedIdentifier')
  })

  test('a CSR profile that is replaced judges the CSR, and the order stays ready', async () => {
    const ruled = await ruledClient('replaced')
    const narrow = () => replace(ruled.profileId, profile('replaced', { san_maximum: 0 }))
    const { answer, status } = await finalizedDuring(ruled, 'replaced', narrow)
    assert.deepEqual([answer.status, status], [400, 'ready'], answer.text)
    assert.equal(answer.json.type, 'urn:ietf:params:acme:error:badCSR')
  })

  test('an identifier and a CSR profile whose changes still allow it fail nobody', async () => {
    const ruled = await ruledClient('harmless')
    const exchange = async () => {
      await allowed(ruled.client, { allow: ['a.harmless.test', 'unrelated.test'] })
      await allowed(ruled.client, { disallow: ['*.harmless.test', 'unrelated.test'] })
      await replace(ruled.profileId, profile('renamed', { san_maximum: 1 }))
    }
    const { answer, status } = await finalizedDuring(ruled, 'harmless', exchange)
    assert.deepEqual([answer.status, status], [200, 'valid'], answer.text)
  })

  test('what is withdrawn from another account disturbs nobody', async () => {
    const [ruled, other] = [await ruledClient('mine'), await ruledClient('theirs')]
    await allowed(other.client, { allow: ['*.mine.test'] })
    const change = async () => {
      await allowed(other.client, { disallow: ['*.mine.test', '*.theirs.test'] })
      await replace(other.profileId, profile('theirs', { san_maximum: 0 }))
    }
    const { answer, status } = await finalizedDuring(ruled, 'mine', change)
    assert.deepEqual([answer.status, status], [200, 'valid'], answer.text)
  })
})
