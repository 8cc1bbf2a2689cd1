import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { TokenBucket } from '../../../signer/issuers.ts'

describe('signatures per second', () => {
  const take = (bucket: TokenBucket, now: number, times: number) =>
    Array.from({ length: times }, () => bucket.take(now)).filter(Boolean).length

  test('allow a burst of one second and then the rate', () => {
    const bucket = new TokenBucket(10)
    assert.equal(take(bucket, 5000, 50), 10)
    assert.equal(take(bucket, 5500, 50), 5)
    assert.equal(take(bucket, 60_000, 50), 10)
  })

  test('below one per second allow single signatures', () => {
    const bucket = new TokenBucket(0.5)
    assert.equal(take(bucket, 5000, 5), 1)
    assert.equal(take(bucket, 6000, 5), 0)
    assert.equal(take(bucket, 7000, 5), 1)
  })
})
