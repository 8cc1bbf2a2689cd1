/** The page of `chancery setup` names every key of a file of answers, with its question and its choices. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { QUESTIONS } from '../../src/setup/questions.ts'

const PAGE = path.resolve(import.meta.dirname, '../../../docs/operations/setup.md')

test('the table of keys is the table of questions, in its order', () => {
  const rows = readFileSync(PAGE, 'utf8').matchAll(/^\| `(\w+)`( 🔒)? \| ([^|]+) \|/gm)
  const table = [...rows].filter(([, key]) => QUESTIONS.some((one) => one.key === key))
  const wanted = QUESTIONS.map(({ key, text, choices, isSecret }) => {
    const words = Object.keys(choices ?? {}).map((word) => `\`${word}\``)
    return `${key}${isSecret ? ' 🔒' : ''}: ${[text, words.join(', ')].filter((part) => part !== '').join(' ')}`
  })
  assert.deepEqual(
    table.map(([, key, mark = '', text]) => `${key}${mark}: ${text}`),
    wanted,
  )
})
