/** Challenge types: ids, what is offered for which identifier (RFC 8555 §8; decisions 12). */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  CHALLENGE_TYPES,
  type ChallengeType,
  challengeId,
  keyAuthorization,
  offeredChallengeTypes,
  parseChallengeId,
} from '../../../src/protocol/challenge.ts'

const ALL = Object.keys(CHALLENGE_TYPES) as ChallengeType[]
const AUTHORIZATION = '0190c4b2-0000-7000-8000-00000000abc0'

test('the id of a challenge leads back to its authorization and type', () => {
  const ids = ALL.map((type) => challengeId(AUTHORIZATION, type))
  assert.equal(new Set(ids).size, ALL.length)
  for (const [i, id] of ids.entries())
    assert.deepEqual(parseChallengeId(id), { authorizationId: AUTHORIZATION, type: ALL[i] })
  for (const digit of '06789abcdef') assert.equal(parseChallengeId(AUTHORIZATION.slice(0, -1) + digit), undefined)
})

const offers: [what: string, identifier: { type: 'dns' | 'ip'; value: string }, types: ChallengeType[]][] = [
  ['a name', { type: 'dns', value: 'a.example' }, ALL],
  ['a wildcard', { type: 'dns', value: '*.a.example' }, ['dns-01', 'dns-persist-01', 'dns-account-01']],
  ['an address', { type: 'ip', value: '192.0.2.1' }, ['http-01', 'tls-alpn-01']],
]
for (const [what, identifier, types] of offers)
  test(`${what} is offered ${types.join(', ')}`, () => {
    assert.deepEqual(offeredChallengeTypes(identifier, ALL), types)
    assert.deepEqual(offeredChallengeTypes(identifier, []), [])
  })

test('a key authorization joins token and thumbprint with a dot (RFC 8555 §8.1)', () => {
  assert.equal(keyAuthorization('token', 'thumbprint'), 'token.thumbprint')
})
