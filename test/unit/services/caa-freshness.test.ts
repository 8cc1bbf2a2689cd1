/** When finalize asks for CAA records again, and what it makes of the findings (RFC 8659 §3, BR 3.2.2.8). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Authorization, Order } from '../../../src/domain/records.ts'
import { StaleAccountError } from '../../../src/services/account-cache.ts'
import { type CaaCheckRequest, createCaaFreshness } from '../../../src/services/caa-freshness.ts'
import { Problem, type ProblemType } from '../../../src/shared/protocol/problem.ts'
import { STALE_ACCOUNT } from '../../../src/store/account-store.ts'
import type { CaaFinding } from '../../../workers/job.ts'

const NOW = new Date('2026-05-01T12:00:00Z')
const REQUESTER = { accountId: 'account', keyVersion: 1 }
const hoursAgo = (hours: number) => new Date(NOW.getTime() - hours * 3_600_000)
const GOOD: CaaFinding = { result: 'permitted', evidence: [] }
const bad = (result: 'forbidden' | 'failed'): CaaFinding => ({ result, detail: `it is ${result}`, evidence: [] })

function anAuthorization(value: string, over: Partial<Authorization> = {}): Authorization {
  return {
    id: value,
    accountId: 'account',
    identifier: { type: value === '192.0.2.1' ? 'ip' : 'dns', value },
    wildcard: false,
    status: 'valid',
    expiresAt: hoursAgo(-24),
    token: 'token',
    offered: ['http-01', 'dns-01'],
    attempts: {},
    ...over,
  } as Authorization
}
const checked = (hours: number): Authorization['attempts'] => ({
  'http-01': { status: 'invalid', tries: 1 },
  'dns-01': { status: 'valid', tries: 0, caaChecked: hoursAgo(hours).toISOString() },
})

function setUp(authorizations: readonly Authorization[], findings: readonly CaaFinding[] | undefined) {
  const asked: CaaCheckRequest[] = []
  const require = createCaaFreshness(
    { find: async ({ authorizationId }) => authorizations.find(({ id }) => id === authorizationId) },
    async (request) => {
      asked.push(request)
      return findings
    },
  )
  const order: Order = {
    id: 'order',
    accountId: 'account',
    status: 'ready',
    identifiers: authorizations.map(({ identifier }) => identifier),
    authorizationIds: authorizations.map(({ id }) => id),
    expiresAt: hoursAgo(-24),
    profile: 'default',
  }
  return { asked, check: (over: Partial<Order> = {}) => require(REQUESTER, { ...order, ...over }, NOW) }
}

async function refusal(work: Promise<void> | undefined): Promise<Problem> {
  const error = await Promise.resolve(work).then(
    () => assert.fail('it was permitted'),
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof Problem)
  return error
}

describe('CAA at finalize', () => {
  test('a fresh order costs no promise and no question', () => {
    const { asked, check } = setUp([anAuthorization('a.example')], [GOOD])
    assert.equal(check({ caaCheckedAt: hoursAgo(7.99) }), undefined)
    assert.equal(asked.length, 0)
  })
  test('an order of addresses alone costs none either', () => {
    const { check } = setUp([anAuthorization('192.0.2.1')], undefined)
    assert.equal(check(), undefined)
  })
  test('authorizations of a long order are read eight at a time', async () => {
    const names = Array.from({ length: 100 }, (_, i) => anAuthorization(`${i}.example`, { attempts: checked(1) }))
    let reading = 0
    let most = 0
    const find = async ({ authorizationId }: { authorizationId: string }) => {
      most = Math.max(most, ++reading)
      await new Promise(setImmediate)
      reading--
      return names.find(({ id }) => id === authorizationId)
    }
    const order = {
      identifiers: names.map(({ identifier }) => identifier),
      authorizationIds: names.map(({ id }) => id),
    }
    await createCaaFreshness({ find }, () => assert.fail('all are fresh'))(REQUESTER, order as unknown as Order, NOW)
    assert.equal(most, 8)
  })
  test('a challenge that was accepted unseen met no method', async () => {
    const attempts = { 'http-01': { status: 'valid', tries: 0, accepted: true } } as const
    const { asked, check } = setUp([anAuthorization('a.example', { attempts })], [GOOD])
    await check()
    assert.deepEqual(asked[0]?.subjects, [{ name: 'a.example', wildcard: false }])
  })
  test('after eight hours the names are asked for, with the method that was met', async () => {
    const { asked, check } = setUp([anAuthorization('a.example', { attempts: checked(8), wildcard: true })], [GOOD])
    await check({ caaCheckedAt: hoursAgo(8) })
    assert.deepEqual(asked, [
      { accountId: 'account', orderId: 'order', subjects: [{ name: 'a.example', wildcard: true, method: 'dns-01' }] },
    ])
  })
  test('a check of a time that has not come was written by a clock that was ahead, and counts for nothing', async () => {
    const { asked, check } = setUp([anAuthorization('a.example', { attempts: checked(-24 * 400) })], [GOOD])
    await check({ caaCheckedAt: hoursAgo(-24 * 400) })
    assert.equal(asked[0]?.subjects[0]?.name, 'a.example')
  })
  test('clocks of two instances may differ by a few minutes', () => {
    assert.equal(setUp([anAuthorization('a.example')], [GOOD]).check({ caaCheckedAt: hoursAgo(-0.08) }), undefined)
  })
  test('only what is old or was never checked is asked for', async () => {
    const names = [
      anAuthorization('fresh.example', { attempts: checked(1) }),
      anAuthorization('old.example', { attempts: checked(9) }),
      anAuthorization('never.example'),
      anAuthorization('192.0.2.1'),
    ]
    const { asked, check } = setUp(names, [GOOD, GOOD])
    await check()
    assert.deepEqual(asked[0]?.subjects, [
      { name: 'old.example', wildcard: false, method: 'dns-01' },
      { name: 'never.example', wildcard: false },
    ])
  })
  const single: [string, readonly CaaFinding[] | undefined, ProblemType, number, number | undefined][] = [
    ['records that forbid', [bad('forbidden')], 'caa', 403, undefined],
    ['a look-up that fails', [bad('failed')], 'dns', 503, 60],
    ['no finding for the name', [], 'dns', 503, 60],
    ['nobody who has time', undefined, 'serverInternal', 503, 5],
  ]
  for (const [what, findings, type, status, retryAfter] of single)
    test(`${what}: ${type} ${status}`, async () => {
      const problem = await refusal(setUp([anAuthorization('a.example')], findings).check())
      assert.deepEqual([problem.type, problem.status, problem.options.retryAfterSeconds], [type, status, retryAfter])
      assert.equal(problem.options.subproblems, undefined)
    })
  test('one obstacle among several names has its own type, and a subproblem that names it', async () => {
    const names = [anAuthorization('a.example'), anAuthorization('b.example')]
    const { type, options } = await refusal(setUp(names, [GOOD, bad('forbidden')]).check())
    assert.deepEqual([type, options.subproblems?.map(({ identifier }) => identifier?.value)], ['caa', ['b.example']])
  })
  test('several obstacles are compound, and worth coming back for only when all may pass', async () => {
    const names = ['a.example', 'b.example'].map((name) => anAuthorization(name, { wildcard: name === 'b.example' }))
    const mixed = await refusal(setUp(names, [bad('forbidden'), bad('failed')]).check())
    assert.deepEqual([mixed.type, mixed.status, mixed.options.retryAfterSeconds], ['compound', 400, undefined])
    const found = mixed.options.subproblems?.map(({ type, identifier }) => [type, identifier?.value])
    assert.deepEqual(found, [
      ['caa', 'a.example'],
      ['dns', '*.b.example'],
    ])
    const away = await refusal(setUp(names, [bad('failed'), bad('failed')]).check())
    assert.deepEqual([away.type, away.status, away.options.retryAfterSeconds], ['compound', 503, 60])
  })
  test('an excepted zone is no obstacle', async () => {
    const { asked, check } = setUp([anAuthorization('a.example')], [{ result: 'excepted', evidence: [] }])
    await check()
    assert.equal(asked.length, 1)
  })
  test('an account that has changed meanwhile is said so', async () => {
    const require = createCaaFreshness({ find: async () => STALE_ACCOUNT }, async () => [GOOD])
    const order = { identifiers: [{ type: 'dns', value: 'a.example' }], authorizationIds: ['a'] } as unknown as Order
    await assert.rejects(Promise.resolve(require(REQUESTER, order, NOW)), StaleAccountError)
  })
})
