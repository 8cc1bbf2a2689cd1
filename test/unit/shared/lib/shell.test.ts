/** Words of printed command lines: a shell reads back what was meant. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { shellWord } from '../../../../src/shared/lib/terminal.ts'

test('a plain path stays as it is', () =>
  assert.equal(shellWord('/srv/chancery-1/data/ca/root.pem'), '/srv/chancery-1/data/ca/root.pem'))

test('the shell reads back blanks, quotes, wildcards, variables and nothing at all', () => {
  const words = ['my projects', "it's", '"quoted"', '*', '$HOME `id` $(id)', 'a;b&c|d', '\\n', '~', '#', 'ü', '']
  const output = execFileSync('sh', ['-c', `printf '%s\\0' ${words.map(shellWord).join(' ')}`], { encoding: 'utf8' })
  assert.deepEqual(output.split('\0').slice(0, -1), words)
})
