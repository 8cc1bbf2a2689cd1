/** Issuances from a CSR over real rows: who holds one, what a step leaves behind, and which backend is asked. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { CaError } from '../../src/ca/backend.ts'
import { createCircuitBreaker } from '../../src/ca/circuit-breaker.ts'
import type { BackendState, CsrBackend, IssuanceStep, StepOptions } from '../../src/ca/csr-backend.ts'
import { guardCsrBackend } from '../../src/ca/guarded-csr-backend.ts'
import { CsrIssuances } from '../../src/services/csr-issuances.ts'
import { problemDocument } from '../../src/shared/protocol/problem.ts'
import type { Requester } from '../../src/store/account-store.ts'
import { type CsrIssuanceStore, createCsrIssuanceStore } from '../../src/store/csr-issuance-store.ts'
import { anAccount, aReadyOrder, newId, openStores, type StoreFixture } from './support.ts'

const INSTANCE = 7
const HOLDER = { instanceId: INSTANCE, leaseSeconds: 60 }
const REFUSED: IssuanceStep = {
  ...{ status: 'refused', reason: 'by the script' },
  problem: problemDocument('serverInternal', 'refused'),
}

type Script = (state: BackendState | undefined, step: StepOptions) => IssuanceStep

describe('issuances from a CSR', () => {
  let fixture: StoreFixture
  let store: CsrIssuanceStore
  let requester: Requester
  const asked: string[] = []
  const alarms: string[] = []

  before(async () => {
    fixture = await openStores()
    store = createCsrIssuanceStore(fixture.db)
    requester = (await anAccount(fixture)).requester
  })
  after(() => fixture.close())

  async function begun(backend = 'a'): Promise<string> {
    const { id } = await aReadyOrder(fixture, requester)
    const certificateId = newId()
    const intent = { certificateId, order: { id, requester }, csr: Buffer.of(1), spkiSha256: Buffer.alloc(32) }
    const times = { notBefore: new Date(), notAfter: new Date(Date.now() + 1e9) }
    assert.equal(await store.begin({ ...intent, ...times, backend, instanceId: INSTANCE }), true)
    assert.equal(
      await store.begin({ ...intent, ...times, backend, instanceId: INSTANCE, certificateId: newId() }),
      false,
    )
    return certificateId
  }

  function issuances(scripts: Record<string, Script>): CsrIssuances {
    asked.length = 0
    alarms.length = 0
    const backends = Object.entries(scripts).map(([name, script]) => {
      const backend: CsrBackend = {
        ...{ name, stepTimeoutMs: 30_000 },
        async advance(_request, state, step) {
          asked.push(`${name} ${JSON.stringify(state) ?? '-'}${step.isRepeated ? ' again' : ''}`)
          return script(state, step)
        },
        async revoke() {},
        async checkHealth() {},
        async close() {},
      }
      const breaker = createCircuitBreaker({ failures: 100, recoveryMs: 1000 }, { opened() {}, closed() {} })
      return [name, guardCsrBackend(backend, breaker, new AbortController().signal, () => {})] as const
    })
    const nothing = () => undefined
    return new CsrIssuances({
      ...{ backends: new Map(backends), store, instanceId: INSTANCE, timeoutSeconds: 600 },
      candidatesOf: () => Object.keys(scripts),
      received: { take: async () => assert.fail('nothing is issued here') },
      signer: { isUsable: () => false, issue: async () => 'pending' },
      isStopped: () => false,
      events: {
        ...{ stepFailed: nothing, refused: nothing, failedOver: nothing, abandoned: nothing },
        alarm: (message) => alarms.push(message),
        interrupted: (error) => assert.ifError(error),
      },
    })
  }

  const rowOf = async (certificateId: string) =>
    (await fixture.sql('SELECT * FROM csr_issuances WHERE certificate_id = $1', [certificateId]))[0]
  const away = (): never => {
    throw new CaError('away', { retryable: true })
  }

  test('the next backend is asked at once, and each of them once', async () => {
    const both = issuances({ a: away, b: away })
    const certificateId = await begun()
    assert.equal(await both.issue(certificateId), 'pending')
    assert.deepEqual(asked, ['a -', 'b -'])
    assert.equal((await rowOf(certificateId))?.['failures'], 1)
  })

  test('a state is committed before the step that gets it', async () => {
    const certificateId = await begun()
    const steps = issuances({
      a: (state) =>
        state === undefined ? { status: 'pending', state: { n: 1 }, retryAfterMs: 0, mayHaveIssued: true } : REFUSED,
    })
    assert.equal(await steps.issue(certificateId), 'failed')
    assert.deepEqual(asked, ['a -', 'a {"n":1}'])
    assert.equal(await rowOf(certificateId), undefined)
  })

  test('what may have been issued stays with its backend', async () => {
    const certificateId = await begun()
    const both = issuances({
      a: () => {
        throw new CaError('lost', { retryable: true, mayHaveIssued: true })
      },
      b: () => REFUSED,
    })
    assert.equal(await both.issue(certificateId), 'pending')
    assert.deepEqual(asked, ['a -'])
  })

  test('a later error does not take back that a certificate may exist', async () => {
    const lost = (): never => {
      throw new CaError('lost', { retryable: true, mayHaveIssued: true })
    }
    const refusing = (): never => {
      throw new CaError('not now', { retryable: false })
    }
    const scripts = [lost, away, refusing]
    const both = issuances({ a: () => (scripts.shift() as () => never)(), b: () => REFUSED })
    const certificateId = await begun()
    for (const expected of ['pending', 'pending', 'failed'] as const) {
      await fixture.sql('UPDATE csr_issuances SET due_at = now() WHERE certificate_id = $1', [certificateId])
      assert.equal(await both.issue(certificateId), expected)
      assert.equal(alarms.length, expected === 'failed' ? 1 : 0)
    }
    assert.deepEqual(asked, ['a -', 'a -', 'a -'])
  })

  test('one instance at a time holds a row, and the step of one that has ended is repeated', async () => {
    const certificateId = await begun()
    assert.equal((await store.claim(certificateId, HOLDER))?.isRepeated, false)
    assert.equal(await store.claim(certificateId, { ...HOLDER, instanceId: 8 }), undefined)
    // Neither instance is among the live ones, so its step is taken over before the lease is over.
    const [taken] = (await store.claimDue({ ...HOLDER, instanceId: 9 }, 100)).filter(
      (row) => row.certificateId === certificateId,
    )
    assert.equal(taken?.isRepeated, true)
    const progress = { certificateId, backend: 'a', state: undefined, mayHaveIssued: false, failures: 0 }
    const late = await store.save({ ...progress, isRunning: false, dueInSeconds: 0 }, INSTANCE)
    assert.equal(late, false, 'the former holder changes nothing')
    assert.equal(await store.fail(certificateId, INSTANCE, problemDocument('serverInternal', 'late')), false)
  })
})
