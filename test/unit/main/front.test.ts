/** What a front does around ACME, which is a stand-in here that refuses everything. */

import assert from 'node:assert/strict'
import { describe, mock, type TestContext, test } from 'node:test'
import { pino } from 'pino'
import type { AcmeApplication } from '../../../src/acme/application.ts'
import { AdminGate } from '../../../src/admin/admin-gate.ts'
import { ENDPOINTS } from '../../../src/admin/endpoints.ts'
import { createDeadlines } from '../../../src/front/exchange.ts'
import { Front } from '../../../src/front/front.ts'
import type { HttpReply, HttpRequest } from '../../../src/http/http-message.ts'
import { createMetrics } from '../../../src/ops/metrics.ts'
import { OverloadControl } from '../../../src/overload/overload-control.ts'

const ADDRESS = '192.0.2.1'
const REFUSED: HttpReply = { status: 400, headers: [], body: 'refused' }
const nothing = () => undefined

function aFront(
  capacity: number,
  handle: AcmeApplication['handle'] = () => Promise.resolve(REFUSED),
  log = pino({ level: 'silent' }),
  admin?: AdminGate,
) {
  const acme: AcmeApplication = {
    match: (path) => ({ resource: path === '/new-order' ? 'newOrder' : 'order', id: '', url: '' }),
    handle,
    needsNoStatement: () => false,
    problem: ({ status }) => ({ ...REFUSED, status }),
    notFound: () => ({ ...REFUSED, status: 404 }),
    unmatched: () => ({ ...REFUSED, status: 404 }),
  }
  const overload = new OverloadControl<HttpReply>({
    enabled: true,
    targetDelayMs: 500,
    maxConnections: 1000,
    maxDelayedReplies: capacity,
    isTrustedProxy: () => false,
    events: {
      admission: { begun: nothing, ended: nothing, turnedAway: nothing },
      budget: { exhausted: nothing, refused: nothing },
      connectionsRefused: nothing,
    },
  })
  const front = new Front({
    acme,
    flags: { admission: () => 'none' },
    overload,
    deadlines: createDeadlines(0.05),
    metrics: createMetrics(),
    log,
    version: '0',
    proxy: { enabled: false, trustedProxies: [], forwardedForHeader: '', forwardedProtoHeader: '' },
    scheme: 'http',
    events: { answered: nothing, refusedByGuard: nothing },
    errors: { isBusy: () => false, databaseTrouble: () => undefined },
    externalPath: '',
    securityHeaders: { http: [], https: [] },
    metricsPath: () => '/metrics',
    health: () => assert.fail('nobody asks'),
    crl: undefined,
    roots: undefined,
    admin,
    metricsGuard: undefined,
    exposition: () => assert.fail('nobody asks'),
  })
  return { front, overload, admission: overload.admission }
}

function aRequest(path = '/new-order', peerAddress = ADDRESS, bodyBytes = 0) {
  const dropBody = mock.fn()
  const http: HttpRequest & { isOver: boolean } = {
    method: 'POST',
    path,
    query: '',
    body: Buffer.alloc(bodyBytes),
    peerAddress,
    header: nothing,
    isOver: false,
    dropBody,
  }
  return { http, dropBody }
}

/** A budget is paid back with time: on a slow machine as fast as it is used. */
function stopClock({ mock }: TestContext): void {
  const now = performance.now()
  mock.method(performance, 'now', () => now)
}

/** @returns passes 50 ms of a thread that has been busy for long */
function overloaded(admission: ReturnType<typeof aFront>['admission']) {
  let now = performance.now()
  for (let i = 0; i < 50; i++) admission.began('order')
  const tick = () => {
    now += 50
    admission.tick(now, 0, 1)
  }
  for (let i = 0; i < 60; i++) tick()
  return tick
}

describe('the line of a request', () => {
  for (const { level, written } of [
    { level: 'info', written: ['info 200', 'warn 404', 'error 500'] },
    { level: 'warn', written: ['warn 404', 'error 500'] },
    { level: 'error', written: ['error 500'] },
    { level: 'fatal', written: [] },
  ])
    test(`is as severe as its status: at level ${level}, ${written.join(', ') || 'none'}`, async () => {
      const lines: string[] = []
      const log = pino(
        { level, formatters: { level: (label) => ({ level: label }) } },
        { write: (line) => void lines.push(line) },
      )
      const statuses = [200, 404, 500]
      const { front } = aFront(2, async () => ({ ...REFUSED, status: statuses.shift() as number }), log)
      while (statuses.length > 0) await front.handle(aRequest().http)
      assert.deepEqual(
        lines.map((line) => JSON.parse(line) as { level: string; status: number }).map((l) => `${l.level} ${l.status}`),
        written,
      )
    })
})

