/** Pages of long lists, over a list in memory: what is found, where the next page begins, and when looking ends. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { type ListPage, readPage, readToEnd, unbounded, type Walk } from '../../../src/store/list-page.ts'
import { forAllAsync } from '../../support/property-runs.ts'

interface Listed {
  id: string
  fits: boolean
}

const idOf = (number: number) => String(number).padStart(6, '0')

/** Ids ascend; `fits` says of each number whether its row does. */
function aList(length: number, fits: (number: number) => boolean): Listed[] {
  return Array.from({ length }, (_, number) => ({ id: idOf(number), fits: fits(number) }))
}

/** A millisecond passes with each thousand rows of a window. */
function aWalk(list: readonly Listed[]) {
  let nowMs = 0
  const windows: number[] = []
  const behind = (after: string | undefined) => list.slice(after === undefined ? 0 : Number(after) + 1)
  const walk: Walk<Listed> = {
    windowEnd: async (after, rows) => {
      windows.push(rows)
      nowMs += rows / 1000
      return behind(after)[rows - 1]?.id
    },
    read: async (after, end, limit) =>
      behind(after)
        .filter(({ id, fits }) => fits && (end === undefined || id <= end))
        .slice(0, limit),
    cursorOf: ({ id }) => id,
  }
  const read = (after: string | undefined, limit: number) => readPage(walk, after, limit, () => nowMs)
  return { walk, read, windows }
}

const idsOf = ({ rows }: ListPage<Listed>) => rows.map(({ id }) => id)

describe('a page of a list', () => {
  test('is full after one short window where all rows fit, and says where the next begins', async () => {
    const { read, windows } = aWalk(aList(5_000, () => true))
    const page = await read(undefined, 3)
    assert.deepEqual(idsOf(page), [idOf(0), idOf(1), idOf(2)])
    assert.deepEqual([page.next, page.isComplete, page.lookedThrough], [idOf(2), true, 0])
    assert.deepEqual(windows, [1_000])
  })

  test('without a further row has no next one', async () => {
    const { read } = aWalk(aList(3, () => true))
    const page = await read(undefined, 3)
    assert.deepEqual([idsOf(page).length, page.next, page.isComplete], [3, undefined, true])
  })

  test('ends after 25 ms of looking, with what it has and the place where it stopped', async () => {
    const { read, windows } = aWalk(aList(100_000, (number) => number === 2_500))
    const page = await read(undefined, 3)
    assert.deepEqual(windows, [1_000, 4_000, 8_000, 8_000, 8_000])
    assert.deepEqual(
      [idsOf(page), page.next, page.isComplete, page.lookedThrough],
      [[idOf(2_500)], idOf(28_999), false, 29_000],
    )
  })

  test('looks at one window at least, however late it is', async () => {
    const { walk } = aWalk(aList(10, () => true))
    let nowMs = 0
    const page = await readPage(walk, undefined, 50, () => (nowMs += 1_000))
    assert.deepEqual([idsOf(page).length, page.isComplete], [10, true])
  })

  test('along an index of just the rows that fit asks for no window', async () => {
    const { walk, windows } = aWalk(aList(100_000, (number) => number > 99_997))
    const page = await readPage(unbounded(walk), undefined, 50)
    assert.deepEqual([idsOf(page), page.next, windows], [[idOf(99_998), idOf(99_999)], undefined, []])
  })

  test('after page gives every row that fits once and in order, wherever looking ended', async () => {
    await forAllAsync(
      10,
      fc.integer({ min: 0, max: 60_000 }),
      fc.uniqueArray(fc.nat(60_000), { maxLength: 40 }),
      fc.integer({ min: 1, max: 12 }),
      async (length, fitting, limit) => {
        const list = aList(length, (number) => fitting.includes(number))
        const { walk } = aWalk(list)
        const found: string[] = []
        let after: string | undefined
        for (let pages = 0; pages < 100; pages++) {
          let nowMs = 0
          const page = await readPage(walk, after, limit, () => (nowMs += 9))
          found.push(...idsOf(page))
          after = page.next
          if (after === undefined) break
        }
        assert.deepEqual(
          found,
          list.filter(({ fits }) => fits).map(({ id }) => id),
        )
      },
    )
  })
})

describe('a search to the end', () => {
  const goesOn = () => true

  test('goes on until the page is full, and counts all that was looked through', async () => {
    const { read } = aWalk(aList(200_000, (number) => number % 40_000 === 39_999))
    const page = await readToEnd(read, undefined, 3, goesOn)
    assert.deepEqual(idsOf(page), [idOf(39_999), idOf(79_999), idOf(119_999)])
    assert.ok(page.lookedThrough >= 119_000, String(page.lookedThrough))
    assert.notEqual(page.next, undefined)
  })

  test('ends with the list', async () => {
    const { read } = aWalk(aList(100_000, (number) => number === 90_000))
    const page = await readToEnd(read, undefined, 3, goesOn)
    assert.deepEqual([idsOf(page), page.next, page.isComplete], [[idOf(90_000)], undefined, true])
  })

  test('that is stopped has what was found, and the place where it goes on', async () => {
    const { read } = aWalk(aList(100_000, (number) => number === 10 || number === 90_000))
    const page = await readToEnd(read, undefined, 3, () => false)
    assert.deepEqual([idsOf(page), page.isComplete, page.lookedThrough], [[idOf(10)], false, 29_000])
    const rest = await readToEnd(read, page.next, 3, goesOn)
    assert.deepEqual(idsOf(rest), [idOf(90_000)])
  })
})
