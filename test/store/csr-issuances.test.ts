/** Issuances from a CSR over real rows: who holds one, what a step leaves behind, and which backend is asked. */

import assert from 'node:assert/strict'
import { afterEach, before, describe, test } from 'node:test'
import { CaError } from '../../src/ca/backend.ts'
import type { BackendState, CsrBackend, IssuanceStep, StepOptions } from '../../src/ca/csr-backend.ts'
import { createCircuitBreaker, guardCsrBackend } from '../../src/ca/guarded-backend.ts'
import { CsrIssuances, type CsrIssuancesOptions } from '../../src/services/csr-issuances.ts'
import type { SignerTurn } from '../../src/services/csr-step.ts'
import { LAPSE_PROBLEMS } from '../../src/services/recovery.ts'
import { problemDocument } from '../../src/shared/protocol/problem.ts'
import type { Requester } from '../../src/store/account-store.ts'
import {
  type ClaimedIssuance,
  type CsrIssuanceStore,
  createCsrIssuanceStore,
} from '../../src/store/csr-issuance-store.ts'
import { until } from '../support/until.ts'
import { anAccount, aReadyOrder, newId, useStores } from './support.ts'

const INSTANCE = 7
const HOLDER = { instanceId: INSTANCE, leaseSeconds: 60 }
const REFUSED: IssuanceStep = {
  status: 'refused',
  reason: 'by the script',
  problem: problemDocument('serverInternal', 'refused'),
}

const KEY_BLOCKED = LAPSE_PROBLEMS['key blocked']

const ONE_FAILURE = { failures: 1, recoveryMs: 60_000 }

type Script = (state: BackendState | undefined, step: StepOptions) => IssuanceStep | Promise<IssuanceStep>

