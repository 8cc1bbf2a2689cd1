/** Requests of the Admin API: times in them, and what a wrong one is told. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { z } from 'zod/v4'
import { errorReply, invalid } from '../../../src/admin/admin-errors.ts'
import { ENDPOINTS } from '../../../src/admin/endpoints.ts'
import { limitOf } from '../../../src/admin/pages.ts'
import { instantParameter } from '../../../src/admin/schemas.ts'

test('however many entries of a body are wrong, the reply names the first hundred', () => {
  const schema = z.strictObject({ serials: z.array(z.string().max(1)) })
  const { error } = schema.safeParse({ serials: new Array(50_000).fill('xx') })
  assert.ok(error)
  const { body } = errorReply(invalid('body', error, schema), 'id', 'resource')
  const { fields } = JSON.parse(body)
  assert.deepEqual([fields.length, fields[0].field, fields[99].field], [100, 'serials.0', 'serials.99'])
  assert.ok(body.length < 50_000)
})

const schemaOf = (id: string, where: 'query' | 'body') => {
  const schema = ENDPOINTS.find((endpoint) => endpoint.id === id)?.[where]
  assert.ok(schema, id)
  return schema
}

/** What the Admin API says of a query or body that is wrong. */
function refusal(id: string, where: 'query' | 'body', value: unknown): string {
  const schema = schemaOf(id, where)
  const { error } = schema.safeParse(value, { reportInput: true })
  assert.ok(error, id)
  return invalid(where, error, schema).message
}

test('a label of two lines is told that it must be one, whatever separates them', () => {
  for (const separator of ['\n', '\u2028', '\u2029', '\u200b'])
    assert.equal(
      refusal('updateAccount', 'body', { label: `a${separator}b` }),
      "the body is not right: 'label' must be one line, without control characters, line separators and invisible characters",
    )
})

test('an unknown key of a table is named with the nearest known one, in a text of bounded length', () => {
  const profile = (authorized_keys: object) => ({ name: 'p', profile_data: { authorized_keys } })
  assert.equal(
    refusal('createCsrProfile', 'body', profile({ DSA: 1024 })),
    `the body is not right: 'profile_data.authorized_keys.DSA' is unknown; did you mean 'RSA'?`,
  )
  assert.ok(refusal('createCsrProfile', 'body', profile({ ['x'.repeat(10_000)]: 1 })).length < 500)
})

test('a wrong member is told of alone, and no rule about all members beside it', () => {
  const cases: [id: string, body: object, about: RegExp][] = [
    ['bulkRevoke', { filter: { spki_sha256: 'no' } }, /^the body is not right: 'filter\.spki_sha256' [^;]+$/],
    [
      'bulkRevoke',
      { filter: { serial_numbers: ['no'] } },
      /^the body is not right: 'filter\.serial_numbers\.0' [^;]+$/,
    ],
    ['bulkRevoke', { filter: { issued_before: 'no' } }, /^the body is not right: 'filter\.issued_before' [^;]+$/],
    [
      'bulkRevoke',
      { filter: { domains: 'a.test' } },
      /^the body is not right: 'filter\.domains' is unknown; did [^;]+$/,
    ],
    ['bulkRevoke', { filter: {} }, /^the body is not right: 'filter' must have at least one member$/],
    ['adviseRenewal', { filter: { issuer: 'no', all: true } }, /^the body is not right: 'filter\.issuer' [^;]+$/],
    [
      'adviseRenewal',
      { filter: { serials: [] } },
      /^the body is not right: 'filter\.serials' is unknown[^;]*(; did [^;]+)?$/,
    ],
    ['updateUser', { enabled: 'no' }, /^the body is not right: 'enabled' [^;]+$/],
    ['updateUser', { enable: true }, /^the body is not right: 'enable' is unknown; did [^;]+$/],
  ]
  for (const [id, body, about] of cases) assert.match(refusal(id, 'body', body), about)
})

test('a limit that is too small, too large or no number is told the bound that counts', () => {
  const schema = schemaOf('listIssuers', 'query')
  for (const limit of ['0', '-1', '201', 'x', '1e2', '1'.repeat(40)]) {
    const query = schema.parse({ limit }) as { limit: number }
    assert.throws(
      () => limitOf(query.limit, { defaultSize: 50, maxSize: 200 }),
      /'limit' must be a whole number from 1 to 200$/,
    )
  }
  assert.equal(limitOf(200, { defaultSize: 50, maxSize: 200 }), 200)
  assert.match(refusal('listIssuers', 'query', { offset: '-1' }), /'offset' must be a whole number, 0 or more$/)
})

test('the bare base path takes any query, as the paginator of an existing client sends one', () =>
  assert.ok(schemaOf('getName', 'query').safeParse({ limit: '50', offset: '0' }).success))

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
