/** PEM files in the console. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { derOf } from '../../../src/console/format.ts'

test('the DER of a PEM file is that of its first certificate', () => {
  const pem = (bytes: Buffer) => `-----BEGIN CERTIFICATE-----\n${bytes.toString('base64')}\n-----END CERTIFICATE-----\n`
  const [first, second] = [Buffer.from([0x30, 0x82, 0xff]), Buffer.from([0x30, 0x00])]
  assert.deepEqual(Buffer.from(derOf(pem(first) + pem(second))), first)
})
