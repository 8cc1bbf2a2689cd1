/**
 * What do others notice when one account finalizes one order, whose key is blocked, over and over?
 *
 * `node compiled/test/load/one-order.js [SECONDS] [A_SECOND]` starts a service of its own without rate limits (PostgreSQL without fsync, one
 * front thread) and signs the requests beforehand: the same CSR each time, then 50 CSRs in turn. They go out at a steady rate,
 * answered or not, while another account finalizes its ready orders one after the other. Printed are the answers of both by status
 * and the times of the other account; it ends with 1 when one of those failed or took a second.
 */

import { createHash } from 'node:crypto'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import {
  type AcmeClient,
  type Answer,
  closeConnections,
  csrFor,
  JOSE,
  type Responder,
  registeredClient,
  startResponder,
} from '../support/acme-client.ts'
import { P384_KEY } from '../support/keys.ts'
import { startTestService } from '../support/service.ts'

const SECONDS = Number(process.argv[2] ?? 8)
const RATE = Number(process.argv[3] ?? 1150)
const ORDERS = 30
const MOST_MS = 1000
const TICK_MS = 20

const agent = new Agent({ keepAlive: true, maxSockets: 6000 })

function post(url: string, body: string): Promise<number> {
  return new Promise((resolve) => {
    const headers = { ...JOSE, 'Content-Length': Buffer.byteLength(body) }
    const outgoing = request(url, { method: 'POST', agent, headers }, (incoming) => {
      incoming.resume().on('end', () => resolve(incoming.statusCode ?? 0))
    })
    outgoing.on('error', () => resolve(0)).end(body)
  })
}

const count = (statuses: readonly number[]) =>
  [...new Set(statuses)].map((one) => `${statuses.filter((status) => status === one).length} × ${one}`).join(', ')

async function signed(client: AcmeClient, url: string, csrs: readonly string[]): Promise<string[]> {
  const bodies: string[] = []
  while (bodies.length < RATE * SECONDS) {
    const part = Array.from({ length: 16 }, (_, i) => client.jws(url, { payload: { csr: csrs[i % csrs.length] } }))
    bodies.push(...(await Promise.all(part)).map((jws) => JSON.stringify(jws)))
  }
  return bodies
}

async function attack(url: string, bodies: string[]): Promise<number[]> {
  const answers: Promise<number>[] = []
  const startedAt = performance.now()
  for (let sent = 0; sent < bodies.length; await sleep(TICK_MS)) {
    const due = Math.min(bodies.length, ((performance.now() - startedAt) * RATE) / 1000)
    for (; sent < due; sent++) answers.push(post(url, bodies[sent] as string))
  }
  return Promise.all(answers)
}

async function readyOrder(client: AcmeClient, name: string, responder: Responder): Promise<Answer> {
  const order = await client.newOrder([name])
  await client.authorize(order, responder)
  return order
}

const service = await startTestService({ config: { server: { workers: 1 } } })
const responder = await startResponder(service.http01Port)
try {
  const database = new pg.Client(service.database.connection)
  await database.connect()
  const blocked = createHash('sha256').update(P384_KEY.spki).digest()
  await database.query('INSERT INTO blocked_keys (spki_sha256) VALUES ($1)', [blocked])
  await database.end()
  for (const different of [1, 50]) {
    const [attacker, other] = [
      await registeredClient(service.directoryUrl),
      await registeredClient(service.directoryUrl),
    ]
    const target = await readyOrder(attacker, 'blocked.test', responder)
    const csrs = await Promise.all(Array.from({ length: different }, () => csrFor(['blocked.test'], P384_KEY)))
    const bodies = await signed(attacker, target.json.finalize, csrs)
    const orders = []
    for (let i = 0; i < ORDERS; i++) {
      const name = `${different}-${i}.test`
      const { finalize } = (await readyOrder(other, name, responder)).json
      orders.push({ url: finalize as string, csr: await csrFor([name]) })
    }

    const attacking = attack(target.json.finalize, bodies)
    const end = performance.now() + SECONDS * 1000
    await sleep(2000)
    const [times, statuses]: [number[], number[]] = [[], []]
    for (const { url, csr } of orders) {
      if (performance.now() > end) break
      const startedAt = performance.now()
      statuses.push((await other.post(url, { csr })).status)
      times.push(performance.now() - startedAt)
      await sleep(50)
    }
    const answers = await attacking
    times.sort((a, b) => a - b)
    const [median, worst] = [times[times.length >> 1] ?? 0, times.at(-1) ?? 0]
    if (worst > MOST_MS || statuses.some((status) => status !== 200)) process.exitCode = 1
    console.log(`${RATE} finalizes a second of one order, ${different} different: ${count(answers)}`)
    console.log(
      `  of another account: ${count(statuses)}; median ${median.toFixed(0)} ms, worst ${worst.toFixed(0)} ms`,
    )
  }
} finally {
  agent.destroy()
  closeConnections()
  await responder.close()
  await service.dispose()
}
