/** What a client has done about a certificate since its window opened. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { renewalAttempt } from '../../../src/domain/renewal-attempt.ts'

const [earlier, later] = [new Date(1_000), new Date(2_000)]

test('without an order and without a failure nobody came', () =>
  assert.equal(renewalAttempt(undefined, undefined), 'none'))

test('an order counts until something fails', () => {
  assert.equal(renewalAttempt(earlier, undefined), 'ordered')
  assert.equal(renewalAttempt(earlier, later), 'failed')
})

test('a refused order is a failure alone', () => assert.equal(renewalAttempt(undefined, earlier), 'failed'))

test('an order after the failure is another attempt', () => assert.equal(renewalAttempt(later, earlier), 'ordered'))
