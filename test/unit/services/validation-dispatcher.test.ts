/** The dispatcher of validations: once at a time, retries with backoff, interruptions, bounds, drain. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ValidationRecord } from '../../../src/domain/validation-attempt.ts'
import type { AttemptEnded, ValidationRequest } from '../../../src/services/challenge-triggers.ts'
import { type DispatcherOptions, ValidationDispatcher } from '../../../src/services/validation-dispatcher.ts'
import type { ChallengeType } from '../../../src/shared/protocol/challenge.ts'
import type { AttemptResult } from '../../../src/store/challenge-store.ts'
import type { ValidationJob, ValidationVerdict } from '../../../workers/job.ts'
import { each } from '../../support/each.ts'
import { gate } from '../../support/gate.ts'
import { until } from '../../support/until.ts'

const GOOD: ValidationVerdict = { ok: true, evidence: [] }
const bad = (retryable: boolean): ValidationVerdict => ({
  ok: false,
  problem: 'connection',
  detail: 'nobody answers',
  retryable,
  evidence: [],
})

const LIMITS = { total: 4, perAccount: 4, perTarget: 4, maxWaiting: 400 }
const DECIDED_ELSEWHERE = { recordAttempt: async () => false, renew: async () => true }

let counter = 0
function aRequest(over: Partial<ValidationRequest> = {}): ValidationRequest {
  return {
    authorizationId: `authorization-${++counter}`,
    accountId: 'account',
    type: 'http-01',
    identifier: { type: 'dns', value: 'host.example' },
    wildcard: false,
    token: 'token',
    thumbprint: 'thumbprint',
    formerThumbprints: [],
    tries: 0,
    requestId: 'request',
    ...over,
  }
}

/** A dispatcher over a scripted validator and a store that keeps what it is told. */
function aDispatcher(
  validate: (job: ValidationJob, run: number) => Promise<ValidationVerdict>,
  over: Partial<DispatcherOptions> = {},
) {
  const recorded: AttemptResult[] = []
  const results: string[] = []
  const interruptions: unknown[] = []
  const ended: [number, AttemptEnded][] = []
  const startedAt: number[] = []
  const everyType = (tries: number) =>
    Object.fromEntries(
      ['http-01', 'dns-01', 'tls-alpn-01', 'dns-persist-01', 'dns-account-01'].map((type) => [type, tries]),
    ) as Record<ChallengeType, number>
  const dispatcher = new ValidationDispatcher({
    async validate(job) {
      startedAt.push(performance.now())
      return validate(job, startedAt.length)
    },
    jobFor: ({ authorizationId }) => ({ token: authorizationId }) as ValidationJob,
    store: {
      async recordAttempt(result) {
        recorded.push(result)
        return true
      },
      renew: async () => true,
    },
    policy: { maxRetries: everyType(2), backoffBaseMs: 40, backoffMaxMs: 60 },
    instanceId: 1,
    presentSince: () => 0,
    limits: { ...LIMITS },
    claimFreshMs: 60_000,
    events: {
      attempted: (_request, { result }) => results.push(result),
      superseded: () => results.push('superseded'),
      interrupted: (_request, error) => interruptions.push(error),
      ended: (front, attempt) => ended.push([front, attempt]),
    },
    ...over,
  })
  const idle = () => until('nothing waits or runs', () => dispatcher.load().known === 0)
  const run = async (request?: Partial<ValidationRequest>, front?: number) => {
    dispatcher.dispatch(aRequest(request), front)
    await idle()
  }
  return { dispatcher, recorded, results, interruptions, ended, startedAt, idle, run }
}

/** A validator that finds all well, after a while. */
const goodAfter = (ms: number) => () => sleep(ms, GOOD)
const outcomes = (recorded: readonly AttemptResult[]) => recorded.map(({ outcome }) => outcome)

