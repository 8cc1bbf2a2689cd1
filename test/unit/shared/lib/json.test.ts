/** JSON objects without duplicate members. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseJsonObject } from '../../../../src/shared/lib/encoding.ts'
import { propertyRuns } from '../../../support/property-runs.ts'

const parse = (text: string | Buffer) => parseJsonObject(Buffer.from(text as string))

test('an object is returned with its members', () =>
  assert.deepEqual(parse(' {"a":{"b":[1,"x:y",{"c":null}]},"":"\\":"} '), {
    a: { b: [1, 'x:y', { c: null }] },
    '': '":',
  }))

const refusals: [name: string, text: string | Buffer, reason: string][] = [
  ['nothing', '', 'is not valid JSON'],
  ['a truncated object', '{"a":1', 'is not valid JSON'],
  ['a comment', '{"a":1/**/}', 'is not valid JSON'],
  ['a trailing comma', '{"a":1,}', 'is not valid JSON'],
  ['two objects', '{}{}', 'is not valid JSON'],
  ['a byte order mark', '\ufeff{}', 'is not valid JSON'],
  ['bytes that are no UTF-8', Buffer.from('{"a":"\xff"}', 'latin1'), 'is not UTF-8'],
  ['an encoded surrogate', Buffer.from('7b2261223a22eda080227d', 'hex'), 'is not UTF-8'],
  ['null', 'null', 'is not a JSON object'],
  ['an array', '[{}]', 'is not a JSON object'],
  ['a string', '"{}"', 'is not a JSON object'],
  ['equal members', '{"a":1,"a":1}', 'has a duplicate member'],
  ['equal members in different spelling', '{"a":1,"\\u0061":2}', 'has a duplicate member'],
  ['equal members inside', '{"x":[{"a":1,"b":2,"a":3}]}', 'has a duplicate member'],
  ['__proto__ twice', '{"__proto__":1,"__proto__":2}', 'has a duplicate member'],
  ['33 levels', `${'{"a":'.repeat(33)}1${'}'.repeat(33)}`, 'is nested too deeply'],
  ['100,000 levels', `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`, 'is nested too deeply'],
]
for (const [name, text, reason] of refusals) test(`${name} ${reason}`, () => assert.equal(parse(text), reason))

test('32 levels are enough for anybody, and brackets in strings are no levels', () => {
  assert.equal(typeof parse(`${'{"a":'.repeat(32)}1${'}'.repeat(32)}`), 'object')
  assert.equal(typeof parse(`{"a":"${'[{'.repeat(100)}"}`), 'object')
})

test('__proto__ is a member like any other', () => {
  const object = parse('{"__proto__":{"admin":true}}')
  assert.equal(typeof object, 'object')
  assert.equal((object as { admin?: boolean }).admin, undefined)
})

test('it returns an object or a reason for any bytes', () =>
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) =>
      assert.match(typeof parseJsonObject(Buffer.from(bytes)), /^(object|string)$/),
    ),
    propertyRuns(),
  ))

test('what JSON.stringify writes of an object comes back', () =>
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 5 })), (object) => {
      const text = JSON.stringify(object)
      assert.deepEqual(parse(text), JSON.parse(text))
    }),
  ))

test('one member more with the name of another is always found', () => {
  const names = fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 6 })
  fc.assert(
    fc.property(names, fc.jsonValue({ maxDepth: 3 }), fc.nat(), (members, value, pick) => {
      const twice = [...members, members[pick % members.length] as string]
      const text = `{${twice.map((name) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(',')}}`
      assert.equal(parse(text), 'has a duplicate member')
    }),
  )
})
