import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Turns } from '../../../src/admin/admin-application.ts'

const OPTIONS = { atOnce: 1, atOnceOfOne: 1, mostOfOne: 8, what: 'trials' }

describe('turns', () => {
  test('a flood of one owner delays another by one piece of work', async () => {
    const turns = new Turns(OPTIONS)
    const order: string[] = []
    const piece = (owner: string) => turns.run(owner, async () => void order.push(owner))
    await Promise.all([piece('ann'), piece('ann'), piece('ann'), piece('bob')])
    assert.deepEqual(order, ['ann', 'bob', 'ann', 'ann'])
  })

  test('who has too many waiting is told to try again, and others are not', async () => {
    const turns = new Turns(OPTIONS)
    const pieces = Array.from({ length: 8 }, () => turns.run('ann', async () => 1))
    await assert.rejects(
      turns.run('ann', async () => 1),
      { code: 'rate_limited', message: 'too many trials at once; try again' },
    )
    assert.equal(await turns.run('bob', async () => 1), 1)
    await Promise.all(pieces)
    assert.equal(await turns.run('ann', async () => 1), 1)
  })

  test('work that fails gives its turn to the next', async () => {
    const turns = new Turns(OPTIONS)
    const failing = turns.run('ann', async () => {
      throw new Error('away')
    })
    const next = turns.run('bob', async () => 1)
    await assert.rejects(failing, /away/)
    assert.equal(await next, 1)
  })

  test('behind a piece that rests, the next waits about as long as that took', async () => {
    const turns = new Turns({ ...OPTIONS, rests: true })
    const at: number[] = []
    const piece = () =>
      turns.run('ann', async () => {
        at.push(performance.now())
        await new Promise((resolve) => setTimeout(resolve, 50))
        at.push(performance.now())
      })
    // A rest keeps no process alive.
    const alive = setInterval(() => undefined, 1_000)
    await Promise.all([piece(), piece()])
    clearInterval(alive)
    const [began = 0, ended = 0, next = 0] = at
    // A timer may fire a millisecond early.
    assert.ok(next - ended > 0.8 * (ended - began), `${next - ended} ms after ${ended - began}`)
  })
})
