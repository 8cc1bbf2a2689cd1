/** Renewal windows (RFC 9773 §4.2). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  advisedWindow,
  type RenewalFacts,
  renewalRetryAfter,
  renewalWindow,
} from '../../../src/domain/renewal-window.ts'
import { forAll } from '../../support/property-runs.ts'

const DAY_MS = 86_400_000
const at = (text: string) => new Date(text)

/** 90 days, the last second included. */
const FACTS: RenewalFacts = {
  notBefore: at('2026-01-01T00:00:00Z'),
  notAfter: at('2026-03-31T23:59:59Z'),
  revokedAt: undefined,
  advice: undefined,
}
const NOW = at('2026-01-10T00:00:00Z')
const POLICY = { renewalPercentage: 2 / 3, revokedWindowSeconds: undefined }

describe('renewal window', () => {
  test('opens after the given share of the lifetime and ends with it', () => {
    const window = renewalWindow(FACTS, POLICY, NOW)
    assert.equal(window.start.toISOString(), '2026-03-02T00:00:00.000Z')
    assert.deepEqual(window.end, FACTS.notAfter)
  })

  test('of a revoked certificate opens now', () => {
    const window = renewalWindow({ ...FACTS, revokedAt: at('2026-01-05T00:00:00Z') }, POLICY, NOW)
    assert.deepEqual(window, { start: NOW, end: FACTS.notAfter })
  })

  test('of a revoked certificate is near where that is configured, and ends with the certificate at the latest', () => {
    const policy = { ...POLICY, revokedWindowSeconds: 3600 }
    const revoked = { ...FACTS, revokedAt: at('2026-01-05T00:00:00Z') }
    assert.deepEqual(renewalWindow(revoked, policy, NOW), { start: NOW, end: at('2026-01-10T01:00:00Z') })
    const late = at('2026-03-31T23:30:00Z')
    assert.deepEqual(renewalWindow(revoked, policy, late), { start: late, end: FACTS.notAfter })
    assert.deepEqual(renewalWindow(FACTS, policy, NOW), renewalWindow(FACTS, POLICY, NOW))
  })

  test('is the one that the operator advises, whether revoked or not', () => {
    const window = { start: at('2026-01-09T00:00:00Z'), end: at('2026-01-11T00:00:00Z') }
    const advice = { window, explanationUrl: undefined }
    assert.deepEqual(renewalWindow({ ...FACTS, advice, revokedAt: NOW }, POLICY, NOW), window)
  })

  test('that is advised does not outlast the certificate', () => {
    const window = { start: NOW, end: at('2027-01-01T00:00:00Z') }
    assert.deepEqual(renewalWindow({ ...FACTS, advice: { window, explanationUrl: undefined } }, POLICY, NOW), {
      start: NOW,
      end: FACTS.notAfter,
    })
  })

  test('always ends after it starts, in whole seconds (§4.2)', () => {
    const instant = fc.date({ min: at('2020-01-01T00:00:00Z'), max: at('2040-01-01T00:00:00Z'), noInvalidDate: true })
    const facts = fc
      .record({
        notBefore: instant,
        lifetimeMs: fc.integer({ min: 1000, max: 400 * DAY_MS }),
        revokedAt: fc.option(instant, { nil: undefined }),
        advised: fc.option(fc.tuple(instant, fc.integer({ min: 1, max: 10 * DAY_MS })), { nil: undefined }),
      })
      .map(
        ({ notBefore, lifetimeMs, revokedAt, advised }): RenewalFacts => ({
          notBefore,
          notAfter: new Date(notBefore.getTime() + lifetimeMs),
          revokedAt,
          advice: advised && {
            window: { start: advised[0], end: new Date(advised[0].getTime() + advised[1]) },
            explanationUrl: undefined,
          },
        }),
      )
    const policies = fc.record({
      renewalPercentage: fc.double({ min: 0.01, max: 1, noNaN: true }),
      revokedWindowSeconds: fc.option(fc.integer({ min: 1, max: 400 * DAY_MS }), { nil: undefined }),
    })
    forAll(facts, policies, instant, (certificate, policy, now) => {
      const { start, end } = renewalWindow(certificate, policy, now)
      assert.ok(start < end, `${start.toISOString()} ${end.toISOString()}`)
      assert.equal(start.getMilliseconds() + end.getMilliseconds(), 0)
      assert.ok(end <= certificate.notAfter)
    })
  })
})

describe('retryAfter', () => {
  const window = renewalWindow(FACTS, POLICY, NOW)
  test('is the time until the window opens', () => assert.equal(renewalRetryAfter(window, NOW), (51 * DAY_MS) / 1000))
  test('is an hour at least, in and after the window', () => {
    assert.equal(renewalRetryAfter(window, FACTS.notAfter), 3600)
    assert.equal(renewalRetryAfter(window, new Date(window.start.getTime() - 1000)), 3600)
  })
})

describe('advice', () => {
  test('without an end lies wholly in the past, an hour and more', () => {
    const { start, end } = advisedWindow(NOW, undefined)
    assert.ok(start < end && end.getTime() <= NOW.getTime() - 3_600_000)
  })
  test('with an end spreads the renewals from now until then', () => {
    const end = at('2026-01-12T00:00:00Z')
    assert.deepEqual(advisedWindow(NOW, end), { start: NOW, end })
  })
})