describe('an answer to an address that has used up its budget', () => {
  test('waits, and does not keep what it answers', async () => {
    const { front, overload } = aFront(2)
    overload.budget.charge(ADDRESS, 1000)
    const { http, dropBody } = aRequest()
    const reply = front.handle(http)
    while (overload.delayedReplies === 0) await new Promise(setImmediate)
    assert.equal(dropBody.mock.callCount(), 1)
    overload.release()
    assert.deepEqual(await reply, REFUSED)
  })

  test('ends the connection where too many wait already', async () => {
    const { front, overload } = aFront(0)
    overload.budget.charge(ADDRESS, 1000)
    assert.deepEqual(await front.handle(aRequest().http), { ...REFUSED, closes: true })
  })

  test('is prompt for others, whose body stays until the reply', async () => {
    const { front, overload } = aFront(2)
    overload.budget.charge('192.0.2.2', 1000)
    const { http, dropBody } = aRequest()
    assert.deepEqual(await front.handle(http), REFUSED)
    assert.equal(dropBody.mock.callCount(), 0)
  })
})

for (const status of [401, 403])
  test(`refusals with ${status} are charged to their address at a tenth of a signature`, async (context) => {
    stopClock(context)
    const { front, overload } = aFront(0, () => Promise.resolve({ ...REFUSED, status }))
    for (let i = 0; i < 900; i++) await front.handle(aRequest().http)
    assert.equal(overload.budget.isExhausted(ADDRESS), false)
    for (let i = 0; i < 1000 && !overload.budget.isExhausted(ADDRESS); i++) await front.handle(aRequest().http)
    assert.equal(overload.budget.isExhausted(ADDRESS), true)
  })

test('a refusal is charged for the body that was read: seven of 60 KB cost like a thousand small ones', async (context) => {
  stopClock(context)
  const { front, overload } = aFront(0)
  let refused = 0
  for (; !overload.budget.isExhausted(ADDRESS); refused++)
    await front.handle(aRequest('/new-order', ADDRESS, 60_000).http)
  assert.equal(refused, 7)
})

describe('a flood of probes', () => {
  for (const path of ['/livez', '/metrics'])
    test(`${path}: it is refused on an overloaded thread, and an ordinary prober is answered`, () => {
      const { front, admission } = aFront(1000)
      const tick = overloaded(admission)
      const asked = (from: string) => front.admit(aRequest(path, from).http)
      for (let i = 0; i < 1000; i++) asked(ADDRESS)
      for (let i = 0; i < 80; i++) assert.equal(asked(`192.0.2.${2 + (i % 8)}`), undefined)
      tick()
      assert.notEqual(asked(ADDRESS), undefined)
      assert.equal(asked('192.0.2.2'), undefined)
    })
})

describe('the Admin API on an overloaded thread', () => {
  function anOverloadedFront(answered = 200) {
    const port = {
      request: async () => ({ status: answered, headers: [], body: '', resource: 'admin' }),
      next: () => assert.fail('nothing is streamed'),
      cancel: nothing,
    }
    const gate = new AdminGate({ port, basePath: '/api', externalPath: '', maxBodyBytes: 1 })
    const { front, admission, overload } = aFront(10_000, undefined, undefined, gate)
    const tick = overloaded(admission)
    const ask = (path: string, from = ADDRESS) => {
      const { http } = aRequest(path, from)
      return { admitted: front.admit(http) === undefined, http }
    }
    return { front, overload, tick, ask, gate }
  }

  test('strangers who ask for what needs no token are refused like others, the heavy ones first', () => {
    const { tick, ask } = anOverloadedFront()
    for (let i = 0; i < 1000; i++) ask('/api/console/')
    for (let i = 0; i < 80; i++) ask('/api/console/', `192.0.2.${2 + (i % 8)}`)
    tick()
    for (const path of ['/api', '/api/', '/api/console/main.js', '/api/openapi.json', '/api/%6Fpenapi.json/'])
      assert.equal(ask(path).admitted, false, path)
    assert.equal(ask('/api/console/', '192.0.2.2').admitted, true)
    for (const path of ['/api/auth/login', '/api/users']) assert.equal(ask(path).admitted, true, path)
  })

  test('of what needs no token, only the ways to sign in are for administrators', () => {
    const { gate } = anOverloadedFront()
    for (const { id, path, roles } of ENDPOINTS)
      assert.equal(gate.isAdministrators(`/api${path}`), roles !== 'none' || path.startsWith('/auth/'), id)
  })

  for (const status of [401, 429])
    test(`an address whose logins are refused with ${status} again and again is treated as any other`, async (context) => {
      stopClock(context)
      const { front, overload, ask } = anOverloadedFront(status)
      for (let i = 0; i < 2000 && !overload.budget.isExhausted(ADDRESS); i++) {
        void front.handle(ask('/api/auth/login').http)
        await new Promise(setImmediate)
      }
      assert.equal(overload.budget.isExhausted(ADDRESS), true)
      overload.release()
    })
})

