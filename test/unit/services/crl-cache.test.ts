/** Which lists an instance serves when its database goes back to an earlier time: never one of a lower number. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createCrlCache } from '../../../src/services/crl/crl-cache.ts'
import type { PublishedCrl } from '../../../src/store/crl-store.ts'
import { each } from '../../support/each.ts'

const HOUR_MS = 3_600_000
const ISSUER_KEY = Buffer.alloc(32, 1)

function aList(number: bigint, over: Partial<PublishedCrl> = {}): PublishedCrl {
  const now = Date.now()
  const times = { thisUpdate: new Date(now), nextUpdate: new Date(now + HOUR_MS), startedAt: new Date(now) }
  return {
    issuerKey: ISSUER_KEY,
    shards: 1,
    shard: 0,
    issuerId: 'default',
    number,
    entries: 0,
    bytes: 8,
    isAhead: false,
    ...times,
    ...over,
  }
}

/** A database whose lists are `lists`; the DER of each is its number. */
function aCache(lists: PublishedCrl[], newestSigned: () => bigint | undefined = () => 0n) {
  const database = { lists }
  const cache = createCrlCache(
    {
      published: async () => database.lists,
      async piece(_issuerKey, number) {
        const der = Buffer.alloc(8)
        der.writeBigUInt64BE(number)
        return der
      },
    },
    newestSigned,
  )
  const numbers = async () => {
    await cache.refresh()
    return cache.served().map(({ name, der }) => `${name} ${Buffer.from(der).readBigUInt64BE()}`)
  }
  return { cache, database, numbers }
}

test('a list of a lower number does not take the place of one that is served; a higher one does', async () => {
  const { cache, database, numbers } = aCache([aList(10n)])
  assert.deepEqual(await numbers(), ['default 10'])
  database.lists = [aList(9n)]
  assert.deepEqual(await numbers(), ['default 10'])
  assert.deepEqual(each(cache.published(), 'number'), [10n])
  database.lists = [aList(11n)]
  assert.deepEqual(await numbers(), ['default 11'])
})

test('numbers of another issuer under the same name are compared with nothing', async () => {
  const { database, numbers } = aCache([aList(10n)])
  await numbers()
  database.lists = [aList(3n, { issuerKey: Buffer.alloc(32, 2) })]
  assert.deepEqual(await numbers(), ['default 3'])
})

test('a part that an older database has never had is served on; one that was retired is not', async () => {
  const part = aList(12n, { shards: 4, shard: 2 })
  const { database, numbers } = aCache([aList(10n), part])
  await numbers()
  database.lists = [aList(9n)]
  assert.deepEqual((await numbers()).sort(), ['default 10', 'default/4-2 12'])
  database.lists = [aList(13n)]
  assert.deepEqual(await numbers(), ['default 13'])
})

test('after a start no list is served that is older than the newest one that was signed', async () => {
  let signed: bigint | undefined
  const { cache, database, numbers } = aCache([aList(10n)], () => signed)
  assert.deepEqual(await numbers(), [], 'nor any, while the signer has not said what it has signed')
  signed = 12n
  assert.deepEqual(await numbers(), [])
  assert.deepEqual([cache.withheld(), cache.published()], [['default'], []])
  database.lists = [aList(12n)]
  assert.deepEqual(await numbers(), ['default 12'])
  assert.deepEqual(cache.withheld(), [])
  signed = 14n
  database.lists = [aList(13n)]
  assert.deepEqual(await numbers(), ['default 13'], 'while the next one is being published')
})
