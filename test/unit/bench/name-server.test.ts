import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { answerTo } from '../../../bench/servers/dns.ts'

/** A query for one name (RFC 1035 §4.1). */
function query(name: string, type: number): Buffer {
  const labels = name.split('.').flatMap((label) => [Buffer.from([label.length]), Buffer.from(label)])
  const header = Buffer.from([0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0])
  return Buffer.concat([header, ...labels, Buffer.from([0, 0, type, 0, 1])])
}

describe('the name server of the bench', () => {
  test('gives every name the one address', () => {
    const answer = answerTo(query('b1-2-3.test', 1), '127.64.3.9')
    assert.equal(answer?.readUInt16BE(0), 0xabcd)
    assert.equal(answer?.readUInt16BE(6), 1)
    assert.deepEqual([...(answer?.subarray(-4) ?? [])], [127, 64, 3, 9])
  })

  test('has nothing else, and says so', () => {
    const answer = answerTo(query('b1-2-3.test', 28), '127.0.0.1')
    assert.deepEqual([answer?.readUInt16BE(2), answer?.readUInt16BE(6)], [0x8180, 0])
  })

  test('answers no answers and no rubbish', () => {
    const answer = query('a.test', 1)
    answer[2] = 0x81
    assert.equal(answerTo(answer, '127.0.0.1'), undefined)
    fc.assert(fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => void answerTo(Buffer.from(bytes), '127.0.0.1')))
  })
})
