/**
 * More than can be done: new orders on hundreds of connections against one front thread, and an order under way beside them.
 *
 * The figures are printed; asserted is what must hold on any machine: every answer is an order or a 503 that says when to come
 * back, what was begun goes on, memory stays where it is, and soon after the flood everything is as before.
 */

import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { JOSE, send } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { WAIT_MS } from '../support/patience.ts'
import { until } from '../support/until.ts'
import { median, residentMib } from './figures.ts'

const CONNECTIONS = 200
const FLOOD_MS = 2_500
const MAX_FLOOD_MS = WAIT_MS
/** Far below what hundreds of orders at a time take, on any machine. */
const TARGET_MS = 30
/** Requests of the order under way, so that one refusal more or less decides nothing. */
const ENOUGH_ONGOING = 20
const MAX_GROWTH_MIB = 200
/** Refusals, so that the times they tell are not all the same by chance. */
const ENOUGH_REFUSED = 30
/** Without a refusal for so long an overload is over in the log, and the next one another. */
const EPISODE_END_MS = 2_000

interface Reply {
  status: number
  retryAfter: string | undefined
  type: string | undefined
  nonce: string | undefined
  ms: number
}

describe('overload', () => {
  const { service, client } = acmeScene({
    config: { server: { workers: 1, overload: { enabled: true, target_delay_ms: TARGET_MS } } },
  })

  async function order(agent: Agent, nonce: string, name: string): Promise<Reply> {
    const url = client.directory['newOrder'] as string
    const payload = { identifiers: [{ type: 'dns', value: name }] }
    const body = JSON.stringify(await client.jws(url, { payload, header: { nonce } }))
    const began = performance.now()
    return await new Promise<Reply>((resolve, reject) => {
      const outgoing = request(url, { method: 'POST', agent, headers: JOSE }, (incoming) => {
        const { headers, statusCode: status = 0 } = incoming
        incoming.resume().on('end', () =>
          resolve({
            status,
            retryAfter: headers['retry-after'],
            type: headers['content-type'],
            nonce: headers['replay-nonce'] as string | undefined,
            ms: performance.now() - began,
          }),
        )
      })
      outgoing.on('error', reject).end(body)
    })
  }

  /** A closed loop on every connection; each reply brings the nonce of the next request, a refusal as well. */
  async function flood(isEnough: () => boolean): Promise<Reply[]> {
    const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS })
    const nonces = await Promise.all(Array.from({ length: CONNECTIONS }, () => client.nonce()))
    const replies: Reply[] = []
    const began = performance.now()
    let [made, refused] = [0, 0]
    // A machine with other things to do takes longer until there is something of both kinds.
    const isBoth = () => made > 0 && refused >= ENOUGH_REFUSED
    const goesOn = (elapsed: number) => elapsed < FLOOD_MS || (!(isBoth() && isEnough()) && elapsed < MAX_FLOOD_MS)
    let number = 0
    await Promise.all(
      nonces.map(async (first) => {
        for (let nonce = first; goesOn(performance.now() - began); ) {
          const reply = await order(agent, nonce, `flood-${number++}.test`)
          replies.push(reply)
          if (reply.status === 503) refused++
          else made++
          nonce = reply.nonce ?? (await client.nonce())
        }
      }),
    )
    agent.destroy()
    return replies
  }

  async function metric(name: string): Promise<number> {
    const { text } = await send({ method: 'GET', url: `${service.baseUrl}/metrics` })
    const line = text.split('\n').find((one) => one.startsWith(name))
    return Number(line?.split(' ').at(-1) ?? 0)
  }

  test('new orders get 503 early, orders under way go on, and it is over with the flood', async (t) => {
    const begun = await client.newOrder(['begun.test'])
    const authorization = begun.json.authorizations[0] as string
    const memoryBefore = residentMib(service.process.pid)

    const ongoing = { done: 0, refused: 0 }
    let isOver = false
    const floodedAt = performance.now()
    const flooding = flood(() => ongoing.done + ongoing.refused >= ENOUGH_ONGOING).finally(() => {
      isOver = true
    })
    await sleep(1000)
    for (; !isOver; await sleep(20)) {
      const { status } = await client.post(authorization)
      if (status === 200) ongoing.done++
      else if (status === 503) ongoing.refused++
      else assert.fail(`an order under way got ${status}`)
    }
    const replies = await flooding
    const endedAt = performance.now()

    await until('new orders are made again', async () => (await client.newOrder(['after.test'])).status === 201)
    const recoveredMs = performance.now() - endedAt

    const refused = replies.filter(({ status }) => status === 503)
    const made = replies.filter(({ status }) => status === 201)
    assert.equal(refused.length + made.length, replies.length, 'an answer was neither an order nor a refusal')
    assert.ok(made.length > 0 && refused.length > 0)
    for (const { retryAfter, type, nonce } of refused) {
      assert.match(String(retryAfter), /^[1-9]\d?$/)
      assert.equal(type, 'application/problem+json')
      assert.ok(nonce, 'a refusal brought no nonce')
    }
    assert.ok(new Set(refused.map(({ retryAfter }) => retryAfter)).size > 1, 'all were told the same time')
    assert.ok(ongoing.done > ongoing.refused, `${ongoing.refused} requests of an order under way were refused`)
    const shed = () => metric('service_requests_shed_total{reason="delay"}')
    await until('all refusals are counted', async () => (await shed()) >= refused.length)

    const growth = residentMib(service.process.pid) - memoryBefore
    t.diagnostic(
      JSON.stringify({
        made: made.length,
        refused: refused.length,
        ongoing,
        recoveredMs: Math.round(recoveredMs),
        refusalP50Ms: median(refused.map(({ ms }) => ms)),
        growthMib: Math.round(growth),
      }),
    )
    assert.ok(growth < MAX_GROWTH_MIB, `memory grew by ${growth} MiB`)

    // On a busy machine a flood is several episodes, and all but the last are over by now.
    await until('no thread is overloaded', async () => (await metric('service_overloaded_threads')) === 0)
    const linesOf = (wanted: string) => service.log.filter(({ event }) => event === wanted)
    await until('every episode has its end in the log', () => {
      return (
        linesOf('overload_began').length > 0 && linesOf('overload_ended').length === linesOf('overload_began').length
      )
    })
    const lines = linesOf('overload_began')
    const mostLines = 1 + Math.ceil((endedAt + recoveredMs - floodedAt) / EPISODE_END_MS)
    assert.ok(lines.length >= 1 && lines.length <= mostLines, `${lines.length} lines for one overload`)
  })
})
