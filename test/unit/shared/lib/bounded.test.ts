/** What a schema reads of strangers: no longer list than it accepts, and addresses that a mail server takes. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { z } from 'zod/v4'
import { account, newAccount } from '../../../../src/acme/accounts.ts'
import type { AcmeEndpoint } from '../../../../src/acme/endpoint.ts'
import { newOrder } from '../../../../src/acme/orders.ts'
import { boundedList, isMailAddress } from '../../../../src/shared/lib/bounded.ts'
import { words } from '../../../support/words.ts'

/** A list that counts how many of its elements are read. */
function countedList(length: number, element: unknown) {
  const counted = { reads: 0, list: [] as unknown[] }
  counted.list = new Proxy(Array(length).fill(element), {
    get(target, property, receiver) {
      if (typeof property === 'string' && /^\d+$/.test(property)) counted.reads++
      return Reflect.get(target, property, receiver)
    },
  })
  return counted
}

describe('a bounded list', () => {
  const list = boundedList(z.object({ name: z.string() }), 100)

  test('of its greatest length is read', () =>
    assert.deepEqual(list.parse(Array(100).fill({ name: 'a', more: 1 })), Array(100).fill({ name: 'a' })))

  test('that is too long is refused before any element is read', () => {
    const counted = countedList(101, { name: 'a' })
    const { issues } = list.safeParse(counted.list).error as z.ZodError
    assert.deepEqual(
      [counted.reads, issues.map(({ message }) => message)],
      [0, ['must be a list of at most 100 elements']],
    )
  })

  test('is read until three faults are found, which name their places', () => {
    const counted = countedList(100, {})
    const { issues } = list.safeParse(counted.list).error as z.ZodError
    const paths = issues.map(({ path }) => path)
    assert.deepEqual(paths, [
      [0, 'name'],
      [1, 'name'],
      [2, 'name'],
    ])
    assert.equal(counted.reads, 3)
  })

  test('that is absent is said to be missing', () =>
    assert.deepEqual(list.safeParse(undefined).error?.issues[0]?.message, 'is missing'))

  for (const other of [undefined, null, {}, 'text', { length: 2 }])
    test(`is not ${JSON.stringify(other)}`, () => assert.equal(list.safeParse(other).success, false))
})

describe('a payload of 20,000 elements is refused before any is read', () => {
  for (const [name, endpoint, member] of [
    ['identifiers of a new order', newOrder, 'identifiers'],
    ['contacts of a new account', newAccount, 'contact'],
    ['contacts of an account', account, 'contact'],
  ] as const satisfies [string, AcmeEndpoint, string][])
    test(name, () => {
      const counted = countedList(20_000, {})
      assert.ok(endpoint.payload !== 'none')
      const { error } = endpoint.payload.schema.safeParse({ [member]: counted.list })
      assert.deepEqual([counted.reads, error?.issues.length], [0, 1])
    })
})

const TAKEN = [
  'a@x.test',
  'first.last+tag@mail.example.org',
  "o'hara@localhost",
  'jörg@bücher.example',
  `${'l'.repeat(64)}@x.test`,
]

const REFUSED = [
  'Ann <a@x.test>',
  '"a b"@x.test',
  'a b@x.test',
  '',
  'a@x.test\r\n',
  ...words`
    <a@x.test> a,b@x.test a;b@x.test a:b@x.test a a@ @x.test a@b@x.test a..b@x.test .a@x.test a@x..test a@-x.test
    a@x_y.test
  `,
]

// RFC 5321 §4.5.3.1
const TOO_LONG = [
  `${'l'.repeat(65)}@x.test`,
  `a@${'d'.repeat(64)}.test`,
  `a@${'d'.repeat(300)}.test`,
  `a@${'d.'.repeat(126)}test`,
]

test('an address has a local part of at most 64 and a domain of at most 253 characters', () => {
  for (const address of TAKEN) assert.ok(isMailAddress(address), address)
  for (const address of [...REFUSED, ...TOO_LONG]) assert.ok(!isMailAddress(address), address)
})
