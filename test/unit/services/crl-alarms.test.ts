import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type CrlAlarm, CrlAlarms, troubleOf } from '../../../src/services/crl/crl-alarms.ts'
import { MalformedCrl } from '../../../src/services/crl/crl-build.ts'
import { each } from '../../support/each.ts'

const away = new Error('the signer does not answer')
const nextUpdate = new Date('2026-11-23T12:00:00Z')

function watching() {
  const raised: CrlAlarm[] = []
  return { raised, alarms: new CrlAlarms((alarm) => raised.push(alarm)) }
}

describe('alarms of a CRL', () => {
  test('three failures are none; the fourth is one, and those after it are not', () => {
    const { raised, alarms } = watching()
    for (let n = 0; n < 3; n++) alarms.failed('default', away)
    assert.deepEqual(raised, [])
    for (let n = 0; n < 10; n++) alarms.failed('default', away)
    assert.deepEqual(raised, [{ crl: 'default', message: 'a CRL cannot be published', reason: away.message }])
  })

  test('after a publication the failures count anew', () => {
    const { raised, alarms } = watching()
    for (let round = 0; round < 2; round++) {
      for (let n = 0; n < 4; n++) alarms.failed('default', away)
      alarms.published('default')
    }
    for (let n = 0; n < 3; n++) alarms.failed('default', away)
    assert.equal(raised.length, 2)
  })

  test('a list that fails its lint is one at once, and once', () => {
    const { raised, alarms } = watching()
    for (let n = 0; n < 3; n++) alarms.failed('default', new MalformedCrl('no number'))
    assert.deepEqual(raised, [
      { crl: 'default', message: 'a CRL failed its lint and was not signed', reason: 'no number' },
    ])
  })

  test('each list has its own', () => {
    const { raised, alarms } = watching()
    for (const crl of ['default', 'default/2-0']) for (let n = 0; n < 4; n++) alarms.failed(crl, away)
    assert.deepEqual(each(raised, 'crl'), ['default', 'default/2-0'])
  })

  test('an overdue list is told once, and again when it is overdue again', () => {
    const { raised, alarms } = watching()
    const list = { name: 'default', thisUpdate: new Date(0), nextUpdate, isAhead: false }
    for (const crls of [[list], [list], [], [list]]) alarms.overdue(crls)
    assert.equal(raised.length, 2)
    assert.match(raised[0]?.reason ?? '', /nextUpdate is 2026-11-23T12:00:00/)
  })

  for (const [whose, thisUpdate, isAhead] of [
    ['the database', new Date(), true],
    ['this instance', new Date(Date.now() + 400_000), false],
  ] as const)
    test(`one of a time that has not come by the clock of ${whose} names that clock`, () => {
      const { raised, alarms } = watching()
      alarms.overdue([{ name: 'default', thisUpdate, nextUpdate, isAhead }])
      assert.match(raised[0]?.reason ?? '', new RegExp(`thisUpdate is ahead of the clock of ${whose}`))
    })
})

describe('a list should have been replaced', () => {
  const HOUR_MS = 3_600_000
  const NOW = Date.parse('2026-05-01T12:00:00Z')
  const at = (hours: number) => new Date(NOW + hours * HOUR_MS)
  const list = (began: number, ends: number, isAhead = false) => ({
    thisUpdate: at(began),
    startedAt: at(began),
    nextUpdate: at(ends),
    isAhead,
  })
  const trouble = (crl: ReturnType<typeof list>, dueAt?: number) => troubleOf(crl, NOW, { dueAt, graceMs: 60_000 })

  test('when its end has come, or the schedule and a while have passed since it began', () => {
    assert.equal(trouble(list(-1, 1)), undefined)
    assert.equal(trouble(list(-2, 0)), 'late')
    assert.equal(trouble(list(-2, 1), NOW - HOUR_MS), 'late')
    assert.equal(trouble(list(-0.5, 1), NOW - HOUR_MS), undefined)
  })
  test('when its thisUpdate is ahead of the clock of this instance, so that no client takes it', () => {
    assert.equal(trouble(list(24, 48, true)), 'late')
    assert.equal(trouble(list(0.05, 48)), undefined)
  })
  test('when it is ahead of the clock of the database alone, which is no reason to take an instance out', () => {
    assert.equal(trouble(list(-1, 24, true)), 'ahead')
  })
})
