/** A body that is sent piece by piece. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Exchange } from '../../../src/http/live-request.ts'
import { pourBody } from '../../../src/http/reply-writer.ts'

test('a reader who leaves while a piece waits for room is asked no further piece', async () => {
  const asked: string[] = []
  const res = { onWritable: () => res, cork: (work: () => void) => work(), write: () => false }
  const exchange = { res, over: false } as unknown as Exchange
  const poured = pourBody(exchange, 'first', {
    async next() {
      asked.push('next')
      throw new Error('the stream is unknown')
    },
    cancel: () => void asked.push('cancel'),
  })
  exchange.over = true
  exchange.onOver?.()
  assert.equal(await poured, false)
  assert.deepEqual(asked, ['cancel'])
})
