/**
 * What does an address that sends large payloads, which are all refused, cost the others?
 *
 * `node compiled/test/load/refused-payloads.js` starts a service with one front thread. In each case a thread at another address of the
 * loopback network sends ten such requests a second on four connections, and a good client reads its account beside it. Printed are the
 * client's median and worst wait, and what the attacker was answered. It ends with 1 when a wait was longer than 100 ms.
 */

import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { type Answer, createAcmeClient, JOSE, type RawRequest, registeredClient } from '../support/acme-client.ts'
import { startTestService } from '../support/service.ts'

interface Attack {
  title: string
  resource: 'newOrder' | 'newAccount'
  member: string
  element: string
  count: number
}

const MOST_MS = 100
const ATTACKS: readonly Attack[] = [
  {
    title: 'new-order, 15,000 empty objects',
    resource: 'newOrder',
    member: 'identifiers',
    element: '{}',
    count: 15_000,
  },
  { title: 'new-order, 1,000 empty objects', resource: 'newOrder', member: 'identifiers', element: '{}', count: 1_000 },
  { title: 'new-order, nested arrays', resource: 'newOrder', member: 'identifiers', element: '[[[[]]]]', count: 5_000 },
  { title: 'new-account, 23,000 numbers', resource: 'newAccount', member: 'contact', element: '1', count: 23_000 },
]
const ATTACKER = '127.0.0.2'
const CONNECTIONS = 4
const REQUESTS_A_SECOND = 10
const SECONDS = 10
const PAUSE_MS = 5

if (isMainThread) await main()
else await attack(workerData as Attack & { directoryUrl: string })

async function main(): Promise<void> {
  const rateLimits = { enabled: false }
  const service = await startTestService({
    config: { server: { workers: 1, overload: { enabled: true } }, security: { rate_limits: rateLimits } },
  })
  try {
    const client = await registeredClient(service.directoryUrl)
    const waits = async (until: Promise<unknown>) => {
      const seen: number[] = []
      let isOver = false
      void until.then(() => {
        isOver = true
      })
      while (!isOver) {
        const startedAt = performance.now()
        const { status, text } = await client.post(client.kid)
        if (status !== 200) console.log(status, text)
        seen.push(performance.now() - startedAt)
        await sleep(PAUSE_MS)
      }
      return seen.sort((a, b) => a - b)
    }
    await waits(sleep(2_000))
    report('nobody beside it', await waits(sleep(SECONDS * 1_000)), {})
    for (const one of ATTACKS) {
      const attacker = new Worker(new URL(import.meta.url), {
        workerData: { ...one, directoryUrl: service.directoryUrl },
      })
      const answers = new Promise<Record<string, number>>((resolve, reject) =>
        attacker.once('message', resolve).once('error', reject),
      )
      const seen = await waits(answers)
      report(one.title, seen, await answers)
      if ((seen.at(-1) ?? 0) > MOST_MS) process.exitCode = 1
      await sleep(30_000)
    }
  } finally {
    await service.dispose()
  }
}

function report(title: string, seen: readonly number[], answers: Record<string, number>): void {
  const shown = (at: number) =>
    (seen[Math.min(seen.length - 1, Math.floor(seen.length * at))] ?? 0).toFixed(1).padStart(8)
  console.log(`${title.padEnd(34)} median ${shown(0.5)} ms, worst ${shown(1)} ms; answers ${JSON.stringify(answers)}`)
}

async function attack({ directoryUrl, resource, member, element, count }: Attack & { directoryUrl: string }) {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS, localAddress: ATTACKER } as object)
  const payload = `{"${member}":[${Array(count).fill(element).join()}]}`
  const client = await createAcmeClient(directoryUrl, undefined, (one) => sendBy(agent, one))
  if (resource === 'newOrder') await client.newAccount()
  const answers: Record<string, number> = {}
  const fire = async () => {
    const url = client.directory[resource] as string
    const jws = await client.jws(url, { payload })
    const { status } = await sendBy(agent, { url, headers: JOSE, body: JSON.stringify(jws) })
    answers[status] = (answers[status] ?? 0) + 1
  }
  const sent: Promise<void>[] = []
  for (let i = 0; i < SECONDS * REQUESTS_A_SECOND; i++) {
    sent.push(fire().catch(() => undefined))
    await sleep(1_000 / REQUESTS_A_SECOND)
  }
  parentPort?.postMessage(answers)
  await Promise.race([Promise.all(sent), sleep(1_000)])
  process.exit()
}

function sendBy(agent: Agent, { method = 'POST', url, headers, body }: RawRequest): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method, agent, headers: headers ?? {} }, (incoming) => {
      const pieces: Buffer[] = []
      incoming.on('data', (piece: Buffer) => pieces.push(piece))
      incoming.on('end', () => {
        const bytes = Buffer.concat(pieces)
        const text = bytes.toString()
        const json = text.startsWith('{') ? JSON.parse(text) : {}
        resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, links: {}, body: bytes, text, json })
      })
    })
    outgoing.on('error', reject).end(body)
  })
}
