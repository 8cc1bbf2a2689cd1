/** Revocations at several CAs: each CA has rounds of its own, and none is forgotten. */

import assert from 'node:assert/strict'
import { before, beforeEach, describe, test } from 'node:test'
import { type BackendRevocationsOptions, revokeAtBackend } from '../../src/services/revocation.ts'
import {
  type BackendRevocationStore,
  createBackendRevocationStore,
  listBackendRevocations,
} from '../../src/store/backend-revocation-store.ts'
import { gate } from '../support/gate.ts'
import { aCertificate, anAccount, cutOff, newId, useStores } from './support.ts'

describe('revocations at backends', () => {
  const fixture = useStores()
  let store: BackendRevocationStore
  before(async () => {
    store = createBackendRevocationStore(fixture.db)
  })
  beforeEach(() => fixture.sql('DELETE FROM backend_revocations'))

  async function waiting(backend: string, count = 1): Promise<void> {
    for (let made = 0; made < count; made++)
      await fixture.sql(
        'INSERT INTO backend_revocations (certificate_id, backend, der, reason) VALUES ($1, $2, $3, 0)',
        [newId(), backend, Buffer.of(1)],
      )
  }
  const left = async () =>
    (await listBackendRevocations(fixture.db, 100, 0)).map(({ backend, error }) => [backend, error])
  const { signal } = new AbortController()
  const events: BackendRevocationsOptions['events'] = { confirmed: () => undefined, failed: () => undefined }

  test('a CA that hangs, with many of them, keeps no other from its own', async () => {
    await waiting('hangs', 40)
    await waiting('well')
    const { opened: hanging, open: answer } = gate()
    const backends = new Map([
      ['hangs', { revoke: () => hanging }],
      ['well', { revoke: async () => undefined }],
    ])
    const round = revokeAtBackend('hangs', { backends, store, events, signal })
    assert.equal(await revokeAtBackend('well', { backends, store, events, signal }), 1)
    assert.deepEqual(new Set((await left()).map(([backend]) => backend)), new Set(['hangs']))
    answer()
    assert.equal(await round, 16)
  })

  test('a reason that becomes keyCompromise is told, also when the CA is just confirming the former one', async () => {
    const { intent } = await aCertificate(fixture, (await anAccount(fixture)).requester)
    const { certificateId } = intent
    await fixture.sql("UPDATE certificates SET backend = 'well' WHERE id = $1", [certificateId])
    const revokeFor = (reason: number, blockedKey?: Buffer) =>
      fixture.certificates.revoke({ certificateId, reason, blockedKey, requester: undefined })
    await revokeFor(4)
    const told: number[] = []
    const revoke = async ({ reason }: { reason: number }) => {
      told.push(reason)
      if (reason === 4) await revokeFor(1, Buffer.alloc(32, 1))
    }
    const round = () => revokeAtBackend('well', { backends: new Map([['well', { revoke }]]), store, events, signal })
    await round()
    await round()
    assert.deepEqual([told, await left()], [[4, 1], []])
    await fixture.sql('UPDATE certificates SET revocation_reason = 5 WHERE id = $1', [certificateId])
    await revokeFor(1, Buffer.alloc(32, 1))
    await round()
    assert.deepEqual(told, [4, 1, 1], 'after it was confirmed, too')
  })

  test('the end of the service cuts a CA off that hangs, which is no failure of it', async () => {
    await waiting('hangs')
    const stopping = new AbortController()
    const revoke = (_: unknown, signal: AbortSignal) => cutOff(signal, stopping)
    const failed = () => assert.fail('no failure')
    const parts = { backends: new Map([['hangs', { revoke }]]), store, events: { ...events, failed } }
    const round = revokeAtBackend('hangs', { ...parts, signal: stopping.signal })
    assert.equal(await round, 1)
    assert.deepEqual(await left(), [['hangs', undefined]])
  })

  test('one of a backend that is no longer configured stays, and says why', async () => {
    await waiting('former')
    const backends = new Map(['a', 'b'].map((name) => [name, { revoke: async () => assert.fail('not asked') }]))
    assert.equal(await revokeAtBackend('b', { backends, store, events, signal }), 0)
    assert.equal(await revokeAtBackend('a', { backends, store, events, signal }), 1)
    assert.deepEqual(await left(), [['former', 'the configuration has no backend former']])
  })
})
