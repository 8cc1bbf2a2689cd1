/**
 * A hundred issuances at once, and then hundreds of validations in flight: http-01 against a server that holds its answers, on two threads.
 *
 * The question: what do they cost in memory, and what do other clients notice? The figures are printed; the bounds that are
 * asserted are wide, for a machine that does other things as well (docs/benchmarks.md has a calm one). `CHANCERY_NIGHTLY=1` has two
 * thousand in flight.
 */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createPersistentClient } from '../../bench/client/persistent-client.ts'
import { JOSE, locationOf, registeredClient, send } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { checkBooks } from '../support/books.ts'
import { type HeldResponder, startHeldResponder } from '../support/clients/held-responder.ts'
import { startHttp01Responder } from '../support/clients/http01-responder.ts'
import { WAIT_MS } from '../support/patience.ts'
import { until } from '../support/until.ts'
import { residentMib } from './figures.ts'

const IS_NIGHTLY = process.env['CHANCERY_NIGHTLY'] === '1'
const ISSUED = { accounts: 8, orders: IS_NIGHTLY ? 25 : 13 }
const ACCOUNTS = 10
const ORDERS = 2
const NAMES = IS_NIGHTLY ? 100 : 30
const TOTAL = ACCOUNTS * ORDERS * NAMES
const MEASURE_MS = 2_500
const READERS = 2

const MAX_GROWTH_MIB = IS_NIGHTLY ? 300 : 90
const MAX_SLOWDOWN = 5
/** A machine with other work gives a thread its turn so much later; 50 ms on a quiet one. */
const SCHEDULING_MS = WAIT_MS / 1200
/** Far above what it takes; the attempts themselves have as long. */
const STORM_MS = 5 * WAIT_MS
/** A machine with other work is seldom busy with it all the time. */
const WINDOW_MS = 1_000

interface Figures {
  requests: number
  p50: number
  /** The median of the calmest second. */
  calmP50: number
  p99: number
  max: number
}