describe('validation dispatcher', () => {
  test('a good verdict is recorded as valid, with its time', async () => {
    const { dispatcher, recorded, results, idle } = aDispatcher(async () => GOOD)
    const request = aRequest()
    assert.equal(dispatcher.dispatch(request), true)
    await idle()
    assert.deepEqual(outcomes(recorded), ['valid'])
    assert.equal(recorded[0]?.authorizationId, request.authorizationId)
    assert.equal(recorded[0]?.attempt.status, 'valid')
    assert.match(recorded[0]?.attempt.validated ?? '', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
    assert.deepEqual(results, ['success'])
  })

  test('a proof that is good for a time bounds the authorization, counted from before the attempt', async () => {
    const { recorded, run } = aDispatcher(() => sleep(30, { ...GOOD, validForSeconds: 60 }))
    const before = performance.now()
    await run()
    const seconds = (performance.now() - before) / 1000
    const validForSeconds = recorded[0]?.validForSeconds ?? 0
    assert.ok(validForSeconds > 59.99 - seconds && validForSeconds < 59.98, `${validForSeconds} after ${seconds}`)
  })

  for (const [what, retryable, tries] of [
    ['that is final', false, 0],
    ['that may change, after the tries that a former instance had,', true, 2],
  ] as const)
    test(`a verdict ${what} is recorded as invalid at once`, async () => {
      const { recorded, results, run } = aDispatcher(async () => bad(retryable))
      await run({ tries })
      assert.deepEqual(outcomes(recorded), ['invalid'])
      assert.equal(recorded[0]?.attempt.error?.type, 'urn:ietf:params:acme:error:connection')
      assert.deepEqual(results, ['failure'])
    })

  test('a verdict that may change is retried with growing delays, processing meanwhile, then invalid', async () => {
    const { recorded, results, startedAt, run } = aDispatcher(async () => bad(true))
    await run()
    assert.deepEqual(outcomes(recorded), [null, null, 'invalid'])
    const found = recorded.map(({ attempt: { status, tries } }) => `${status} ${tries}`)
    assert.deepEqual(found, ['processing 1', 'processing 2', 'invalid 3'])
    assert.deepEqual(results, ['retry', 'retry', 'failure'])
    const [first, second, third] = startedAt as [number, number, number]
    assert.ok(second - first >= 39, `${second - first}`)
    assert.ok(third - second >= 59, `${third - second}`)
  })

  test('a challenge that waits or runs is not validated twice; when nothing was decided it can be again', async () => {
    const { dispatcher, startedAt, idle } = aDispatcher(goodAfter(20), { store: DECIDED_ELSEWHERE })
    const request = aRequest()
    for (let i = 0; i < 5; i++) assert.equal(dispatcher.dispatch({ ...request, requestId: `${i}` }), true)
    dispatcher.dispatch({ ...request, type: 'dns-01' })
    assert.equal(dispatcher.load().known, 2)
    await idle()
    assert.equal(startedAt.length, 2)
    dispatcher.dispatch(request)
    await idle()
    assert.equal(startedAt.length, 3)
  })

  test('an attempt without a verdict is repeated and does not count as a try', async () => {
    const { recorded, interruptions, run } = aDispatcher(async (_job, run) => {
      if (run === 1) throw new Error('the thread died')
      return bad(false)
    })
    await run()
    assert.equal(interruptions.length, 1)
    assert.equal(recorded[0]?.attempt.tries, 1)
  })

  test('an attempt that could not be recorded is repeated', async () => {
    let writes = 0
    const { interruptions, startedAt, run } = aDispatcher(async () => GOOD, {
      store: {
        async recordAttempt() {
          if (++writes === 1) throw new Error('the database is away')
          return true
        },
        renew: async () => true,
      },
    })
    await run()
    assert.deepEqual([writes, interruptions.length, startedAt.length], [2, 1, 2])
  })

  test('an authorization that was decided elsewhere is not tried again', async () => {
    const { results, startedAt, run } = aDispatcher(async () => bad(true), { store: DECIDED_ELSEWHERE })
    await run()
    await sleep(100)
    assert.equal(startedAt.length, 1)
    assert.deepEqual(results, ['superseded'])
  })

  test('what may run starts at once, and what waits when one of those ends', async () => {
    const { dispatcher, startedAt, idle } = aDispatcher(goodAfter(20))
    for (let i = 0; i < 6; i++) dispatcher.dispatch(aRequest())
    assert.equal(startedAt.length, 4)
    assert.equal(dispatcher.load().waiting.target, 2)
    await idle()
    assert.equal(startedAt.length, 6)
  })

  test('an account with slow targets delays nobody else', async () => {
    const ended: string[] = []
    const { opened, open } = gate()
    const { dispatcher, idle } = aDispatcher(
      async (job) => {
        if ((job as { token: string }).token.startsWith('slow')) await opened
        return GOOD
      },
      {
        limits: { ...LIMITS, perAccount: 3, perTarget: 100 },
        events: { attempted: ({ accountId }) => ended.push(accountId), superseded() {}, interrupted() {}, ended() {} },
      },
    )
    for (let i = 0; i < 30; i++) dispatcher.dispatch(aRequest({ authorizationId: `slow-${i}`, accountId: 'slow' }))
    await sleep(20)
    for (let i = 0; i < 30; i++) dispatcher.dispatch(aRequest({ accountId: `other-${i % 3}` }))
    await until('it is so', () => dispatcher.load().known === 30)
    assert.equal(ended.includes('slow'), false)
    const { known, running, waiting } = dispatcher.load()
    assert.deepEqual([known, running, waiting], [30, 3, { capacity: 0, account: 27, target: 0, backoff: 0 }])
    assert.ok(dispatcher.load().oldestWaitMs > 10)
    open()
    await idle()
  })

  test('thousands that end at once make room for thousands that wait', async () => {
    const { opened, open } = gate()
    const total = 4_000
    const limits = { total, perAccount: total, perTarget: 2 * total, maxWaiting: 8 * total }
    const { dispatcher, results, idle } = aDispatcher(() => opened.then(() => GOOD), { limits })
    for (let i = 0; i < 2 * total; i++) dispatcher.dispatch(aRequest())
    await until('it is so', () => dispatcher.load().running === total)
    open()
    await idle()
    assert.equal(results.length, 2 * total)
  })

  test('an account may have a quarter of what can wait', () => {
    const { dispatcher } = aDispatcher(() => new Promise(() => undefined), { limits: { ...LIMITS, maxWaiting: 8 } })
    const found = ['a', 'a', 'a', 'b'].map((accountId) => dispatcher.dispatch(aRequest({ accountId })))
    assert.deepEqual(found, [true, true, false, true])
  })

  describe('claims', () => {
    function withClaim(renew: () => Promise<boolean>, over: Partial<DispatcherOptions> = {}) {
      const store = { recordAttempt: async () => true, renew }
      return aDispatcher(async () => GOOD, { store, ...over })
    }

    test('a fresh one is not renewed', async () => {
      let renewals = 0
      const { results, run } = withClaim(async () => ++renewals > 0)
      await run()
      assert.deepEqual([renewals, results], [0, ['success']])
    })

    const DOUBTFUL: [string, Partial<DispatcherOptions>, Partial<ValidationRequest>][] = [
      ['that has waited for long', { claimFreshMs: 0 }, {}],
      ['from before this instance was seen to live', { presentSince: () => performance.now() + 60_000 }, {}],
      ['of an instance that is not seen to live', { presentSince: () => undefined }, {}],
      ['of an earlier request', {}, { isRepeat: true }],
    ]
    for (const [title, options, over] of DOUBTFUL)
      test(`one ${title} is renewed before the attempt, and without it there is none`, async () => {
        for (const renewed of [true, false]) {
          let renewals = 0
          const { dispatcher, results, startedAt, idle } = withClaim(async () => {
            renewals++
            return renewed
          }, options)
          dispatcher.dispatch(aRequest(over))
          await idle()
          assert.deepEqual([renewals, startedAt.length], [1, renewed ? 1 : 0])
          assert.deepEqual(results, [renewed ? 'success' : 'superseded'])
        }
      })

    test('one is renewed after an attempt without a verdict', async () => {
      let renewals = 0
      const store = { recordAttempt: async () => true, renew: async () => ++renewals < 0 }
      const { results, run } = aDispatcher(() => Promise.reject(new Error('the thread died')), { store })
      await run()
      assert.deepEqual([renewals, results], [1, ['superseded']])
    })
  })

  test('attempts that took long enough together are the last (docs/decisions/bounded-attempts.md)', async () => {
    const policy = { maxRetries: { 'http-01': 9 }, maxSpentMs: { 'http-01': 50 }, backoffBaseMs: 1, backoffMaxMs: 1 }
    const slow = aDispatcher(() => sleep(60, bad(true)), { policy })
    await slow.run()
    assert.deepEqual([slow.startedAt.length, slow.results], [1, ['failure']])
    const other = aDispatcher(async () => bad(true), { policy: { ...policy, maxSpentMs: { 'dns-01': 0 } } })
    await other.run()
    assert.equal(other.startedAt.length, 10)
  })

  test('a client that asks again has the next attempt sooner, but not at once (RFC 8555 §8.2)', async () => {
    const { dispatcher, startedAt, idle } = aDispatcher(async (_job, run) => (run === 2 ? GOOD : bad(true)), {
      policy: {
        maxRetries: { 'http-01': 12 } as Record<ChallengeType, number>,
        backoffBaseMs: 60,
        backoffMaxMs: 60_000,
      },
    })
    // After so many tries the next one is a minute away.
    const request = aRequest({ tries: 11 })
    dispatcher.dispatch(request)
    await until('it is so', () => dispatcher.load().waiting.backoff === 1)
    for (let i = 0; i < 5; i++) assert.equal(dispatcher.dispatch({ ...request, isRepeat: true }), true)
    await idle()
    const [first, second] = startedAt as [number, number]
    // A timer that is set for a part of a millisecond may come two before its time.
    assert.ok(second - first >= 58 && second - first < 30_000, `${second - first}`)
    assert.equal(startedAt.length, 2)
  })

  test('the record of each attempt is reported, and the last one kept', async () => {
    const records: ValidationRecord[] = []
    const { recorded, run } = aDispatcher(async (_job, run) => (run === 1 ? bad(true) : GOOD), {
      events: { attempted: (_request, record) => records.push(record), superseded() {}, interrupted() {}, ended() {} },
    })
    await run()
    const found = records.map(({ attempt, result, problem }) => [attempt, result, problem])
    assert.deepEqual(found, [
      [1, 'retry', 'connection'],
      [2, 'success', undefined],
    ])
    const shown = recorded.map(({ evidence, retryInMs, attempt }) => [evidence, retryInMs, attempt.thumbprint])
    assert.deepEqual(shown, [
      [undefined, 40, 'thumbprint'],
      [records[1], undefined, undefined],
    ])
  })

  describe('a front thread that handed over', () => {
    test('is told how each attempt ended', async () => {
      const { dispatcher, ended, idle } = aDispatcher(async (_job, run) => (run === 1 ? bad(true) : GOOD))
      const request = aRequest()
      dispatcher.dispatch(request, 3)
      await idle()
      const found = ended.map(([front, { authorizationId, recorded }]) => [front, authorizationId, recorded?.outcome])
      assert.deepEqual(found, [
        [3, request.authorizationId, null],
        [3, request.authorizationId, 'valid'],
      ])
      assert.equal(ended[0]?.[1].recorded?.attempt.status, 'processing')
    })

    test('is told once, and so is another one that did so meanwhile', async () => {
      const { dispatcher, ended, idle } = aDispatcher(goodAfter(20))
      const request = aRequest()
      for (const front of [0, 1, 0, 1]) dispatcher.dispatch(request, front)
      await idle()
      const found = ended.map(([front]) => front)
      assert.deepEqual(found, [0, 1])
    })

    test('is told that there is nothing to record any more, of a verdict and of a claim that is lost', async () => {
      const { dispatcher, ended, idle } = aDispatcher(async () => GOOD, {
        store: { recordAttempt: async () => false, renew: async () => false },
      })
      const [unrecorded, unclaimed] = [aRequest(), aRequest({ isRepeat: true })]
      dispatcher.dispatch(unrecorded, 1)
      dispatcher.dispatch(unclaimed, 2)
      await idle()
      assert.deepEqual(ended, [
        [2, { authorizationId: unclaimed.authorizationId }],
        [1, { authorizationId: unrecorded.authorizationId }],
      ])
    })

    test('is told that the proof bounds the authorization', async () => {
      const { ended, run } = aDispatcher(async () => ({ ...GOOD, validForSeconds: 60 }))
      await run({}, 0)
      assert.equal(ended[0]?.[1].recorded?.isBounded, true)
    })
  })

  test('the first attempt alone is recorded without a claim', async () => {
    const { recorded, run } = aDispatcher(async (_job, run) => (run === 1 ? bad(true) : GOOD))
    await run({ isUnclaimed: true, thumbprint: 'of the trigger' }, 0)
    assert.deepEqual(each(recorded, 'unclaimed'), [{ thumbprint: 'of the trigger' }, undefined])
  })

  test('what was on its way while another thread had it tried and decided is not tried, and its thread told', async () => {
    const { dispatcher, startedAt, ended, idle } = aDispatcher(async () => GOOD)
    const request = aRequest({ isUnclaimed: true })
    dispatcher.dispatch(request, 0)
    await idle()
    for (const late of [request, { ...request, type: 'dns-01' as const }, { ...request, isUnclaimed: false }])
      assert.equal(dispatcher.dispatch(late, 1), true)
    assert.equal(dispatcher.load().known, 0)
    assert.equal(startedAt.length, 1)
    const { authorizationId } = request
    assert.deepEqual(ended.slice(1), Array(3).fill([1, { authorizationId }]))
  })

  test('a full queue refuses what is new, not what it has', async () => {
    const { opened, open } = gate()
    const limits = { ...LIMITS, maxWaiting: 3 * 4 }
    const { dispatcher, recorded, idle } = aDispatcher(() => opened.then(() => GOOD), { limits })
    const known = aRequest()
    const found = [known, aRequest(), aRequest(), aRequest(), known].map((request) => dispatcher.dispatch(request))
    assert.deepEqual(found, [true, true, true, false, true])
    open()
    await idle()
    assert.equal(recorded.length, 3)
    assert.equal(dispatcher.dispatch(aRequest()), true)
    await idle()
  })

  describe('drain', () => {
    test('lets running attempts end, starts no others and takes nothing new', async () => {
      const { dispatcher, recorded, startedAt } = aDispatcher(goodAfter(60), { limits: { ...LIMITS, total: 2 } })
      for (let i = 0; i < 6; i++) dispatcher.dispatch(aRequest())
      await until('it is so', () => startedAt.length === 2)
      const draining = dispatcher.drain(5_000)
      assert.equal(dispatcher.dispatch(aRequest()), false)
      await draining
      assert.equal(recorded.length, 2)
      await sleep(100)
      assert.equal(startedAt.length, 2)
    })

    test('leaves no timer behind, also of an attempt that ends meanwhile and would be retried', async () => {
      const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
      const before = timers()
      const { dispatcher, startedAt } = aDispatcher(
        async (_job, run) => {
          if (run > 1) await sleep(50)
          return bad(true)
        },
        {
          policy: {
            maxRetries: { 'http-01': 9 } as Record<ChallengeType, number>,
            backoffBaseMs: 60_000,
            backoffMaxMs: 60_000,
          },
        },
      )
      dispatcher.dispatch(aRequest())
      await until('it is so', () => startedAt.length === 1)
      dispatcher.dispatch(aRequest())
      await until('it is so', () => startedAt.length === 2)
      await dispatcher.drain(5_000)
      await sleep(50)
      assert.ok(timers() <= before, `${timers()} timers after, ${before} before`)
    })

    test('does not wait longer than allowed', async () => {
      const { dispatcher, startedAt, recorded } = aDispatcher(() => new Promise(() => undefined))
      dispatcher.dispatch(aRequest())
      await until('it is so', () => startedAt.length === 1)
      await dispatcher.drain(50)
      assert.deepEqual(recorded, [])
    })
  })
})
