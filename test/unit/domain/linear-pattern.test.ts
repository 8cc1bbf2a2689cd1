/** Regular expressions of operators: Python's meaning where it can be had, linear time always. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { compileLinearPattern, PatternError } from '../../../src/domain/linear-pattern.ts'
import { forAll, forAnyInput } from '../../support/property-runs.ts'
import { words } from '../../support/words.ts'

describe('linear patterns', () => {
  const cases: [source: string, value: string, matches: boolean][] = [
    ['', '', true],
    ['a', 'ab', false],
    ['b', 'ab', false],
    ['a|ab', 'ab', true],
    ['^a$', 'a', true],
    ['.*\\.example\\.com', 'www.example.com', true],
    ['.*\\.example\\.com', 'www.example.com.evil', false],
    ['(?i)HOST', 'host', true],
    ['(?P<name>a)b', 'ab', true],
    ['[a-z0-9-]{1,63}', 'a-1', true],
    ['a.b', 'a\nb', false],
    ['(?s)a.b', 'a\nb', true],
    // What Python writes otherwise.
    ['a\\Z', 'a', true],
    ['\\\\Z', '\\Z', true],
    ['a{,2}', 'aa', true],
    ['a{,2}', '', true],
    ['a{,2}', 'aaa', false],
    ['[{,2}]+', '{,2}', true],
    ['[]{,2}]+', ']{,', true],
    ['\\{,2}', '{,2}', true],
    ['a{,}', 'a{,}', true],
    // What means something else than in Python: ASCII classes.
    ['\\d', '٣', false],
    ['\\w', 'é', false],
  ]
  for (const [source, value, matches] of cases)
    test(`${source} ${matches ? 'matches' : 'does not match'} ${JSON.stringify(value)}`, () =>
      assert.equal(compileLinearPattern(source).matches(value), matches))

  const refused = [
    '(?=a)b',
    '(?!a)',
    '(?<=a)b',
    '(?<!a)b',
    '(a)\\1',
    '(?P<n>a)(?P=n)',
    '(?>a)',
    'a++',
    '(?x)a',
    '(',
    '[',
    'a**',
    '\\u0061',
    '\\',
    'a{1001}',
    '((a{1,30}){1,30}){1,30}',
    'a'.repeat(2049),
    'x{1000}y{1000}',
  ]
  for (const source of refused)
    test(`${source.slice(0, 40)} is refused, not misread`, () =>
      assert.throws(() => compileLinearPattern(source), PatternError))

  test('an expression with too many repetitions is refused before its instructions are made', () => {
    const repeated = (piece: string) => piece.repeat(Math.floor(2048 / piece.length))
    const sources = [
      ...['x{1000}', 'x{0,1000}', '(?:x?){0,1000}', '(x){999,}', '(?i)\\pL{1000}', '[^\\p{Greek}]{1000}'].map(repeated),
      `${'('.repeat(500)}${')'.repeat(500)}{1000}`,
      `(?:${'ab'.repeat(900)}){1000}`,
    ]
    for (const source of sources) {
      const startedAt = process.cpuUsage()
      assert.throws(() => compileLinearPattern(source), /too large once its repetitions are written out/)
      const { user, system } = process.cpuUsage(startedAt)
      // Made, they take over a second.
      assert.ok(user + system < 100_000, `${source.slice(0, 20)}: ${user + system} µs`)
    }
  })

  test('repetitions that fit are taken: one of a thousand, of a name with labels, of alternatives', () => {
    const sources = [
      'x{1000}',
      '(?:[a-z0-9-]{1,63}\\.){1,15}test',
      '(?:a|b){1000}',
      '(?P<label>[a-z]{1,63})',
      '\\p{Greek}{500}',
      'a{2,}b{,3}',
    ]
    for (const source of sources) assert.equal(compileLinearPattern(source).source, source)
  })

  test('patterns that take a backtracking engine for ever take no time', () => {
    const hostile = words`(a+)+$ (a|aa)+$ (a|a?)+$ ([a-zA-Z]+)*$ (.*a){20} (x+x+)+y (?:a?){100}a{100} [ab]*a[ab]{500}`
    const values = ['a'.repeat(2000), `${'a'.repeat(2000)}!`, 'ab'.repeat(1000), 'x'.repeat(2000)]
    for (const source of hostile) {
      const pattern = compileLinearPattern(source)
      for (const value of values) {
        const startedAt = process.cpuUsage()
        pattern.matches(value)
        const { user, system } = process.cpuUsage(startedAt)
        // Characters times instructions, at a microsecond each on a slow machine; a backtracking engine takes years.
        assert.ok(user + system < 100_000 + value.length * pattern.size, `${source}: ${user + system} µs`)
      }
    }
  })

  test('any text either compiles, and then answers for any value, or is refused with a sentence', () => {
    const piece = fc.constantFrom('\\', '\u00e9', '\ud800', ...words`a b . * + ? ( ) [ ] { } , 2 ^ $ | Z d - ?: ?P<n>`)
    const source = fc.oneof(
      fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join('')),
      fc.string(),
    )
    forAnyInput(source, fc.string(), (text, value) => {
      try {
        assert.equal(typeof compileLinearPattern(text).matches(value), 'boolean')
      } catch (error) {
        assert.ok(error instanceof PatternError, String(error))
        assert.match(error.message, /^is /)
      }
    })
  })

  test('where the engines of JavaScript and RE2 know the same syntax, they agree', () => {
    const atom = fc.constantFrom('a', 'b', '.', '[ab]', '[^a]', '(?:a|b)', '(?:ab)?', 'a*', 'b+', 'a{1,2}')
    const source = fc.array(atom, { maxLength: 6 }).map((atoms) => atoms.join(''))
    const value = fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 8 }).map((letters) => letters.join(''))
    forAll(source, value, (text, candidate) =>
      assert.equal(compileLinearPattern(text).matches(candidate), new RegExp(`^(?:${text})$`).test(candidate)),
    )
  })
})
