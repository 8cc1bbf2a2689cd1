/** What a front does around ACME, which is a stand-in here that refuses everything. */

import assert from 'node:assert/strict'
import { describe, mock, test } from 'node:test'
import { pino } from 'pino'
import type { AcmeApplication } from '../../../src/acme/application.ts'
import type { HttpReply, HttpRequest } from '../../../src/http/message.ts'
import { HoldingPen } from '../../../src/lib/holding-pen.ts'
import { createFront } from '../../../src/main/front/front.ts'
import { createMetrics } from '../../../src/ops/metrics.ts'
import { createAdmission } from '../../../src/services/admission.ts'
import { createPatience } from '../../../src/services/patience.ts'

const ADDRESS = '192.0.2.1'
const REFUSED: HttpReply = { status: 400, headers: [], body: 'refused' }
const nothing = () => undefined

function aFront(capacity: number, handle: AcmeApplication['handle'] = () => Promise.resolve(REFUSED)) {
  const acme: AcmeApplication = {
    match: (path) => ({ resource: path === '/new-order' ? 'newOrder' : 'order', id: '', url: '' }),
    handle,
    problem: ({ status }) => ({ ...REFUSED, status }),
    notFound: () => ({ ...REFUSED, status: 404 }),
  }
  const patience = createPatience(true, { exhausted: nothing, refused: nothing })
  const heldBack = new HoldingPen<HttpReply>({ holdMs: 5000, capacity })
  const admission = createAdmission(500, { begun: nothing, ended: nothing, turnedAway: nothing })
  const front = createFront({
    acme,
    board: { admission: () => 'none' },
    admission,
    patience,
    late: new HoldingPen({ holdMs: 2000, capacity }),
    heldBack,
    metrics: createMetrics(),
    log: pino({ level: 'silent' }),
    version: '0',
    proxy: { enabled: false, trustedProxies: [], forwardedForHeader: '', forwardedProtoHeader: '' },
    scheme: 'http',
    securityHeaders: { http: [], https: [] },
    metricsPath: nothing,
    health: () => assert.fail('nobody asks'),
    crl: undefined,
    exposition: () => assert.fail('nobody asks'),
  })
  return { front, patience, heldBack, admission }
}

function aRequest(path = '/new-order') {
  const dropBody = mock.fn()
  const http: HttpRequest = {
    ...{ method: 'POST', path, query: '', body: Buffer.alloc(60_000), peerAddress: ADDRESS },
    header: nothing,
    dropBody,
  }
  return { http, dropBody }
}

describe('an answer to an address that has wasted too much', () => {
  test('waits, and does not keep what it answers', async () => {
    const { front, patience, heldBack } = aFront(2)
    patience.wasted(ADDRESS, 1000)
    const { http, dropBody } = aRequest()
    const reply = front.handle(http)
    while (heldBack.size === 0) await new Promise(setImmediate)
    assert.equal(dropBody.mock.callCount(), 1)
    heldBack.release()
    assert.deepEqual(await reply, REFUSED)
  })

  test('ends the connection where too many wait already', async () => {
    const { front, patience } = aFront(0)
    patience.wasted(ADDRESS, 1000)
    assert.deepEqual(await front.handle(aRequest().http), { ...REFUSED, closes: true })
  })

  test('is prompt for others, whose body stays until the reply', async () => {
    const { front, patience } = aFront(2)
    patience.wasted('192.0.2.2', 1000)
    const { http, dropBody } = aRequest()
    assert.deepEqual(await front.handle(http), REFUSED)
    assert.equal(dropBody.mock.callCount(), 0)
  })
})

describe('where requests queue', () => {
  /** A front that keeps its requests until they are let go, and remembers in which order they came. */
  function aQueue() {
    const handled: string[] = []
    const release: (() => void)[] = []
    const { front, admission } = aFront(2, ({ path }) => {
      handled.push(path)
      return new Promise((resolve) => release.push(() => resolve({ status: 200, headers: [], body: '' })))
    })
    admission.tick(performance.now(), 0, 0)
    const ask = (path: string) => Promise.resolve(front.handle(aRequest(path).http))
    const turn = () => new Promise(setImmediate)
    const letGo = () => {
      for (const done of release.splice(0)) done()
    }
    return { ask, turn, handled, letGo }
  }
  const count = (paths: readonly string[], path: string) => paths.filter((one) => one === path).length

  test('what begins something new is handled after what goes on, and in its measure', async () => {
    const { ask, turn, handled, letGo } = aQueue()
    const replies = Array.from({ length: 16 }, () => ask('/order/1'))
    for (let i = 0; i < 10; i++) replies.push(ask('/new-order'))
    for (let i = 0; i < 16; i++) replies.push(ask('/order/1'))
    assert.deepEqual([count(handled, '/order/1'), count(handled, '/new-order')], [32, 0])
    await turn()
    assert.equal(count(handled, '/new-order'), 5, 'one, and one for each eight')
    await turn()
    assert.equal(count(handled, '/new-order'), 6)
    while (count(handled, '/new-order') < 10) await turn()
    letGo()
    const statuses = (await Promise.all(replies)).map(({ status }) => status)
    assert.ok(statuses.every((status) => status === 200))
  })

  test('nobody waits once the queue is gone', async () => {
    const { ask, turn, handled, letGo } = aQueue()
    const waiting = [...Array.from({ length: 16 }, () => ask('/order/1')), ask('/new-order'), ask('/new-order')]
    await turn()
    await turn()
    assert.equal(count(handled, '/new-order'), 2)
    letGo()
    await Promise.all(waiting)
    const prompt = ask('/new-order')
    assert.equal(count(handled, '/new-order'), 3)
    letGo()
    await prompt
  })
})
