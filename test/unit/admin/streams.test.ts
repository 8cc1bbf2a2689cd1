import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ReplyStreams } from '../../../src/admin/streams.ts'

const LINE = 'x'.repeat(1023)

async function* lines(count: number) {
  for (let i = 0; i < count; i++) yield LINE
}

async function readAll(count: number): Promise<string> {
  const streams = new ReplyStreams()
  const { body, stream } = await streams.open('ann', lines(count))
  let text = body
  for (let piece: string | undefined = ''; stream !== undefined && piece !== undefined; text += piece ?? '')
    piece = await streams.next(stream)
  return text
}

describe('streamed replies', () => {
  // 128 lines are exactly one piece.
  for (const count of [0, 1, 127, 128, 129, 256, 300])
    test(`${count} lines arrive whole`, async () => assert.equal((await readAll(count)).length, count * 1024))

  test('a stream that fails is an error, and does not look like an end', async () => {
    const streams = new ReplyStreams()
    async function* failing() {
      yield* lines(200)
      throw new Error('the database is away')
    }
    const { stream = '' } = await streams.open('ann', failing())
    await assert.rejects(streams.next(stream), /away/)
    await assert.rejects(streams.next(stream), /unknown/)
  })

  test('one user has two open, and keeps no other from theirs', async () => {
    const streams = new ReplyStreams()
    const open = (user: string) => streams.open(user, lines(1000))
    const { stream = '' } = await open('ann')
    await open('ann')
    await assert.rejects(open('ann'), { code: 'unavailable' })
    await open('bob')
    streams.cancel(stream)
    await open('ann')
  })

  test('a cancelled stream ends its source', async () => {
    const streams = new ReplyStreams()
    let hasEnded = false
    async function* watched() {
      try {
        yield* lines(1000)
      } finally {
        hasEnded = true
      }
    }
    const { stream = '' } = await streams.open('ann', watched())
    streams.cancel(stream)
    await new Promise((resolve) => setImmediate(resolve))
    assert.equal(hasEnded, true)
  })
})
