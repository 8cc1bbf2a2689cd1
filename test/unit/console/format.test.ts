/** Files of the console: PEM and CSV. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { csvOf, derOf } from '../../../src/console/format.ts'

test('the DER of a PEM file is that of its first certificate', () => {
  const pem = (bytes: Buffer) => `-----BEGIN CERTIFICATE-----\n${bytes.toString('base64')}\n-----END CERTIFICATE-----\n`
  const [first, second] = [Buffer.from([0x30, 0x82, 0xff]), Buffer.from([0x30, 0x00])]
  assert.deepEqual(Buffer.from(derOf(pem(first) + pem(second))), first)
})

test('no cell of a CSV file is a formula, nor becomes one where it is split at another character', () => {
  const cells = ['=1+1', '+1', '-1', '-x', '@x', '\t=1', 'a;=1+1', 'a\t=1', 'say "hi"', undefined, 7]
  const expected = `'=1+1,+1,-1,'-x,'@x,"'\t=1","a;=1+1","a\t=1","say ""hi""",,7\r\n`
  assert.equal(csvOf([cells]), expected)
})
