/** Of two CSR profiles the tighter one, member by member. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tighterProfile } from '../../../src/admin/decisions/profiles.ts'

const CASES: readonly (readonly [
  what: string,
  now: object,
  wanted: object,
  data: object,
  isChanged: boolean,
  isWhole: boolean,
])[] = [
  ['a first rule', {}, { san_maximum: 3 }, { san_maximum: 3 }, true, true],
  ['a lower maximum', { san_maximum: 5 }, { san_maximum: 3 }, { san_maximum: 3 }, true, true],
  ['a higher maximum', { san_maximum: 3 }, { san_maximum: 5 }, { san_maximum: 3 }, false, false],
  ['a maximum that is none', { san_maximum: 3 }, { san_maximum: -1 }, { san_maximum: 3 }, false, false],
  ['a maximum of none at all', { san_maximum: 3 }, { san_maximum: 0 }, { san_maximum: 0 }, true, true],
  ['a higher minimum', { san_minimum: 1 }, { san_minimum: 2 }, { san_minimum: 2 }, true, true],
  ['a shorter list', { san_types: ['A', 'B'] }, { san_types: ['B'] }, { san_types: ['B'] }, true, true],
  ['another list', { san_types: ['A', 'B'] }, { san_types: ['B', 'C'] }, { san_types: ['B'] }, true, false],
  ['no list', { san_types: ['A'] }, {}, { san_types: ['A'] }, false, false],
  [
    'longer keys of fewer types',
    { authorized_keys: { RSA: 2048, X: 0 } },
    { authorized_keys: { RSA: 3072 } },
    { authorized_keys: { RSA: 3072 } },
    true,
    true,
  ],
  [
    'shorter keys',
    { authorized_keys: { RSA: 3072 } },
    { authorized_keys: { RSA: 2048 } },
    { authorized_keys: { RSA: 3072 } },
    false,
    false,
  ],
  ['no wildcards', { wildcard_in_san: true }, { wildcard_in_san: false }, { wildcard_in_san: false }, true, true],
  ['wildcards', { wildcard_in_san: false }, { wildcard_in_san: true }, { wildcard_in_san: false }, false, false],
  [
    'an earlier renewal',
    { renewal_window_days: 30 },
    { renewal_window_days: 60 },
    { renewal_window_days: 30 },
    false,
    false,
  ],
  [
    'renewal at any time',
    { renewal_window_days: 30 },
    { renewal_window_days: -1 },
    { renewal_window_days: 30 },
    false,
    false,
  ],
  ['a later renewal', {}, { renewal_window_days: 30 }, { renewal_window_days: 30 }, true, true],
  ['another expression', { san_regex: 'a' }, { san_regex: 'b' }, { san_regex: 'b' }, true, false],
  ['the same expression', { san_regex: 'a' }, { san_regex: 'a' }, { san_regex: 'a' }, false, true],
  ['a depth without a base, which refuses nothing', { max_subdomain_depth: 1 }, {}, {}, false, true],
  [
    'fewer labels below fewer bases',
    { max_subdomain_depth: 3, depth_base_domains: ['a.test', 'b.test'] },
    { max_subdomain_depth: 2, depth_base_domains: ['B.test'] },
    { max_subdomain_depth: 2, depth_base_domains: ['B.test'] },
    true,
    true,
  ],
]

for (const [what, now, wanted, data, isChanged, isWhole] of CASES)
  test(`${what}: ${isChanged ? 'changes' : 'changes nothing'}, ${isWhole ? 'whole' : 'in part'}, and once`, () => {
    const tighter = tighterProfile(now as never, wanted as never)
    assert.deepEqual(tighter, { data, isChanged, isWhole })
    assert.equal(tighterProfile(tighter.data, wanted as never).isChanged, false)
  })
