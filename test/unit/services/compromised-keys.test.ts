/** The walk that ends what else has a compromised key. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compromisedKeys } from '../../../src/services/compromised-keys.ts'

/** Ids are numbers of windows; each window has one certificate for each key. */
function aWalk(windows: number, each = 1, isSettled = () => true) {
  const due = [Buffer.of(1)]
  const told: string[] = []
  const asked: string[] = []
  const round = compromisedKeys({
    store: {
      due: async () => due.map((key) => ({ key, version: '1', isSettled: isSettled() })),
      async revokeWindow(keys, afterId) {
        const place = (Number.parseInt(afterId, 16) || 0) + 1
        asked.push(`${place}: ${keys.map((key) => key[0]).join(' ')}`)
        return {
          revoked: keys.flatMap((key) => Array.from({ length: each }, () => `${key[0]}-${place}`)),
          end: place < windows ? place.toString(16) : undefined,
        }
      },
      spread: async (keys) =>
        void due.splice(0, due.length, ...due.filter((key) => !keys.some((one) => one.key.equals(key)))),
    },
    note: async (ids) => void told.push(...ids),
    onRevoked: () => undefined,
  })
  return { round, due, told, asked }
}

test('a walk goes on in the next round where the last one has stopped, and a key that comes meanwhile has the next walk', async () => {
  const { round, due, told, asked } = aWalk(30)
  assert.equal(await round(), 25, 'a round is short, so that other tasks have their turn')
  due.push(Buffer.of(2))
  assert.equal(await round(), 5)
  assert.deepEqual(due, [Buffer.of(2)])
  assert.deepEqual(asked.slice(24), ['25: 1', '26: 1', '27: 1', '28: 1', '29: 1', '30: 1'])
  assert.deepEqual([told.length, told.at(-1)], [30, '1-30'], 'the signer hears of each')
  await round()
  assert.equal(asked.at(30), '1: 2')
})

test('a round that has revoked many ends, so that other tasks have their turn', async () => {
  const { round } = aWalk(5, 500)
  assert.deepEqual([await round(), await round(), await round()], [1_000, 1_000, 500])
})

test('a key whose proof is young is walked for at once, and once more when it is settled', async () => {
  let isSettled = false
  const { round, due } = aWalk(1, 1, () => isSettled)
  assert.equal(await round(), 1)
  assert.equal(await round(), 0)
  assert.deepEqual(due, [Buffer.of(1)])
  isSettled = true
  assert.equal(await round(), 1)
  assert.deepEqual(due, [])
})

test('without a key that is due, no certificate is looked at', async () => {
  const { round, due, asked } = aWalk(3)
  due.splice(0)
  assert.equal(await round(), 0)
  assert.deepEqual(asked, [])
})
