/** docs/operations/remote.md lists every command that needs the host, and every one that needs a session. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { SESSION_COMMANDS } from '../../../src/cli/admin/admin-commands.ts'
import { HOST_COMMANDS } from '../../../src/cli/host/host-commands.ts'

const page = readFileSync(path.resolve(import.meta.dirname, '../../../../docs/operations/remote.md'), 'utf8')
const listAfter = (beginning: string) => {
  const item = page.slice(page.indexOf(beginning)).split('\n- ')[0] ?? ''
  return [...item.matchAll(/`([^`]+)`/g)].map(([, words]) => words as string)
}
/** Without its arguments. */
const wordsOf = (usage: string) => usage.replace(/ <.*/, '')
const isIn = (list: string[], usage: string) => list.some((one) => `${usage} `.startsWith(`${one} `))

test('all that need the host, and no others', () => {
  const list = listAfter('- These need the host')
  const usages = HOST_COMMANDS.map(({ usage }) => wordsOf(usage))
  assert.deepEqual(
    usages.filter((usage) => !isIn(list, usage)),
    [],
  )
  for (const one of list)
    assert.ok(
      usages.some((usage) => isIn([one], usage)),
      one,
    )
})

test('all that are about the user of a session', () => {
  const list = listAfter('- These are about the user of a session')
  for (const { usage } of SESSION_COMMANDS) assert.ok(isIn(list, wordsOf(usage)), usage)
})
