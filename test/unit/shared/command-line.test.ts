/** Options of a command line: values, defaults, and all that is wrong with them at once. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isGiven, option, optional, readOptions, several, UsageError } from '../../../src/shared/command-line.ts'

function whole(text: string): number {
  if (!/^\d+$/.test(text)) throw new Error('takes a whole number')
  return Number(text)
}

const OPTIONS = {
  port: option('A port', whole, 8443),
  name: optional('A name', String),
  serial: several('Numbers', whole),
  all: isGiven('All of them'),
}

test('what is not given has its default', () =>
  assert.deepEqual(readOptions(OPTIONS, {}), { port: 8443, name: undefined, serial: [], all: false }))

test('what is given is read, and may be repeated where the option says so', () => {
  const raw = { port: '1', name: '007', serial: ['1', '2'], all: true }
  assert.deepEqual(readOptions(OPTIONS, raw), { port: 1, name: '007', serial: [1, 2], all: true })
  assert.deepEqual(readOptions(OPTIONS, { serial: '3' }).serial, [3])
})

test('everything that is wrong is named at once', () => {
  const raw = { port: 'x', name: ['a', 'b'], serial: ['1', 'y'] }
  assert.throws(() => readOptions(OPTIONS, raw), {
    constructor: UsageError,
    message: '--port x: takes a whole number\n--name: is given twice\n--serial: takes a whole number',
  })
})
