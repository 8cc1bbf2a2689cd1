/** Validity periods: what may be asked for and what is granted (RFC 5280 §4.1.2.5). */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { certificateValidity, type ValidityPolicy } from '../../../src/domain/certificate-profile.ts'
import { checkRequestedValidity, orderExpiry } from '../../../src/domain/order-request.ts'
import { forAnyInput } from '../../support/property-runs.ts'
import { problemOf } from '../../support/refusals.ts'

const NOW = new Date('2026-03-01T12:00:00.750Z')
const SECOND = 1_000
const DAY = 86_400 * SECOND
const POLICY: ValidityPolicy = { validityDays: 90, maxValidityDays: 100, backdateSeconds: 3600 }
const EXPIRY = new Date(NOW.getTime() + 7 * DAY)
const LATEST_START = new Date(NOW.getTime() + 47 * 3600 * SECOND)
const FAR = { notBefore: new Date('2020-01-01T00:00:00Z'), notAfter: new Date('2050-01-01T00:00:00Z') }
const after = (ms: number) => new Date(Date.parse('2026-03-01T12:00:00Z') + ms)

test('without a wish: an hour back, whole seconds, the days counted with both ends', () => {
  const { notBefore, notAfter } = certificateValidity({}, POLICY, NOW, FAR)
  assert.equal(notBefore.toISOString(), '2026-03-01T11:00:00.000Z')
  assert.equal(notAfter.toISOString(), '2026-05-30T10:59:59.000Z')
})

test('a certificate never outlives its issuer', () => {
  const end = after(10 * DAY)
  assert.deepEqual(certificateValidity({}, POLICY, NOW, { ...FAR, notAfter: end }).notAfter, end)
})

// The signer refuses it, and verifiers that want validity periods nested do too.
test('a certificate is never older than its issuer, and has the days of the profile all the same', () => {
  const made = after(-60 * SECOND)
  const issuer = { ...FAR, notBefore: made }
  const { notBefore, notAfter } = certificateValidity({}, POLICY, NOW, issuer)
  assert.deepEqual(notBefore, made)
  assert.equal(notAfter.getTime() + SECOND - notBefore.getTime(), 90 * DAY)
  assert.deepEqual(certificateValidity({ notBefore: after(-120 * SECOND) }, POLICY, NOW, issuer).notBefore, made)
})

test('a start that the issuer does not live to see is malformed', () => {
  const issuer = { ...FAR, notAfter: after(2 * DAY) }
  const grant = (notBefore: Date) => certificateValidity({ notBefore }, POLICY, NOW, issuer)
  assert.deepEqual(grant(after(2 * DAY - SECOND)), { notBefore: after(2 * DAY - SECOND), notAfter: issuer.notAfter })
  for (const start of [after(2 * DAY), after(3 * DAY)])
    assert.throws(() => grant(start), problemOf('malformed', /2026-03-03T12:00:00Z/))
})

test('profile days over the maximum are cut to it', () => {
  const { notBefore, notAfter } = certificateValidity({}, { ...POLICY, validityDays: 900 }, NOW, FAR)
  assert.equal(notAfter.getTime() + SECOND - notBefore.getTime(), 100 * DAY)
})

test('a wish within the policy is granted to the second', () => {
  const wish = { notBefore: after(DAY), notAfter: after(2 * DAY) }
  checkRequestedValidity(wish, POLICY, NOW, EXPIRY)
  assert.deepEqual(certificateValidity(wish, POLICY, NOW, FAR), wish)
})

const wishes: [name: string, wish: { notBefore?: Date; notAfter?: Date }, accepted: boolean][] = [
  ['nothing', {}, true],
  ['a start as far back as certificates are dated', { notBefore: after(-3600 * SECOND) }, true],
  ['a start a second further back', { notBefore: after(-3601 * SECOND) }, false],
  ['a start in 47 hours', { notBefore: LATEST_START }, true],
  ['a start after that, before the expiry of the order', { notBefore: new Date(LATEST_START.getTime() + 1) }, false],
  ['an end a second ahead', { notAfter: after(2 * SECOND) }, true],
  ['an end that has come', { notAfter: NOW }, false],
  ['an end at the start', { notBefore: after(DAY), notAfter: after(DAY) }, false],
  ['the longest validity', { notBefore: after(0), notAfter: after(100 * DAY - SECOND) }, true],
  ['a second more than the longest', { notBefore: after(0), notAfter: after(100 * DAY) }, false],
  [
    'a second more than the longest, counted from the dated-back start',
    { notAfter: after(100 * DAY - 3600 * SECOND) },
    false,
  ],
]
for (const [name, wish, accepted] of wishes)
  test(`${name} is ${accepted ? 'accepted' : 'malformed'}`, () => {
    const check = () => checkRequestedValidity(wish, POLICY, NOW, EXPIRY)
    if (accepted) check()
    else assert.throws(check, problemOf('malformed'))
  })

test('an order ends no later than the certificate it asks for', () => {
  assert.equal(orderExpiry({}, EXPIRY), EXPIRY)
  assert.equal(orderExpiry({ notAfter: FAR.notAfter }, EXPIRY), EXPIRY)
  assert.deepEqual(orderExpiry({ notAfter: after(DAY) }, EXPIRY), after(DAY))
  // Nor may it be signed more than 48 hours after its notBefore.
  assert.deepEqual(orderExpiry({ notBefore: NOW }, EXPIRY), LATEST_START)
})

test('whatever was accepted at new-order is at finalize a period that starts before it ends and is not over', () => {
  const offset = fc.option(fc.integer({ min: -4_000, max: 120 * 86_400 }), { nil: undefined })
  forAnyInput(offset, offset, fc.double({ min: 0, max: 1, noNaN: true }), (from, to, when) => {
    const wish = {
      ...(from !== undefined && { notBefore: after(from * SECOND) }),
      ...(to !== undefined && { notAfter: after(to * SECOND) }),
    }
    try {
      checkRequestedValidity(wish, POLICY, NOW, EXPIRY)
    } catch {
      return
    }
    const lastMoment = orderExpiry(wish, EXPIRY).getTime() - 1
    const finalizedAt = new Date(NOW.getTime() + when * (lastMoment - NOW.getTime()))
    const { notBefore, notAfter } = certificateValidity(wish, POLICY, finalizedAt, FAR)
    assert.ok(notBefore < notAfter, `${notBefore.toISOString()} ${notAfter.toISOString()}`)
    assert.ok(notAfter > finalizedAt)
    assert.ok(notAfter.getTime() - notBefore.getTime() < POLICY.maxValidityDays * DAY + 8 * DAY)
  })
})