describe('validation storm', () => {
  const { service, client: reader } = acmeScene({
    config: { challenges: { http01: { timeout_seconds: Math.ceil(STORM_MS / 1000) } } },
  })
  let responder: HeldResponder
  let orderUrl: string
  before(async () => {
    orderUrl = locationOf(await reader.newOrder(['reader.test']))
  })
  after(() => responder?.close())

  async function triggerAll(account: number): Promise<void> {
    const client = await registeredClient(service.directoryUrl)
    for (let i = 0; i < ORDERS; i++) {
      const order = await client.newOrder(Array.from({ length: NAMES }, (_, n) => `storm-${account}-${i}-${n}.test`))
      assert.equal(order.status, 201, order.text)
      for (const authorization of order.json.authorizations) {
        const { challenges } = (await client.post(authorization)).json
        const { url, token } = challenges.find(({ type }: { type: string }) => type === 'http-01')
        responder.answer(token, `${token}.${client.key.thumbprint}`)
        assert.equal((await client.post(url, {})).json.status, 'processing')
      }
    }
  }

  /** Requests one after the other on a few connections, until `isOver`; only the requests are timed, not the signing. */
  async function measure(request: () => Promise<() => Promise<unknown>>, isOver: () => boolean): Promise<Figures> {
    const times: number[] = []
    const windows: number[][] = []
    const beganAt = performance.now()
    const run = async () => {
      while (!isOver()) {
        const sendIt = await request()
        const startedAt = performance.now()
        await sendIt()
        const took = performance.now() - startedAt
        times.push(took)
        const window = Math.floor((startedAt - beganAt) / WINDOW_MS)
        windows[window] = [...(windows[window] ?? []), took]
      }
    }
    await Promise.all(Array.from({ length: READERS }, run))
    const at = (share: number) => quantile(times, share)
    // The last one is short.
    const calmP50 = Math.min(at(0.5), ...windows.slice(0, -1).flatMap((some) => (some ? [quantile(some, 0.5)] : [])))
    return { requests: times.length, p50: at(0.5), calmP50, p99: at(0.99), max: at(0.999999) }
  }

  async function measureBoth(isOver: () => boolean) {
    const nonces: string[] = []
    const [directory, signedRead] = await Promise.all([
      measure(async () => () => send({ method: 'GET', url: service.directoryUrl }), isOver),
      measure(async () => {
        const nonce = nonces.pop() ?? (await reader.nonce())
        const body = JSON.stringify(await reader.jws(orderUrl, { header: { nonce } }))
        return async () => {
          const answer = await send({ url: orderUrl, headers: JOSE, body })
          assert.equal(answer.status, 200, answer.text)
          nonces.push(String(answer.headers['replay-nonce']))
        }
      }, isOver),
    ])
    return { directory, signedRead }
  }

  function within(milliseconds: number): () => boolean {
    const end = performance.now() + milliseconds
    return () => performance.now() > end
  }

  async function validated(): Promise<number> {
    const text = await (await fetch(`${service.baseUrl}/metrics`)).text()
    return Number(/^service_challenges_validated_total\{result="success"\} (\d+)/m.exec(text)?.[1] ?? 0)
  }

  // RFC 8555 §7.1: account, order, challenge, finalize, download.
  test(`${ISSUED.accounts * ISSUED.orders} orders at once all end in one certificate each, recorded and signed once`, async () => {
    const { directoryUrl, http01Port, database, folder } = service
    const answering = await startHttp01Responder(http01Port)
    const clients = Array.from({ length: ISSUED.accounts }, () =>
      createPersistentClient({ directoryUrl, timeoutMs: 4 * WAIT_MS }),
    )
    await Promise.all(clients.map((client) => client.register()))
    const issuances = clients.flatMap((client, account) =>
      Array.from({ length: ISSUED.orders }, (_, i) => {
        const name = `load-${account}-${i}.test`
        answering.serve(name, client.thumbprint)
        return client.obtain(name)
      }),
    )
    const held = await Promise.all(issuances)
    await answering.close()

    for (const { complaints, invalidOrders } of clients) assert.deepEqual([complaints, invalidOrders], [[], []])
    assert.equal(new Set(held.map(({ leaf }) => leaf.serialNumber)).size, held.length)
    for (const { name, leaf } of held) assert.equal(leaf.subjectAltName, `DNS:${name}`)
    const { connection } = database
    const { orders, certificates, signatures } = await checkBooks({ connection, folder, held })
    const count = issuances.length
    assert.deepEqual([orders['valid'], certificates, signatures], [count, count, count])
  })

  test(`${TOTAL} in flight cost bounded memory, and other clients do not notice`, async () => {
    responder = await startHeldResponder(service.http01Port)
    const before = await validated()
    await measureBoth(within(1_000)) // warm
    const rss: Record<string, number> = { idle: residentMib(service.process.pid) }
    const idle = await measureBoth(within(MEASURE_MS))

    const triggeredAt = performance.now()
    await Promise.all(Array.from({ length: ACCOUNTS }, (_, account) => triggerAll(account)))
    await until(`${TOTAL} requests are held`, () => responder.held() === TOTAL, STORM_MS)
    rss['held'] = residentMib(service.process.pid)
    console.log(`${TOTAL} triggered and held after ${Math.round(performance.now() - triggeredAt)} ms`)
    const held = await measureBoth(within(MEASURE_MS))
    rss['heldAfterReads'] = residentMib(service.process.pid)

    const releasedAt = performance.now()
    responder.hold(false)
    let done = false
    const draining = measureBoth(() => done)
    await until('all are valid', async () => (await validated()) - before >= TOTAL, STORM_MS)
    done = true
    const drained = await draining
    rss['after'] = residentMib(service.process.pid)
    console.log(`all valid ${Math.round(performance.now() - releasedAt)} ms after the release`)

    console.table({ 'RSS MiB': rss })
    for (const [name, figures] of Object.entries({ idle, held, drained }))
      console.log(
        `${name}: directory ${JSON.stringify(figures.directory)}, signed read ${JSON.stringify(figures.signedRead)}`,
      )

    assert.equal((await validated()) - before, TOTAL)
    assert.deepEqual(new Set([...responder.seen.values()].map(({ requests }) => requests)), new Set([1]))
    assert.ok((rss['held'] ?? 0) - (rss['idle'] ?? 0) < MAX_GROWTH_MIB)
    // Only what no busy machine explains: in the calmest second the median is of the order that it had before.
    for (const kind of ['directory', 'signedRead'] as const)
      assert.ok(held[kind].calmP50 < MAX_SLOWDOWN * idle[kind].p50 + SCHEDULING_MS, `${kind}: ${held[kind].calmP50} ms`)
  })
})

function quantile(times: readonly number[], share: number): number {
  const sorted = times.toSorted((a, b) => a - b)
  return Math.round((sorted[Math.floor(sorted.length * share)] ?? 0) * 100) / 100
}
