/** What the Admin API says of wrong values, of every endpoint: sentences of its own, not the validator's words. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type * as z from 'zod/v4'
import { invalid } from '../../../src/admin/admin-errors.ts'
import { ENDPOINTS } from '../../../src/admin/endpoints.ts'

const WRONG = [
  null,
  1,
  -1,
  Number.POSITIVE_INFINITY,
  'x',
  'x'.repeat(100_000),
  '\0',
  [],
  [null],
  [{}],
  {},
  { zz: 1 },
  { a: {} },
  true,
]
const OF_THE_VALIDATOR = /\bInvalid\b|Unrecognized|\bexpected\b|Too (?:big|small)|\bundefined\b/

const membersOf = (schema: z.ZodType): string[] => ('shape' in schema ? Object.keys(schema.shape as object) : [])

/** Sentences about wrong values in a place, each value alone and as each member. */
function sentencesOf(where: string, schema: z.ZodType): string[] {
  const values = [...WRONG, ...membersOf(schema).flatMap((name) => WRONG.map((value) => ({ [name]: value })))]
  return values.flatMap((value) => {
    const { error } = schema.safeParse(value, { reportInput: true })
    return error ? [invalid(where, error, schema).message] : []
  })
}

test('no sentence about a wrong value is the validator’s', () => {
  let said = 0
  for (const { method, path, body, query, params } of ENDPOINTS)
    for (const [where, schema] of Object.entries({ body, query, params })) {
      const sentences = schema ? sentencesOf(where, schema) : []
      said += sentences.length
      for (const sentence of sentences)
        assert.ok(!OF_THE_VALIDATOR.test(sentence), `${method} ${path}: ${sentence.slice(0, 200)}`)
    }
  assert.ok(said > 1_000, `${said} sentences`)
})
