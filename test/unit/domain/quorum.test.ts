import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  allowedNonCorroborations,
  judgeQuorum,
  neededCorroborations,
  type Quorum,
  type QuorumPolicy,
  type Vote,
} from '../../../src/mpic/corroboration.ts'
import { forAll } from '../../support/property-runs.ts'

const BR: QuorumPolicy = { maxNonCorroborations: undefined, minRegions: 2 }
const PLAIN: QuorumPolicy = { maxNonCorroborations: undefined, minRegions: 1 }

const WORDS = { y: 'yes', n: 'no', '?': 'pending' } as const
/** `y:ripe n:arin ?` */
const votes = (text: string): Vote[] =>
  text.split(' ').map((word) => {
    const [vote, region] = word.split(':') as [keyof typeof WORDS, string | undefined]
    return { vote: WORDS[vote], region }
  })

describe('allowed non-corroborations (BR 3.2.2.9, Quorum Requirements)', () => {
  const table: Record<number, number> = { 1: 0, 2: 1, 3: 1, 4: 1, 5: 1, 6: 2, 7: 2, 12: 2 }
  for (const [count, allowed] of Object.entries(table))
    test(`${allowed} of ${count}`, () => assert.equal(allowedNonCorroborations(Number(count)), allowed))
  test('a setting overrides the table', () => {
    assert.equal(neededCorroborations(5, { ...PLAIN, maxNonCorroborations: 0 }), 5)
    assert.equal(neededCorroborations(5, { ...PLAIN, maxNonCorroborations: 3 }), 2)
  })
  test('one must corroborate whatever the setting', () =>
    assert.equal(neededCorroborations(3, { ...PLAIN, maxNonCorroborations: 9 }), 1))
})

describe('a quorum', () => {
  const rows: [string, QuorumPolicy, Quorum][] = [
    ['y', PLAIN, 'met'],
    ['n', PLAIN, 'missed'],
    ['?', PLAIN, 'open'],
    ['y n', PLAIN, 'met'],
    ['n n', PLAIN, 'missed'],
    ['y ?', PLAIN, 'met'],
    ['n ?', PLAIN, 'open'],
    ['y y n', PLAIN, 'met'],
    ['y n n', PLAIN, 'missed'],
    ['y n ?', PLAIN, 'open'],
    ['n n ?', PLAIN, 'missed'],
    ['y y y y n', PLAIN, 'met'],
    ['y y y n n', PLAIN, 'missed'],
    ['y y y y n n', PLAIN, 'met'],
    ['y y y n n n', PLAIN, 'missed'],
    ['y:ripe y:ripe n:arin', BR, 'missed'],
    ['y:ripe y:ripe ?:arin', BR, 'open'],
    ['y:ripe y:arin n:apnic', BR, 'met'],
    ['y:ripe y:arin ?:apnic', BR, 'met'],
    ['y:ripe n:arin y:apnic', BR, 'met'],
    ['y:ripe y:ripe y:ripe', BR, 'missed'],
    ['y y y:ripe', BR, 'met'],
    ['y y y', BR, 'missed'],
    ['y:ripe n:arin n:apnic', { maxNonCorroborations: 2, minRegions: 1 }, 'met'],
    ['y:ripe n:arin n:apnic', { maxNonCorroborations: 2, minRegions: 2 }, 'missed'],
    ['y:ripe y:arin n:apnic', { maxNonCorroborations: 0, minRegions: 2 }, 'missed'],
  ]
  for (const [text, policy, expected] of rows) {
    const { maxNonCorroborations = 'the table', minRegions } = policy
    test(`of ${text} with ${maxNonCorroborations} and ${minRegions} region(s) is ${expected}`, () =>
      assert.equal(judgeQuorum(votes(text), policy), expected))
  }

  const vote = fc.record({
    region: fc.constantFrom(undefined, 'ripe', 'arin', 'apnic'),
    vote: fc.constantFrom<Vote['vote']>('yes', 'no', 'pending'),
  })
  const policy = fc.record({
    maxNonCorroborations: fc.option(fc.nat(7), { nil: undefined }),
    minRegions: fc.integer({ min: 1, max: 4 }),
  })
  test('that is decided is not changed by the votes that are pending', () =>
    forAll(fc.array(vote, { minLength: 1, maxLength: 8 }), policy, fc.boolean(), (cast, rule, yes) => {
      const before = judgeQuorum(cast, rule)
      const after = judgeQuorum(
        cast.map((one) => (one.vote === 'pending' ? { ...one, vote: yes ? 'yes' : 'no' } : one)),
        rule,
      )
      assert.notEqual(after, 'open')
      if (before !== 'open') assert.equal(after, before)
    }))
  test('is never met by votes of which none is yes', () =>
    forAll(fc.array(vote, { minLength: 1, maxLength: 8 }), policy, (cast, rule) => {
      const none = cast.map((one): Vote => (one.vote === 'yes' ? { ...one, vote: 'no' } : one))
      assert.notEqual(judgeQuorum(none, rule), 'met')
    }))
})
