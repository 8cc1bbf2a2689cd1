/** Text of strangers on a terminal, and words of printed command lines. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { printable, shellWord } from '../../../../src/shared/lib/terminal.ts'

test('text, its lines and its tabs stay as they are', () => {
  for (const text of ['', 'a\tb\nc', 'Zoë — 東京 ✓', '{"a":[1,2]}']) assert.equal(printable(text), text)
})

test('what steers a terminal becomes visible', () => {
  const cases: [string, string][] = [
    ['\u001b[31m', '\\u001b[31m'],
    ['\u009b31m', '\\u009b31m'],
    ['a\rb', 'a\\u000db'],
    ['\u007f\u0000', '\\u007f\\u0000'],
    ['\u202ecod.exe\u2066', '\\u202ecod.exe\\u2066'],
    ['\u2028\u2029\ufeff', '\\u2028\\u2029\\ufeff'],
    ['\u{e0041}', '\\udb40\\udc41'],
  ]
  for (const [text, shown] of cases) assert.equal(printable(text), shown)
})

test('JSON stays the same JSON', () => {
  const value = { name: '\u009b2J\u202e\u{e0041}\u007f', 'a\u0085': ['\u2028'] }
  const text = printable(JSON.stringify(value, null, 2))
  assert.deepEqual(JSON.parse(text), value)
  assert.match(text, /^[\n\x20-\x7e]*$/)
})

test('a plain path stays as it is', () =>
  assert.equal(shellWord('/srv/chancery-1/data/ca/root.pem'), '/srv/chancery-1/data/ca/root.pem'))

test('the shell reads back blanks, quotes, wildcards, variables and nothing at all', () => {
  const words = ['my projects', "it's", '"quoted"', '*', '$HOME `id` $(id)', 'a;b&c|d', '\\n', '~', '#', 'ü', '']
  const output = execFileSync('sh', ['-c', `printf '%s\\0' ${words.map(shellWord).join(' ')}`], { encoding: 'utf8' })
  assert.deepEqual(output.split('\0').slice(0, -1), words)
})
