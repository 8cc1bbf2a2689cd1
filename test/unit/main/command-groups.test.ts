/** Commands of two words: what is missing, and what is listed then. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { groupComplaint, incompleteCommand, renderGroupHelp, wordsOf } from '../../../src/cli/commands/groups.ts'

const COMMANDS = ['__default__', 'serve', 'db status', 'db migrate', 'inspect order']

describe('a command of two words', () => {
  test('is complete with both, and what is no group is left alone', () => {
    for (const words of [[], ['serve'], ['db', 'status'], ['inspect', 'order', 'x'], ['nonsense'], ['serve', 'db']])
      assert.equal(incompleteCommand(COMMANDS, words), undefined, words.join(' '))
  })

  test('is not without its second word, or with one that is none', () => {
    const [lone, wrong] = [incompleteCommand(COMMANDS, ['db']), incompleteCommand(COMMANDS, ['db', 'x'])]
    assert.ok(lone && wrong)
    assert.equal(groupComplaint(lone), 'db needs one more word, one of status, migrate')
    assert.equal(groupComplaint(wrong), 'unknown command: db x; there are db status, db migrate')
    assert.match(
      renderGroupHelp(lone, (command) => `does ${command}`),
      /^ {4}db status {5}does db status$/m,
    )
  })

  test('is found between flags and their values', () => {
    assert.deepEqual(wordsOf(['-c', 'config.yaml', 'db', '--after=x', 'status', '--json']), ['db', 'status'])
  })
})
