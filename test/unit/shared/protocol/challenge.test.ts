/** Challenge types: ids, what is offered for which identifier (RFC 8555 §8). */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { offeredChallengeTypes } from '../../../../src/domain/identifier-policy.ts'
import { keysOf } from '../../../../src/shared/lib/encoding.ts'
import {
  CHALLENGE_TYPES,
  type ChallengeType,
  challengeId,
  type ExtensionMethod,
  type ExtensionType,
  hasToken,
  isChallengeType,
  keyAuthorization,
  keyedType,
  MAX_ENABLED_METHODS,
  parseChallengeId,
} from '../../../../src/shared/protocol/challenge.ts'
import { forAll } from '../../../support/property-runs.ts'

const ALL = keysOf(CHALLENGE_TYPES)
const AUTHORIZATION = '0190c4b2-0000-7000-8000-00000000abc0'
const anExtension = (type: string, more: Partial<ExtensionMethod> = {}): ExtensionMethod => ({
  type: type as ExtensionType,
  forWildcard: false,
  forIp: false,
  ...more,
})

test('an extension has the id of its place among the types that its authorization offers', () => {
  const offered = ['http-01', 'inventory-01', 'dns-01', 'paper-01'] as ChallengeType[]
  const ids = offered.map((type) => challengeId({ id: AUTHORIZATION, offered }, type))
  const found = ids.map((id) => id.at(-1))
  assert.deepEqual(found, ['1', '7', '2', '9'])
  for (const [i, id] of ids.entries()) {
    const key = parseChallengeId(id)?.key
    assert.ok(key !== undefined && keyedType(key, offered) === offered[i])
  }
})

test('every challenge of every offer has an id of its own, and no other id leads to one', () => {
  const offers = fc.shuffledSubarray([...ALL, 'a-01', 'b-01', 'c-01', 'd-01', 'e-01'] as ChallengeType[])
  forAll(offers, (offered) => {
    const byId = new Map(offered.map((type) => [challengeId({ id: AUTHORIZATION, offered }, type), type]))
    assert.equal(byId.size, offered.length)
    for (const digit of '0123456789abcdef') {
      const id = AUTHORIZATION.slice(0, -1) + digit
      const parsed = parseChallengeId(id)
      assert.equal(parsed && keyedType(parsed.key, offered), byId.get(id))
    }
  })
})

test('as many methods can be enabled as an id can tell apart', () => {
  const offered = Array.from({ length: MAX_ENABLED_METHODS + 1 }, (_, i) => `x-${i}` as ExtensionType)
  assert.equal(
    challengeId({ id: AUTHORIZATION, offered }, offered[MAX_ENABLED_METHODS - 1] as ExtensionType).at(-1),
    'f',
  )
  assert.throws(() => challengeId({ id: AUTHORIZATION, offered }, offered[MAX_ENABLED_METHODS] as ExtensionType))
  assert.throws(() => challengeId({ id: AUTHORIZATION, offered }, 'y-1' as ExtensionType), /does not offer y-1/)
})

// acmephp and yaac end at a challenge without a token that comes before the one they look for.
const ALL_OFFERED = [...ALL.filter((type) => type !== 'dns-persist-01'), 'dns-persist-01' as const]
const offers: [what: string, identifier: { type: 'dns' | 'ip'; value: string }, types: ChallengeType[]][] = [
  ['a name', { type: 'dns', value: 'a.example' }, ALL_OFFERED],
  ['a wildcard', { type: 'dns', value: '*.a.example' }, ['dns-01', 'dns-account-01', 'dns-persist-01']],
  ['an address', { type: 'ip', value: '192.0.2.1' }, ['http-01', 'tls-alpn-01']],
]
for (const [what, identifier, types] of offers)
  test(`${what} is offered ${types.join(', ')}`, () => {
    assert.deepEqual(offeredChallengeTypes(identifier, ALL), types)
    assert.deepEqual(offeredChallengeTypes(identifier, []), [])
  })

test('an extension is offered for what it says of itself, in the order of the configuration', () => {
  const enabled = [
    anExtension('plain-01'),
    'http-01' as const,
    anExtension('wide-01', { forWildcard: true, forIp: true }),
  ]
  const typesFor = (type: 'dns' | 'ip', value: string) => offeredChallengeTypes({ type, value }, enabled)
  assert.deepEqual(typesFor('dns', 'a.example'), ['plain-01', 'http-01', 'wide-01'])
  assert.deepEqual(typesFor('dns', '*.a.example'), ['wide-01'])
  assert.deepEqual(typesFor('ip', '192.0.2.1'), ['http-01', 'wide-01'])
})

test('a challenge has a token but where its draft leaves it out', () => {
  const found = ALL.filter((type) => !hasToken(type))
  assert.deepEqual(found, ['dns-persist-01'])
  assert.equal(hasToken('inventory-01' as ExtensionType), true)
  assert.equal(isChallengeType('inventory-01'), false)
})

test('a key authorization joins token and thumbprint with a dot (RFC 8555 §8.1)', () =>
  assert.equal(keyAuthorization('token', 'thumbprint'), 'token.thumbprint'))
