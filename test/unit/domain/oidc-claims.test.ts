/** What the claims of a provider make of a person (OpenID Connect Core §2, §3.1.3.7). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isSameIssuer, personOf } from '../../../src/domain/oidc-claims.ts'

const TENANT = 'https://login.microsoftonline.com/8b87af7d-8647-4dc7-8df4-5f69a2011bb5/v2.0'
const RULES = {
  issuer: TENANT,
  usernameClaim: 'preferred_username',
  groupsClaim: 'groups',
  roles: [{ group: 'admins', role: 'admin', scope: [] }],
} as const
const CLAIMS = { iss: TENANT, sub: 's', preferred_username: 'eve', groups: ['admins'], email: 'eve@evil.example' }

const isTaken = (claims: object) => !('why' in personOf({ ...CLAIMS, ...claims }, RULES))

describe('the claims of a provider', () => {
  test('of another tenant than the configured one are refused, however well they are signed', () => {
    assert.equal(isTaken({}), true)
    const other = 'https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0'
    for (const iss of [other, `${TENANT}/`, TENANT.replace('.com', '.us'), '', undefined, [TENANT]])
      assert.equal(isTaken({ iss }), false, String(iss))
  })

  test('an issuer that is a host alone may be written with a slash', () => {
    assert.equal(isSameIssuer('https://login.example/', 'https://login.example'), true)
    assert.equal(isSameIssuer('https://login.example/a/', 'https://login.example/a'), false)
  })

  test('a subject that cannot be stored as it is, is refused', () => {
    for (const sub of ['', 'a\0b', '\0', '\ud800', 'a\udc00', 'x'.repeat(256), 7, undefined])
      assert.equal(isTaken({ sub }), false, JSON.stringify(sub))
    for (const sub of ['x'.repeat(255), 'ä', '\u{1f600}']) assert.equal(isTaken({ sub }), true, sub)
  })
})
