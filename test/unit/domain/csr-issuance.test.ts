/** What becomes of an issuance from a CSR: each row of its table, and each outcome of a step. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  type HeldIssuance,
  isRepetition,
  nextStep,
  type ProgressEvent,
  type StepOutcome,
  type Surroundings,
  statusOnEvent,
} from '../../../src/domain/csr-issuance.ts'
import { CSR_ISSUANCE, type CsrRowStatus } from '../../../src/domain/states.ts'
import { problemDocument } from '../../../src/shared/protocol/problem.ts'

const CLAIMED = { status: 'claimed' } as const
const LAPSED = problemDocument('unauthorized', 'lapsed')
const HERE = { first: 0, next: 0 }
const AWAY = { first: 9_000, next: 9_000 }

const aRow = (changes: Partial<HeldIssuance> = {}): HeldIssuance => ({
  status: 'fresh',
  isRepeated: false,
  backend: 'a',
  failures: 0,
  ageSeconds: 0,
  abandonedSeconds: undefined,
  ...changes,
})

const around = (waits: Record<string, { first: number; next: number }>, more: Partial<Surroundings> = {}) => ({
  candidates: ['a', 'b', 'internal'],
  waits: new Map(Object.entries(waits)),
  isStopped: false,
  isClosing: false,
  lapsed: undefined,
  timeoutSeconds: 600,
  ...more,
})
const ALL = around({ a: HERE, b: HERE, internal: HERE })

const rest = (restSeconds: number, more: object = {}) => ({
  do: 'rest',
  event: 'rest',
  isRepeated: false,
  failures: 0,
  restSeconds,
  ...more,
})
const failing = (retryable: boolean, mayHaveIssued: boolean): StepOutcome => ({
  status: 'error',
  retryable,
  mayHaveIssued,
  retryAfterMs: undefined,
})

describe('an issuance from a CSR', () => {
  const targets: Record<CsrRowStatus, Record<string, string>> = {
    fresh: { rest: 'fresh', open: 'opened', promise: 'promised', move: 'fresh', abandon: 'abandoned' },
    opened: { rest: 'opened', open: 'opened', promise: 'promised', move: 'fresh', abandon: 'abandoned' },
    promised: { rest: 'promised', open: 'opened', promise: 'promised', abandon: 'awaited' },
    abandoned: { rest: 'abandoned', open: 'abandoned', promise: 'awaited' },
    awaited: { rest: 'awaited', open: 'abandoned', promise: 'awaited' },
  }
  for (const status of Object.keys(targets) as CsrRowStatus[])
    test(`that is ${status} has only the events of its row`, () => {
      for (const event of ['rest', 'open', 'promise', 'move', 'abandon'] as const) {
        const target = targets[status][event]
        if (target === undefined) assert.throws(() => statusOnEvent(status, event), /has no event/)
        else assert.equal(statusOnEvent(status, event), target)
      }
    })

  test('does not leave its backend once a certificate may exist', () => {
    const moving = Object.entries(CSR_ISSUANCE).filter(([, events]) => 'move' in events || 'give' in events)
    const states = moving.map(([status]) => status)
    assert.deepEqual(states, ['fresh', 'opened'])
  })

  test('is final once it is issued, late or failed', () => {
    for (const status of ['issued', 'late', 'failed'] as const) assert.deepEqual(CSR_ISSUANCE[status], {})
  })
})

describe('a claimed row', () => {
  test('that is fresh asks its backend, else the first that is there', () => {
    assert.deepEqual(nextStep(aRow(), CLAIMED, ALL), { do: 'ask' })
    const toB = { do: 'hand over', to: 'b', hasFailed: false }
    assert.deepEqual(nextStep(aRow(), CLAIMED, around({ a: AWAY, b: HERE })), toB)
    assert.deepEqual(nextStep(aRow(), CLAIMED, around({ a: AWAY, b: AWAY, internal: HERE })), { do: 'give to signer' })
    assert.deepEqual(nextStep(aRow(), CLAIMED, around({ a: AWAY, b: { first: 3_000, next: 0 } })), rest(3))
    assert.deepEqual(nextStep(aRow(), CLAIMED, around({})), rest(15))
  })

  test('that is fresh after failures begins with the first of its profile again', () => {
    const row = aRow({ backend: 'b', failures: 1 })
    assert.deepEqual(nextStep(row, CLAIMED, ALL), { do: 'hand over', to: 'a', hasFailed: false })
    assert.deepEqual(nextStep(row, CLAIMED, around({ b: HERE }, { candidates: [] })), { do: 'ask' })
  })

  test('that is opened takes its next step whatever a rate limit keeps back; else another backend takes over', () => {
    const row = aRow({ status: 'opened', failures: 1 })
    assert.deepEqual(nextStep(row, CLAIMED, around({ a: { first: 9_000, next: 0 }, b: HERE })), { do: 'ask' })
    const away = around({ a: AWAY, internal: HERE })
    assert.deepEqual(nextStep(row, CLAIMED, away), { do: 'hand over', to: 'internal', hasFailed: false })
  })

  test('of which a certificate may exist, or an answer is lost, waits for its backend', () => {
    for (const row of [aRow({ status: 'promised' }), aRow({ isRepeated: true })]) {
      assert.deepEqual(nextStep(row, CLAIMED, ALL), { do: 'ask' })
      const { isRepeated } = row
      assert.deepEqual(nextStep(row, CLAIMED, around({ a: AWAY, b: HERE })), rest(9, { isRepeated }))
    }
  })

  test('rests while the operator has stopped signing', () => {
    const stopped = around({ a: HERE }, { isStopped: true })
    for (const status of ['fresh', 'opened', 'promised'] as const)
      assert.deepEqual(nextStep(aRow({ status }), CLAIMED, stopped), rest(15))
  })

  test('whose order has lapsed or is overdue fails, and is kept where something may be left', () => {
    const lapsed = around({ a: HERE }, { lapsed: LAPSED })
    assert.deepEqual(nextStep(aRow(), CLAIMED, lapsed), { do: 'fail', error: LAPSED })
    for (const row of [aRow({ status: 'opened' }), aRow({ status: 'promised' }), aRow({ isRepeated: true })])
      assert.deepEqual(nextStep(row, CLAIMED, lapsed), { do: 'abandon', error: LAPSED })
    assert.equal(nextStep(aRow({ ageSeconds: 601 }), CLAIMED, ALL).do, 'fail')
  })

  test('of an order that has ended asks its backend for a week', () => {
    for (const status of ['abandoned', 'awaited'] as const) {
      const row = aRow({ status, abandonedSeconds: 100, ageSeconds: 700 })
      assert.deepEqual(nextStep(row, CLAIMED, ALL), { do: 'ask' })
      assert.deepEqual(nextStep(row, CLAIMED, around({ a: AWAY })), rest(10))
      const old = nextStep({ ...row, abandonedSeconds: 604_801 }, CLAIMED, ALL)
      assert.deepEqual([old.do, 'alarm' in old], ['fail', status === 'awaited'])
    }
  })
})

describe('after a step', () => {
  test('that has moved the row, its new backend or the signer is asked, whoever else is there', () => {
    const none = around({})
    assert.deepEqual(nextStep(aRow({ backend: 'b' }), { status: 'moved', to: 'b' }, none), { do: 'ask' })
    assert.deepEqual(nextStep(aRow(), { status: 'moved', to: 'internal' }, none), { do: 'give to signer' })
  })

  test('that is pending, the answer is committed, and the next one follows at once or in its time', () => {
    const pending = (retryAfterMs: number, mayHaveIssued: boolean): StepOutcome => ({
      status: 'pending',
      retryAfterMs,
      mayHaveIssued,
    })
    const commit = (event: ProgressEvent, restSeconds: number | undefined) => ({ do: 'commit', event, restSeconds })
    assert.deepEqual(nextStep(aRow(), pending(0, false), ALL), commit('open', undefined))
    assert.deepEqual(nextStep(aRow(), pending(2_000, true), ALL), commit('promise', 2))
    assert.deepEqual(nextStep(aRow({ ageSeconds: 590 }), pending(60_000, true), ALL), commit('promise', 11))
    assert.deepEqual(nextStep(aRow(), pending(0, false), { ...ALL, isClosing: true }), commit('open', 0))
  })

  test('that has issued or refused, the row ends', () => {
    assert.deepEqual(nextStep(aRow(), { status: 'issued' }, ALL), { do: 'record' })
    const refused = nextStep(aRow(), { status: 'refused', problem: LAPSED }, ALL)
    assert.deepEqual(refused, { do: 'fail', error: LAPSED })
  })

  test('that has failed, the table of CsrBackend decides', () => {
    const from = (row: HeldIssuance, retryable: boolean, mayHaveIssued: boolean) => {
      const step = nextStep(row, failing(retryable, mayHaveIssued), ALL)
      return 'alarm' in step ? `${step.do} with an alarm` : 'event' in step ? `${step.do}: ${step.event}` : step.do
    }
    const expected: Record<CsrRowStatus, readonly string[]> = {
      fresh: ['hand over', 'rest: promise', 'fail', 'fail with an alarm'],
      opened: ['hand over', 'rest: promise', 'fail', 'fail with an alarm'],
      promised: ['rest: promise', 'rest: promise', 'fail with an alarm', 'fail with an alarm'],
      abandoned: ['fail', 'rest: promise', 'fail', 'fail with an alarm'],
      awaited: ['rest: promise', 'rest: promise', 'fail with an alarm', 'fail with an alarm'],
    }
    for (const [status, steps] of Object.entries(expected) as [CsrRowStatus, readonly string[]][]) {
      const row = aRow({ status, abandonedSeconds: status.startsWith('a') ? 0 : undefined })
      const seen = [true, false].flatMap((retryable) => [false, true].map((may) => from(row, retryable, may)))
      assert.deepEqual(seen, steps, status)
    }
  })

  test('that has failed at the last backend, the row rests twice as long each time', () => {
    const alone = around({ a: HERE, b: AWAY })
    for (const [failures, seconds] of [
      [0, 1],
      [1, 2],
      [9, 60],
    ] as const)
      assert.deepEqual(
        nextStep(aRow({ failures, isRepeated: true }), failing(true, false), alone),
        rest(seconds, { failures: failures + 1 }),
      )
  })

  test('that failed while a certificate may exist, it is repeated as such', () => {
    assert.equal(isRepetition(aRow({ status: 'promised', failures: 1 })), true)
    assert.equal(isRepetition(aRow({ status: 'promised' })), false)
    assert.equal(isRepetition(aRow({ failures: 1 })), false)
    assert.equal(isRepetition(aRow({ isRepeated: true })), true)
  })

  test('of the signer that has surely not signed, the next backend takes over, else the last one after a rest', () => {
    const taken = { do: 'take from signer', signer: 'internal' }
    const first = { ...ALL, candidates: ['internal', 'a', 'b'] }
    assert.deepEqual(nextStep(aRow({ backend: 'b' }), { status: 'unsigned' }, first), {
      ...taken,
      to: 'a',
      failures: 0,
      restSeconds: 0,
    })
    assert.deepEqual(nextStep(aRow({ failures: 1 }), { status: 'unsigned' }, ALL), {
      ...taken,
      to: undefined,
      failures: 2,
      restSeconds: 2,
    })
    assert.deepEqual(nextStep(aRow(), { status: 'not given' }, ALL), rest(15))
  })
})