describe('where requests queue', () => {
  const ORDER = '/order/1'
  const NEW_ORDER = '/new-order'
  const HEAVY = '198.51.100.1'

  /** A front that keeps its requests until they are let go, and remembers from where which came, in their order. */
  function aQueue() {
    const handled: { path: string; address: string }[] = []
    const release: (() => void)[] = []
    const { front, admission } = aFront(2, ({ path, peerAddress }) => {
      handled.push({ path, address: peerAddress })
      return new Promise((resolve) => release.push(() => resolve({ status: 200, headers: [], body: '' })))
    })
    let now = performance.now()
    const tick = (utilization = 0) => {
      now += 50
      admission.tick(now, 0, utilization)
    }
    tick()
    const ask = (path: string, address = ADDRESS) => Promise.resolve(front.handle(aRequest(path, address).http))
    const begun = () => handled.filter(({ path }) => path === NEW_ORDER).map(({ address }) => address)
    const letGo = () => {
      for (const done of release.splice(0)) done()
    }
    const many = (count: number, path: string, address = ADDRESS) =>
      Array.from({ length: count }, () => ask(path, address))
    return { front, admission, tick, ask, many, handled, begun, letGo }
  }
  const turn = () => new Promise(setImmediate)

  test('what begins something new is handled after what goes on, and in its measure', async () => {
    const { many, handled, begun, letGo } = aQueue()
    const replies = [...many(16, ORDER), ...many(10, NEW_ORDER), ...many(16, ORDER)]
    assert.deepEqual([handled.length, begun().length], [32, 0])
    await turn()
    assert.equal(begun().length, 3, 'one, and one for each eight since the first of them came')
    await turn()
    assert.equal(begun().length, 4)
    while (begun().length < 10) await turn()
    letGo()
    const statuses = (await Promise.all(replies)).map(({ status }) => status)
    assert.ok(statuses.every((status) => status === 200))
  })

  test('what was handled in calm lets nobody in', async () => {
    const { many, begun, letGo } = aQueue()
    for (let i = 0; i < 100; i++) {
      const calm = many(10, ORDER)
      letGo()
      await Promise.all(calm)
    }
    void many(16, ORDER)
    void many(100, NEW_ORDER)
    await turn()
    assert.equal(begun().length, 1)
    while (begun().length < 100) await turn()
    letGo()
  })

  test('nobody waits once the queue is gone', async () => {
    const { ask, many, begun, letGo } = aQueue()
    const waiting = [...many(16, ORDER), ask(NEW_ORDER), ask(NEW_ORDER)]
    await turn()
    await turn()
    assert.equal(begun().length, 2)
    letGo()
    await Promise.all(waiting)
    void ask(NEW_ORDER)
    assert.equal(begun().length, 3)
    letGo()
  })

  test('first come, first served, so that an address that several share waits no longer than others', async () => {
    const { many, ask, begun, letGo } = aQueue()
    void many(16, ORDER)
    void many(5, NEW_ORDER, '192.0.2.7')
    for (let i = 0; i < 5; i++) void ask(NEW_ORDER, `203.0.113.${i}`)
    while (begun().length < 10) await turn()
    assert.deepEqual(begun().slice(0, 5), new Array(5).fill('192.0.2.7'))
    letGo()
  })

  test('an address that takes far more than others does not overtake them', async () => {
    const { admission, tick, many, ask, begun, letGo } = aQueue()
    for (let i = 0; i < 100; i++) admission.count(HEAVY)
    for (let i = 0; i < 10; i++) admission.count(`192.0.2.${i}`)
    tick(1)
    assert.ok(admission.isServedLast(HEAVY))
    void many(16, ORDER)
    void many(4, NEW_ORDER, HEAVY)
    for (let i = 0; i < 4; i++) void ask(NEW_ORDER, `192.0.2.${i}`)
    while (begun().length < 8) await turn()
    const places = begun().map((address, place) => (address === HEAVY ? place : -1))
    assert.ok(Math.min(...places.filter((place) => place >= 0)) > 0, begun().join(' '))
    letGo()
  })

  test('who has gone away meanwhile costs nothing, and makes room', async () => {
    const { front, admission, many, begun, letGo } = aQueue()
    void many(16, ORDER)
    const gone = aRequest(NEW_ORDER).http
    const reply = front.handle(gone)
    gone.isOver = true
    await reply
    assert.deepEqual(begun(), [])
    letGo()
    while (admission.hasQueue) await turn()
  })
})

describe('server.timeout', () => {
  test('ends the wait of a client whose request takes longer, with 503', async () => {
    const { front } = aFront(2, () => new Promise(() => {}))
    // The look for such requests keeps no process alive.
    const alive = setInterval(nothing, 1000)
    try {
      assert.equal((await front.handle(aRequest('/order').http)).status, 503)
    } finally {
      clearInterval(alive)
    }
  })

  test('leaves work that fails later to itself', async () => {
    let reject: (error: Error) => void = nothing
    const promise = new Promise<never>((_, fail) => {
      reject = fail
    })
    const alive = setInterval(nothing, 1000)
    try {
      await assert.rejects(createDeadlines(0.05).within(promise, performance.now()), /longer than 0.05 seconds/)
      reject(new Error('too late'))
      await new Promise(setImmediate)
    } finally {
      clearInterval(alive)
    }
  })

  test('gives back what comes in time', async () => {
    const deadlines = createDeadlines(60)
    assert.equal(await deadlines.within(Promise.resolve('in time'), performance.now()), 'in time')
    await assert.rejects(deadlines.within(Promise.reject(new Error('as it was')), performance.now()), /as it was/)
  })
})
