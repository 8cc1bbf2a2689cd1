/** Numbers of CRLs (RFC 5280 §5.2.3): they rise, no clock brings them into a corner, and no request uses them up. */

import assert from 'node:assert/strict'
import path from 'node:path'
import { describe, test } from 'node:test'
import { openCrlNumbers } from '../../../signer/crl-numbers.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const folder = temporaryFolder()

const YEAR = 31_557_600n
const now = BigInt(Math.floor(Date.now() / 1000))

describe('the signer', () => {
  const key = (octet: number) => Buffer.alloc(20, octet)
  const numbers = openCrlNumbers(path.join(folder, 'crl-numbers'))

  test('refuses the highest number, after which no list could follow', async () => {
    await assert.rejects(numbers.take(key(1), 2n ** 159n - 1n), /more than 3155760000 above \d+/)
  })

  test('goes on from the number of a clock that was years ahead', async () => {
    const ahead = now + 90n * YEAR
    await numbers.take(key(2), ahead)
    await numbers.take(key(2), ahead + 1n)
    await assert.rejects(numbers.take(key(2), now), /is not above/)
  })

  test('lets one list take no more than a hundred years of numbers, whatever was signed before', async () => {
    const ahead = now + 90n * YEAR
    await numbers.take(key(3), ahead)
    await assert.rejects(numbers.take(key(3), ahead + 101n * YEAR), /above \d+/)
    await numbers.take(key(3), ahead + 99n * YEAR)
  })
})
