/** The status of a certificate follows its renewal window, whatever its lifetime is. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { certificateState, timeLeft } from '../../../src/console/format.ts'

const day = (count: number) => new Date(Date.UTC(2026, 0, 1) + count * 86_400_000).toISOString()
const at = (count: number) => Date.parse(day(count))
const dated = (end: number, from: number, until = end) => ({
  revoked_at: null,
  not_after: day(end),
  renewal: { window_start: day(from), window_end: day(until), renewed: null as boolean | null },
})

describe('the status of a certificate', () => {
  test('is active before the window opens, also for a lifetime of days', () => {
    assert.deepEqual(certificateState(dated(90, 60), at(59)), { text: 'Active', tone: 'good' })
    assert.deepEqual(certificateState(dated(6, 4), at(3)), { text: 'Active', tone: 'good' })
  })

  test('is due within the window', () => {
    assert.deepEqual(certificateState(dated(90, 60), at(60)), { text: 'Renewal due', tone: 'warn' })
    assert.deepEqual(certificateState(dated(90, 60), at(82)), { text: 'Renewal due', tone: 'warn' })
  })

  test('says how long is left in the last quarter of a window that ends with it', () => {
    assert.deepEqual(certificateState(dated(90, 60), at(83)), { text: 'Expires in 7 days', tone: 'bad' })
    assert.equal(certificateState(dated(6, 4), at(5.75)).text, 'Expires in 6 hours')
  })

  test('is overdue when the window is past', () => {
    assert.deepEqual(certificateState(dated(90, 10, 12), at(13)), { text: 'Overdue', tone: 'bad' })
    assert.equal(certificateState(dated(90, 10, 12), at(11.9)).text, 'Renewal due')
  })

  test('is renewed with a successor', () => {
    const { renewal, ...rest } = dated(90, 60)
    assert.deepEqual(certificateState({ ...rest, renewal: { ...renewal, renewed: true } }, at(89)), {
      text: 'Renewed',
      tone: 'good',
    })
    assert.equal(certificateState({ ...rest, renewal: { ...renewal, renewed: false } }, at(89)).tone, 'bad')
  })

  test('is revoked or expired whatever the window was', () => {
    const ended = { ...dated(90, 60), renewal: null }
    assert.equal(certificateState(ended, at(90)).text, 'Expired')
    assert.equal(certificateState({ ...ended, revoked_at: day(3) }, at(100)).text, 'Revoked')
  })

  test('counts what is left in whole days and hours', () => {
    const hour = 3_600_000
    assert.deepEqual([hour - 1, hour, 47 * hour, 48 * hour, 25 * 24 * hour].map(timeLeft), [
      'less than an hour',
      '1 hour',
      '47 hours',
      '2 days',
      '25 days',
    ])
  })
})
