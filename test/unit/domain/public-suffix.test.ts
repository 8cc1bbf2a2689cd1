/** The Public Suffix List: below which names strangers register. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type IsRegistry, publicSuffixes } from '../../../src/domain/identifier-policy.ts'

const names: Record<string, boolean> = {
  com: true,
  uk: true,
  'co.uk': true,
  'example.co.uk': false,
  'a.example.co.uk': false,
  // Only a rule with `*` speaks of what is below these.
  ck: true,
  'kawasaki.jp': true,
  'any.kawasaki.jp': true,
  'city.kawasaki.jp': false,
  'www.ck': false,
  'xn--55qx5d.cn': true,
  'xn--p1ai': true,
  // The section of private domains.
  'github.io': false,
  'user.github.io': false,
  // A top-level name that is not on the list may be one tomorrow.
  'unknown-top-level': true,
  'example.unknown-top-level': false,
}
for (const [name, isOne] of Object.entries(names))
  test(`${name} is ${isOne ? 'a' : 'no'} registry by the built-in list`, () =>
    assert.equal((publicSuffixes('builtin') as IsRegistry)(name), isOne))

test('without a list nothing is asked', () => assert.equal(publicSuffixes('none'), undefined))
