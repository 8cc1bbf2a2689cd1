/** Hashed account URIs (draft-ietf-acme-dns-persist-02 §4.1). */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ANY_DOMAIN, hashedAccountUri, isHashedAccountUri } from '../../../../src/shared/protocol/challenge.ts'
import { forAll } from '../../../support/property-runs.ts'

const PREFIX = 'https://ca.example/account-hash/'
const ACCOUNT = { thumbprint: 'NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs', accountUrl: 'https://ca.example/acct/123' }

test('the example of §10.2 is computed', () =>
  assert.equal(
    hashedAccountUri(PREFIX, { domainName: 'example.com', ...ACCOUNT }),
    `${PREFIX}sha-256/5SQm7n6tPh2-PlLbCKGnViTXX5z19SCN4cPGQHSk-kw`,
  ))

test('the example for any domain is computed', () =>
  assert.equal(
    hashedAccountUri(PREFIX, { domainName: ANY_DOMAIN, ...ACCOUNT }),
    `${PREFIX}sha-256/NpDnSwUthQK8zCgFdefYxAdAVPnygMLbs9US6oO-5ug`,
  ))

const refused: Record<string, string> = {
  'another prefix': `https://other.example/account-hash/sha-256/${'A'.repeat(43)}`,
  'the prefix alone': PREFIX,
  'another algorithm': `${PREFIX}sha-512/${'A'.repeat(86)}`,
  'an algorithm in capitals': `${PREFIX}SHA-256/${'A'.repeat(43)}`,
  'a truncated digest': `${PREFIX}sha-256/${'A'.repeat(22)}`,
  'a digest with padding': `${PREFIX}sha-256/${'A'.repeat(43)}=`,
  'a digest of another alphabet': `${PREFIX}sha-256/${'+'.repeat(43)}`,
  'a second spelling of a digest': `${PREFIX}sha-256/${'A'.repeat(42)}B`,
  'more behind the digest': `${PREFIX}sha-256/${'A'.repeat(43)}/x`,
}
for (const [what, text] of Object.entries(refused))
  test(`${what} is not the form of a hashed account URI`, () => assert.equal(isHashedAccountUri(PREFIX, text), false))

test('every URI that is computed has the form, and another name, key or account gives another URI', () => {
  const input = fc.record({
    domainName: fc.stringMatching(/^[a-z0-9]{1,20}\.[a-z]{2,10}$/),
    thumbprint: fc.stringMatching(/^[A-Za-z0-9_-]{43}$/),
    accountUrl: fc.stringMatching(/^https:\/\/ca\.example\/acct\/[0-9a-f]{1,36}$/),
  })
  forAll(input, input, (one, other) => {
    const uri = hashedAccountUri(PREFIX, one)
    assert.ok(isHashedAccountUri(PREFIX, uri))
    const isSame = JSON.stringify(one) === JSON.stringify(other)
    assert.equal(hashedAccountUri(PREFIX, other) === uri, isSame)
  })
})
