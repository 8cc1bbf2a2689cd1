/** What the claims of a provider make of a person (OpenID Connect Core §2, §3.1.3.7). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { authenticatedAt, hasAllClaims, isSameIssuer, personOf, withUserInfo } from '../../../src/domain/oidc-claims.ts'

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

  describe('that are refused say claim, value and way out', () => {
    const cases: [string, object, string][] = [
      [
        'another issuer',
        { iss: 'https://other.example' },
        `"https://other.example"; admin_api.oidc.issuer is ${TENANT}`,
      ],
      [
        'a username with a blank',
        { preferred_username: 'Anna M' },
        `'preferred_username' is no username that can be used here: "Anna M"; it must be 1 to 128 letters, digits and . _ - @ + of ASCII, the first a letter, a digit or _; admin_api.oidc.username_claim`,
      ],
      [
        'no username',
        { preferred_username: undefined },
        "no claim 'preferred_username', neither in the ID token nor from its UserInfo endpoint: compare admin_api.oidc.username_claim",
      ],
      [
        'no mail address',
        { email: undefined },
        "no claim 'email', neither in the ID token nor from its UserInfo endpoint: compare admin_api.oidc.scopes",
      ],
      ['a wrong mail address', { email: ['eve@evil.example'] }, `'email' is no mail address: ["eve@evil.example"]`],
      [
        'an address that is not verified',
        { email_verified: false },
        "eve@evil.example: its claim 'email_verified' is false",
      ],
      ['no role', { groups: ['/admins', 'b'] }, 'none of your groups may sign in here: ["/admins","b"]; ask'],
      ['no subject', { sub: undefined }, "'sub' must be 1 to 255 characters: absent"],
      ['a long value', { groups: Array(900).fill('xx') }, '"xx"…; ask'],
    ]
    test('a character is not cut in two', () => {
      for (const start of ['', 'x']) {
        const refusal = personOf({ ...CLAIMS, groups: `${start}${'\u{1f600}'.repeat(300)}` }, RULES)
        assert.ok('why' in refusal && !/\p{Cs}/u.test(refusal.why))
      }
    })
    for (const [what, claims, said] of cases)
      test(what, () => {
        const refusal = personOf({ ...CLAIMS, ...claims }, RULES)
        assert.ok('why' in refusal)
        assert.ok(refusal.why.includes(said), refusal.why)
      })
  })

  test('that are absent, null or empty come from the UserInfo endpoint; those that are there do not', () => {
    const userInfo = { groups: ['admins'], preferred_username: 'eva', email: 'eva@corp.example', email_verified: true }
    for (const nothing of [undefined, null, '']) {
      const idToken = { ...CLAIMS, groups: nothing, email: nothing, email_verified: false }
      assert.equal(hasAllClaims(idToken, RULES), false)
      const merged = withUserInfo(idToken, userInfo, RULES)
      assert.deepEqual(
        [merged['groups'], merged['preferred_username'], merged['email'], merged['email_verified']],
        [['admins'], 'eve', 'eva@corp.example', true],
      )
    }
    const empty = { ...CLAIMS, groups: [], email_verified: false }
    assert.equal(hasAllClaims(empty, RULES), true)
    assert.deepEqual(withUserInfo(empty, userInfo, RULES), empty)
    assert.deepEqual(withUserInfo({ ...CLAIMS, email: null }, { email: '' }, RULES)['email'], null)
  })

  test('may be in objects, to which dots lead, or have dots in their names', () => {
    const idToken = {
      ...CLAIMS,
      groups: undefined,
      realm_access: { roles: ['admins'] },
      'https://corp.example/g': ['admins'],
    }
    const roleBy = (groupsClaim: string, claims: object = idToken) => {
      const person = personOf(claims as typeof CLAIMS, { ...RULES, groupsClaim })
      return 'why' in person ? person.why : person.role
    }
    for (const claim of ['realm_access.roles', 'https://corp.example/g']) assert.equal(roleBy(claim), 'admin')
    for (const claim of [
      'realm_access',
      'realm_access.roles.length',
      'realm_access.toString',
      'sub.length',
      'a.b.c',
      '.',
    ])
      assert.notEqual(roleBy(claim), 'admin')
    assert.match(roleBy('realm_access.groups'), /no claim 'realm_access\.groups'/)
    const rules = { ...RULES, groupsClaim: 'realm_access.roles', usernameClaim: 'profile.login' }
    assert.equal(hasAllClaims(CLAIMS, rules), false)
    const userInfo = { realm_access: { roles: ['admins'] }, profile: { login: 'eva' } }
    const person = personOf(withUserInfo(CLAIMS, userInfo, rules), rules)
    assert.equal('why' in person ? person.why : person.username, 'eva')
  })

  test('a time of the proof that is absent, null or no number is none, and none is of the future', () => {
    const now = new Date('2026-01-01T00:00:00Z')
    for (const auth_time of [
      undefined,
      null,
      '',
      '1767225600',
      Number.NaN,
      Number.POSITIVE_INFINITY,
      -1,
      [1],
      {},
      true,
    ])
      assert.equal(authenticatedAt({ auth_time }, now), null, String(auth_time))
    assert.deepEqual(authenticatedAt({ auth_time: 1 }, now), new Date(1_000))
    assert.deepEqual(authenticatedAt({ auth_time: 9e15 }, now), now)
  })

  test('an address counts as verified where the provider does not say, and never where it says something else', () => {
    for (const email_verified of [undefined, true, 'true']) assert.equal(isTaken({ email_verified }), true)
    for (const email_verified of [false, null, '', 'false', 'yes', 0, 1, [], [true], {}])
      assert.equal(isTaken({ email_verified }), false, JSON.stringify(email_verified))
  })

  test('of a wrong type give no role and end nothing', () => {
    for (const wrong of [7, true, {}, { admins: true }, [7], ['admins', null], [['admins']]]) {
      for (const name of ['groups', 'preferred_username', 'email', 'sub', 'iss']) {
        const person = personOf({ ...CLAIMS, [name]: wrong }, RULES)
        assert.ok('why' in person && !person.hasNoRole, `${name}: ${JSON.stringify(wrong)}`)
      }
    }
    for (const none of [[], ['other'], 'other']) {
      const person = personOf({ ...CLAIMS, groups: none }, RULES)
      assert.ok('why' in person && person.hasNoRole, JSON.stringify(none))
    }
  })
})
