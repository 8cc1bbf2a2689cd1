/** Rules of a line or two: revocation reasons, retry delays, profiles. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CertificateProfile } from '../../../src/domain/certificate-profile.ts'
import { chooseProfile } from '../../../src/domain/order-request.ts'
import { checkRevocationReason } from '../../../src/domain/revocation.ts'
import { retryDelayMs, type ValidationPolicy } from '../../../src/domain/validation-attempt.ts'
import { Problem } from '../../../src/shared/protocol/problem.ts'

test('reasons 0, 1, 3, 4, 5 and 9 are accepted, none is 0, all others are badRevocationReason', () => {
  assert.equal(checkRevocationReason(undefined), 0)
  const accepted = Array.from({ length: 14 }, (_, i) => i - 1).filter((reason) => {
    try {
      return checkRevocationReason(reason) === reason
    } catch (error) {
      assert.ok(error instanceof Problem && error.type === 'badRevocationReason')
      return false
    }
  })
  assert.deepEqual(accepted, [0, 1, 3, 4, 5, 9])
})

test('the delay before another validation doubles up to its bound (RFC 8555 §8.2)', () => {
  const policy = { backoffBaseMs: 1000, backoffMaxMs: 5000 } as ValidationPolicy
  const found = [1, 2, 3, 4, 50].map((tries) => retryDelayMs(tries, policy))
  assert.deepEqual(found, [1000, 2000, 4000, 5000, 5000])
})

test('an order without a profile gets the default, an unknown one is invalidProfile', () => {
  const profile = (name: string) => [name, { name } as CertificateProfile] as const
  const profiles = new Map([profile('default'), profile('short')])
  assert.equal(chooseProfile(profiles, undefined).name, 'default')
  assert.equal(chooseProfile(profiles, 'short').name, 'short')
  for (const name of ['', 'Short', 'toString'])
    assert.throws(
      () => chooseProfile(profiles, name),
      (error) => error instanceof Problem && error.type === 'invalidProfile',
    )
})
