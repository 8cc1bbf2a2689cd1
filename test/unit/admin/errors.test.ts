/** What a wrong request is told. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod/v4'
import { errorReply, invalid } from '../../../src/admin/errors.ts'

test('however many entries of a body are wrong, the reply names the first hundred', () => {
  const schema = z.strictObject({ serials: z.array(z.string().max(1)) })
  const { error } = schema.safeParse({ serials: new Array(50_000).fill('xx') })
  assert.ok(error)
  const { body } = errorReply(invalid('body', error, schema), 'id', 'resource')
  const { fields } = JSON.parse(body)
  assert.deepEqual([fields.length, fields[0].field, fields[99].field], [100, 'serials.0', 'serials.99'])
  assert.ok(body.length < 50_000)
})
