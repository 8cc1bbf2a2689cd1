/** Timestamps on the wire (RFC 3339). */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseTimestamp, renderTimestamp } from '../../../../src/shared/protocol/timestamp.ts'
import { forAll } from '../../../support/property-runs.ts'
import { words } from '../../../support/words.ts'

const accepted: [text: string, rendered: string][] = [
  ['2026-01-02T03:04:05Z', '2026-01-02T03:04:05Z'],
  ['2026-01-02t03:04:05z', '2026-01-02T03:04:05Z'],
  ['2026-01-02T03:04:05.999Z', '2026-01-02T03:04:05Z'],
  ['1985-04-12T23:20:50.52Z', '1985-04-12T23:20:50Z'],
  ['1996-12-19T16:39:57-08:00', '1996-12-20T00:39:57Z'],
  ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00Z'],
  ['2026-01-02T03:04:05.123456789+00:00', '2026-01-02T03:04:05Z'],
]
for (const [text, rendered] of accepted)
  test(`${text} is ${rendered}`, () => assert.equal(renderTimestamp(parseTimestamp(text) as Date), rendered))

const refused = [
  '',
  '2026-01-02 03:04:05Z',
  ' 2026-01-01T00:00:00Z',
  '2026-01-01T00:00:00Z\n',
  ...words`
    now 2026-01-02 2026-01-02T03:04:05 2026-1-2T03:04:05Z 26-01-02T03:04:05Z 2026-02-30T00:00:00Z
    2025-02-29T00:00:00Z 2026-04-31T00:00:00Z 2026-00-01T00:00:00Z 2026-13-01T00:00:00Z 2026-01-00T00:00:00Z
    2026-01-01T24:00:00Z 2026-01-01T00:60:00Z 2026-01-01T00:00:61Z 2026-01-01T00:00:00+24:00
    2026-01-01T00:00:00+00:60 2026-01-01T00:00:00+0000 2026-01-01T00:00:00.Z 2026-01-01T00:00:00,5Z
    +002026-01-01T00:00:00Z
  `,
]
for (const text of refused)
  test(`${JSON.stringify(text)} is no RFC 3339 date-time`, () => assert.equal(parseTimestamp(text), undefined))

test('what is rendered is parsed back', () => {
  const dates = fc.date({
    min: new Date('1970-01-01T00:00:00Z'),
    max: new Date('9999-12-31T23:59:59Z'),
    noInvalidDate: true,
  })
  forAll(dates, (at) => {
    const text = renderTimestamp(at)
    assert.equal(renderTimestamp(parseTimestamp(text) as Date), text)
  })
})