describe('issuances from a CSR', () => {
  const fixture = useStores()
  let store: CsrIssuanceStore
  let requester: Requester
  const asked: string[] = []
  const alarms: string[] = []

  before(async () => {
    store = createCsrIssuanceStore(fixture.db)
    requester = (await anAccount(fixture)).requester
  })

  async function begun(backend = 'a'): Promise<string> {
    const { id } = await aReadyOrder(fixture, requester)
    const certificateId = newId()
    const intent = { certificateId, order: { id, requester }, csr: Buffer.of(1), spkiSha256: Buffer.alloc(32) }
    const times = { notBefore: new Date(), notAfter: new Date(Date.now() + 1e9) }
    const issuance = { ...intent, ...times, backend, instanceId: INSTANCE }
    assert.equal(await store.begin(issuance), true)
    assert.equal(await store.begin({ ...issuance, certificateId: newId() }), false)
    return certificateId
  }

  function issuances(
    scripts: Record<string, Script>,
    more: Partial<CsrIssuancesOptions> = {},
    { failures, recoveryMs } = { failures: 100, recoveryMs: 60_000 },
  ): CsrIssuances {
    asked.length = 0
    alarms.length = 0
    const backends = Object.entries(scripts).map(([name, script]) => {
      const backend: CsrBackend = {
        name,
        stepTimeoutMs: 30_000,
        async advance(_request, state, step) {
          asked.push(`${name} ${JSON.stringify(state) ?? '-'}${step.isRepeated ? ' again' : ''}`)
          return script(state, step)
        },
        async leave(_request, state) {
          asked.push(`${name} leaves ${JSON.stringify(state)}`)
          const { placed } = state as { placed: number }
          const left = placed > 0 ? { placed: placed - 1 } : null
          return { status: 'pending', state: left, retryAfterMs: 0, mayHaveIssued: false }
        },
        async revoke() {},
        async checkHealth() {},
        async close() {},
      }
      const breaker = createCircuitBreaker({ failures, recoveryMs }, { opened() {}, closed() {} })
      return [name, guardCsrBackend(backend, breaker, new AbortController().signal, () => {})] as const
    })
    const nothing = () => undefined
    return new CsrIssuances({
      backends: new Map(backends),
      store,
      instanceId: INSTANCE,
      timeoutSeconds: 600,
      candidatesOf: () => Object.keys(scripts),
      received: { take: async () => assert.fail('nothing is issued here') },
      signer: { isUsable: () => false, issue: async () => 'pending' },
      isStopped: () => false,
      events: {
        stepFailed: nothing,
        refused: nothing,
        failedOver: nothing,
        abandoned: nothing,
        notWithdrawn: nothing,
        alarm: (message) => alarms.push(message),
        interrupted: (error) => assert.ifError(error),
      },
      ...more,
    })
  }

  const rowOf = async (certificateId: string) =>
    (await fixture.sql('SELECT * FROM csr_issuances WHERE certificate_id = $1', [certificateId]))[0]
  const due = (certificateId: string) =>
    fixture.sql('UPDATE csr_issuances SET due_at = now() WHERE certificate_id = $1', [certificateId])
  const lost = (): never => {
    throw new CaError('lost', { retryable: true, mayHaveIssued: true })
  }
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

  // RFC 8555 §6.6
  test('a backend that limits its rate is no backend that is away: it is left alone by new orders alone', async () => {
    const limited = (): never => {
      throw new CaError('too many', { retryable: true, retryAfterMs: 60_000, pauseMs: 60_000 })
    }
    const atWork: IssuanceStep = { status: 'pending', state: { n: 1 }, retryAfterMs: 60_000, mayHaveIssued: false }
    const both = issuances({ a: (state) => (state ? atWork : limited()), b: () => atWork }, {}, ONE_FAILURE)
    const underWay = await begun()
    await fixture.sql("UPDATE csr_issuances SET state = '{}' WHERE certificate_id = $1", [underWay])
    assert.equal(await both.issue(await begun()), 'pending')
    assert.deepEqual(asked, ['a -', 'b -'], 'the next one is asked at once')
    assert.equal(await both.issue(await begun()), 'pending')
    assert.deepEqual(asked.slice(2), ['b -'])
    assert.equal(await both.issue(underWay), 'pending')
    assert.deepEqual(asked.slice(3), ['a {}'])
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

  const placing: Script = (state) =>
    state === undefined
      ? { status: 'pending', state: { placed: 1 }, retryAfterMs: 60_000, mayHaveIssued: false }
      : away()

  test('what a backend has published is withdrawn before the next one is asked', async () => {
    const both = issuances({ a: placing, b: () => REFUSED })
    const certificateId = await begun()
    assert.equal(await both.issue(certificateId), 'pending')
    await due(certificateId)
    assert.equal(await both.issue(certificateId), 'failed')
    assert.deepEqual(asked, ['a -', 'a {"placed":1}', 'a leaves {"placed":1}', 'a leaves {"placed":0}', 'b -'])
  })

  test('what a backend has published is withdrawn before the signer is asked, even with its circuit breaker open', async () => {
    let isAway = false
    const a: Script = (state, step) => (isAway ? away() : placing(state, step))
    const signer = {
      isUsable: () => true,
      async issue({ state }: ClaimedIssuance) {
        asked.push(`signer ${JSON.stringify(state) ?? '-'}`)
        return 'recorded' as const
      },
    }
    const both = issuances({ a }, { candidatesOf: () => ['a', 'internal'], signer }, ONE_FAILURE)
    const [first, second] = [await begun(), await begun()]
    assert.equal(await both.issue(first), 'pending')
    isAway = true
    assert.equal(await both.issue(second), 'recorded')
    await due(first)
    assert.equal(await both.issue(first), 'recorded')
    assert.deepEqual(asked, ['a -', 'a -', 'signer -', 'a leaves {"placed":1}', 'a leaves {"placed":0}', 'signer -'])
  })

  describe('with the signer among the backends', () => {
    /** Moves the row as the signer's turn does, and then says what has become of it. */
    const aSigner = (turn: SignerTurn) => ({
      isUsable: () => true,
      async issue({ certificateId }: ClaimedIssuance) {
        asked.push('signer')
        const [serialNumber, issuerFingerprint, tbs] = [Buffer.of(1), Buffer.alloc(32), Buffer.of(2)]
        const intent = { certificateId, serialNumber, issuerId: 'default', issuerFingerprint, tbs }
        assert.equal(await store.giveToSigner(intent, INSTANCE), true)
        return turn
      },
    })
    const intents = async () => (await fixture.sql('SELECT FROM issuance_intents')).length

    test('one that was begun with another backend does not ask the signer first', async () => {
      const parts = { candidatesOf: () => ['internal', 'a'], signer: aSigner('recorded') }
      assert.equal(await issuances({ a: () => REFUSED }, parts).issue(await begun()), 'failed')
      assert.deepEqual(asked, ['a -'])
    })

    test('what it has surely not signed goes on with the next backend', async () => {
      const parts = { candidatesOf: () => ['a', 'internal', 'b'], signer: aSigner('unsigned') }
      assert.equal(await issuances({ a: away, b: () => REFUSED }, parts).issue(await begun()), 'failed')
      assert.deepEqual(asked, ['a -', 'signer', 'b -'])
      assert.equal(await intents(), 0)
    })

    test('or, after a rest, with the one before it; its time does not begin anew', async () => {
      const parts = { candidatesOf: () => ['a', 'internal'], signer: aSigner('unsigned') }
      const both = issuances({ a: away }, parts)
      const certificateId = await begun()
      await fixture.sql(
        "UPDATE csr_issuances SET created_at = now() - interval '500 seconds' WHERE certificate_id = $1",
        [certificateId],
      )
      assert.equal(await both.issue(certificateId), 'pending')
      assert.deepEqual(asked, ['a -', 'signer'])
      assert.equal(await intents(), 0)
      const [row] = await fixture.sql(
        `SELECT backend, failures, is_running, due_at > now() AS rests, now() - created_at >= '500 seconds' AS is_old
           FROM csr_issuances WHERE certificate_id = $1`,
        [certificateId],
      )
      assert.deepEqual(row, { backend: 'a', failures: 1, is_running: false, rests: true, is_old: true })
    })

    test('what it may have signed stays with it', async () => {
      const parts = { candidatesOf: () => ['a', 'internal', 'b'], signer: aSigner('pending') }
      assert.equal(await issuances({ a: away, b: () => REFUSED }, parts).issue(await begun()), 'pending')
      assert.deepEqual(asked, ['a -', 'signer'])
      assert.equal(await intents(), 1)
    })
  })

  test('an order ends in its time, however long its backend is away or asks to be left alone', async () => {
    const dueIn = async (certificateId: string) =>
      Number(
        (
          await fixture.sql(
            'SELECT extract(epoch FROM due_at - now()) AS s FROM csr_issuances WHERE certificate_id = $1',
            [certificateId],
          )
        )[0]?.['s'],
      )
    const a: Script = () => {
      throw new CaError('away', { retryable: true, retryAfterMs: 3_600_000 })
    }
    const alone = issuances({ a }, { timeoutSeconds: 20 }, ONE_FAILURE)
    const [failed, leftAlone] = [await begun(), await begun()]
    for (const one of [failed, leftAlone]) {
      assert.equal(await alone.issue(one), 'pending')
      const seconds = await dueIn(one)
      assert.ok(seconds > 0 && seconds <= 21, `${seconds} seconds`)
    }
    assert.equal(asked.length, 1, 'the second one met an open circuit breaker')
    await fixture.sql(
      "UPDATE csr_issuances SET due_at = now(), created_at = now() - interval '21 seconds' WHERE certificate_id = $1",
      [failed],
    )
    assert.equal(await alone.issue(failed), 'failed')
  })

  test('a later error does not take back that a certificate may exist', async () => {
    const refusing = (): never => {
      throw new CaError('not now', { retryable: false })
    }
    const scripts = [lost, away, refusing]
    const both = issuances({ a: () => (scripts.shift() as () => never)(), b: () => REFUSED })
    const certificateId = await begun()
    for (const expected of ['pending', 'pending', 'failed'] as const) {
      await due(certificateId)
      assert.equal(await both.issue(certificateId), expected)
      assert.equal(alarms.length, expected === 'failed' ? 1 : 0)
    }
    assert.deepEqual(asked, ['a -', 'a - again', 'a - again'], 'the backend knows that its first answer was lost')
  })

  test('a step that failed while a certificate may exist is repeated as such, with its state', async () => {
    const certificateId = await begun()
    const scripts: Script[] = [
      () => ({ status: 'pending', state: { n: 1 }, retryAfterMs: 0, mayHaveIssued: false }),
      lost,
      () => REFUSED,
    ]
    const steps = issuances({ a: (state, step) => (scripts.shift() as Script)(state, step) })
    assert.equal(await steps.issue(certificateId), 'pending')
    await due(certificateId)
    assert.equal(await steps.issue(certificateId), 'failed')
    assert.deepEqual(asked, ['a -', 'a {"n":1}', 'a {"n":1} again'])
  })

  test('what no error of a backend describes may have issued', async () => {
    const broken: Script = () => {
      throw new TypeError('a fault of our own')
    }
    const certificateId = await begun()
    assert.equal(await issuances({ a: broken, b: () => REFUSED }).issue(certificateId), 'pending')
    assert.deepEqual(asked, ['a -'])
    assert.equal((await rowOf(certificateId))?.['may_have_issued'], true)
  })

  test('of two that would test a backend which was away, one goes on to the next at once', async () => {
    let isAway = true
    const a: Script = async () => {
      if (isAway) away()
      await until('the next one is asked', () => asked.includes('b -'))
      return REFUSED
    }
    let saved = 0
    const together: CsrIssuanceStore = {
      ...store,
      async save(progress, instanceId) {
        const isSaved = await store.save(progress, instanceId)
        saved++
        // Both have chosen before one of them is let through.
        if (!isAway) await until('both are saved', () => saved >= 2)
        return isSaved
      },
    }
    const both = issuances({ a, b: () => REFUSED }, { store: together }, { failures: 1, recoveryMs: 1 })
    assert.equal(await both.issue(await begun()), 'failed')
    saved = 0
    isAway = false
    asked.length = 0
    const ids = [await begun('c'), await begun('c')]
    assert.deepEqual(await Promise.all(ids.map((id) => both.issue(id))), ['failed', 'failed'])
    assert.deepEqual(asked.toSorted(), ['a -', 'b -'])
  })

  test('of an order that has ended, what may have been issued is asked for ever more rarely', async () => {
    const a: Script = () => ({ status: 'pending', state: 1, retryAfterMs: 1_000, mayHaveIssued: true })
    for (const [hours, from, to] of [
      // Due a second later, and the machine may have stood still since.
      [0, -60, 10],
      [1, 300, 400],
      [100, 3_500, 3_600],
    ] as const) {
      const certificateId = await begun()
      await fixture.sql(
        `UPDATE csr_issuances SET abandoned_at = now() - make_interval(hours => $2), state = '1', may_have_issued = true
          WHERE certificate_id = $1`,
        [certificateId, hours],
      )
      assert.equal(await issuances({ a }).issue(certificateId), 'pending')
      const rest = Number((await rowOf(certificateId))?.['due_at']) - Date.now()
      assert.ok(rest > from * 1_000 && rest <= to * 1_000, `${hours} hours: ${rest} ms`)
    }
  })

  test('a certificate whose row is gone is to be revoked, unless it is recorded or another instance goes on', async () => {
    const certificateId = await begun()
    const der = Buffer.from(certificateId)
    const waiting = () => fixture.sql('SELECT FROM backend_revocations WHERE der = $1', [der])
    assert.equal(await store.disown(certificateId, 'a', der), false, 'its row is there')
    const [row] = await fixture.sql('DELETE FROM csr_issuances WHERE certificate_id = $1 RETURNING order_id', [
      certificateId,
    ])
    assert.ok(row)
    assert.equal(await store.disown(certificateId, 'a', der), true)
    assert.equal((await waiting()).length, 1)
    await fixture.sql(
      `INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
       VALUES (gen_random_uuid(), $1, $1, '{}', now(), now(), $1)`,
      [der],
    )
    assert.equal(await store.disown(certificateId, 'a', der), false, 'it is recorded')
  })

  describe('whose key was blocked while the CA was at work', () => {
    const received = (certificateId: string) => ({
      certificateId,
      serialNumber: Buffer.from(certificateId.replaceAll('-', ''), 'hex'),
      issuerFingerprint: Buffer.alloc(32),
      names: [],
      notBefore: new Date(),
      notAfter: new Date(Date.now() + 1e9),
      der: Buffer.from(certificateId),
    })
    const block = () =>
      fixture.sql('INSERT INTO blocked_keys (spki_sha256, certificate_id) VALUES ($1, $2)', [Buffer.alloc(32), newId()])
    afterEach(() => fixture.sql('DELETE FROM blocked_keys'))

    // CA/Browser Forum BR 4.9.1.1 (3), 6.1.1.3
    for (const isAbandoned of [false, true])
      test(`a certificate that comes is revoked for keyCompromise, and its order fails${isAbandoned ? ', also after its order' : ''}`, async () => {
        const certificateId = await begun()
        const id = (await rowOf(certificateId))?.['order_id']
        if (isAbandoned) await store.abandon(certificateId, INSTANCE, LAPSE_PROBLEMS.expired)
        await block()
        assert.equal(await store.record(received(certificateId), INSTANCE, KEY_BLOCKED), 'late')
        const [order] = await fixture.sql('SELECT status, certificate_id, error FROM orders WHERE id = $1', [id])
        const error = isAbandoned ? LAPSE_PROBLEMS.expired : KEY_BLOCKED
        assert.deepEqual(order, { status: 'invalid', certificate_id: null, error: { ...error } })
        const reasons = await fixture.sql(
          `SELECT c.revocation_reason, r.reason FROM certificates c JOIN backend_revocations r ON r.certificate_id = c.id WHERE c.id = $1`,
          [certificateId],
        )
        assert.deepEqual(reasons, [{ revocation_reason: 1, reason: 1 }])
        assert.deepEqual(
          await fixture.sql('SELECT FROM upstream_renewals WHERE certificate_id = $1', [certificateId]),
          [],
        )
      })

    test('the signer does not get it in its turn, and the order fails', async () => {
      const given: boolean[] = []
      const signer = {
        isUsable: () => true,
        async issue({ certificateId }: ClaimedIssuance) {
          const [serialNumber, issuerFingerprint, tbs] = [Buffer.of(1), Buffer.alloc(32), Buffer.of(2)]
          const intent = { certificateId, serialNumber, issuerId: 'default', issuerFingerprint, tbs }
          given.push(await store.giveToSigner(intent, INSTANCE))
          return 'not given' as const
        },
      }
      const a: Script = async () => {
        await block()
        throw new CaError('away', { retryable: true })
      }
      const both = issuances({ a }, { candidatesOf: () => ['a', 'internal'], signer }, ONE_FAILURE)
      const certificateId = await begun()
      const id = (await rowOf(certificateId))?.['order_id']
      assert.equal(await both.issue(certificateId), 'pending')
      assert.deepEqual(given, [false])
      await due(certificateId)
      assert.equal(await both.issue(certificateId), 'failed')
      assert.deepEqual((await fixture.sql('SELECT error FROM orders WHERE id = $1', [id]))[0]?.['error'], {
        ...KEY_BLOCKED,
      })
    })
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
    const progress = { certificateId, backend: 'a', state: undefined, failures: 0 }
    const late = await store.save({ ...progress, event: 'open', isRunning: false, dueInSeconds: 0 }, INSTANCE)
    assert.equal(late, false, 'the former holder changes nothing')
    assert.equal(await store.fail(certificateId, INSTANCE, problemDocument('serverInternal', 'late')), false)
  })
})
