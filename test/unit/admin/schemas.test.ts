/** Times in requests of the Admin API. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { instantParameter } from '../../../src/admin/schemas.ts'

describe('a time in a request', () => {
  for (const [text, instant] of [
    ['2026-02-28', '2026-02-28T00:00:00.000Z'],
    ['2024-02-29', '2024-02-29T00:00:00.000Z'],
    ['2026-01-31T12:00:00Z', '2026-01-31T12:00:00.000Z'],
    ['2026-01-31t12:00:00z', '2026-01-31T12:00:00.000Z'],
    ['2026-01-31T12:00:00', '2026-01-31T12:00:00.000Z'],
    ['2026-01-31T12:00', '2026-01-31T12:00:00.000Z'],
    ['2026-01-31T12:00:00.25+02:00', '2026-01-31T10:00:00.250Z'],
  ] as const)
    test(`${text} is ${instant}`, () => assert.equal(instantParameter().parse(text).toISOString(), instant))

  for (const text of [
    '2026-02-30',
    '2026-02-29',
    '2026-04-31T00:00:00Z',
    '2026-13-01',
    '2026-02-30T12:00:00',
    '2026-01-31T25:00:00Z',
    '2026-01-31T24:00:00Z',
    '2026-01-31T12:00:00+25:00',
    '0000-01-01',
    '2026-1-1',
    '2026-01-31 12:00:00',
    'yesterday',
    '',
    `2026-01-31T12:00:00.${'0'.repeat(99)}Z`,
  ])
    test(`${JSON.stringify(text.slice(0, 40))} is none`, () =>
      assert.match(String(instantParameter().safeParse(text).error?.issues[0]?.message), /^must be a time such as/))
})
