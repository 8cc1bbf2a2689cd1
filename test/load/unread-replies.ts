/**
 * What does an address that sends requests and reads no reply cost the others?
 *
 * `node compiled/test/load/unread-replies.js` starts a service with one front thread, and for each case a thread that repeats `GET /directory` from
 * another address of the loopback network without reading. Beside it a client asks for the directory, on a kept connection and on new ones. Printed
 * are its longest wait, and the service's memory before, at most, and ten seconds after. The last case sends one request at a time, so
 * that no read has two. It ends with 1 when a wait was longer than a second.
 */

import { Agent, get } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { isMainThread, Worker, workerData } from 'node:worker_threads'
import { startTestService, type TestService } from '../support/service.ts'
import { residentMib } from './figures.ts'

interface Attack {
  title: string
  connections: number
  /** Of each connection; then it stays open. */
  bytes: number
  /** Sends on, and connects anew where it was cut off, until this is over. */
  forMs?: number
  /** One request at a time instead of as many as fit. */
  isPaced?: true
  line?: string
}

const MOST_MS = 1_000
const OBSERVED_MS = 3_000
/** After a case that lasts until everybody has been answered. */
const REST_MS = 10_000
const NO_ANSWER_MS = 120_000
const ATTACKER = '127.0.0.2'
const PACE_MS = 1

const MB = 1_000_000
const ATTACKS: readonly Attack[] = [
  { title: '1 connection, 0.5 MB', connections: 1, bytes: 0.5 * MB },
  { title: '10 connections, 10 MB', connections: 10, bytes: MB },
  { title: '50 connections, 50 MB', connections: 50, bytes: MB },
  { title: '200 connections for 10 s', connections: 200, bytes: MB, forMs: 10_000 },
  { title: '50 connections, one request a millisecond', connections: 50, bytes: MB, forMs: 10_000, isPaced: true },
  {
    title: '50 connections, the same with HEAD',
    connections: 50,
    bytes: MB,
    forMs: 10_000,
    isPaced: true,
    line: 'HEAD /new-nonce',
  },
]

if (isMainThread) await main()
else await attack(workerData as Attack & { port: number })

async function main(): Promise<void> {
  const service = await startTestService({ config: { server: { workers: 1, overload: { enabled: true } } } })
  try {
    await observe(service, async () => sleep(1_000))
    console.log(
      `${'case'.padEnd(44)}${'worst ms'.padStart(10)}${'answers'.padStart(9)}${'MiB before'.padStart(12)}${'most'.padStart(6)}${'after'.padStart(7)}`,
    )
    for (const one of ATTACKS) {
      const before = residentMib(service.process.pid)
      const { worst, answers, most } = await observe(service, () => run(one, service.port))
      await sleep(REST_MS)
      if (worst > MOST_MS) process.exitCode = 1
      console.log(
        `${one.title.padEnd(44)}${worst.toFixed(0).padStart(10)}${String(answers).padStart(9)}${String(before).padStart(12)}${String(most).padStart(6)}${String(residentMib(service.process.pid)).padStart(7)}`,
      )
    }
    const nameless = service.log.filter(({ address }) => address === '').length
    console.log(`lines of the log without an address: ${nameless}`)
  } finally {
    await service.dispose()
  }
}

async function observe(service: TestService, during: () => Promise<void>) {
  const seen = { worst: 0, answers: 0, most: 0 }
  let isOver = false
  const kept = new Agent({ keepAlive: true, maxSockets: 1 })
  const client = async (agent: Agent | undefined) => {
    while (!isOver) {
      const startedAt = performance.now()
      await answerOf(service, agent)
      seen.worst = Math.max(seen.worst, performance.now() - startedAt)
      seen.answers++
      seen.most = Math.max(seen.most, residentMib(service.process.pid))
      await sleep(5)
    }
  }
  const clients = [client(kept), client(undefined)]
  await during()
  isOver = true
  await Promise.all(clients)
  kept.destroy()
  return seen
}

/** A refusal or a connection that was closed is an answer, too: the worst wait is that for any. */
function answerOf({ directoryUrl }: TestService, agent: Agent | undefined): Promise<void> {
  return new Promise((resolve) => {
    const options = { timeout: NO_ANSWER_MS, ...(agent ? { agent } : { agent: false as const }) }
    const request = get(directoryUrl, options, (reply) => reply.resume().on('end', resolve))
    request.on('timeout', () => request.destroy()).on('error', () => resolve())
  })
}

async function run(one: Attack, port: number): Promise<void> {
  const attacker = new Worker(new URL(import.meta.url), { workerData: { ...one, port } })
  const ended = new Promise((resolve, reject) => attacker.once('exit', resolve).once('error', reject))
  await ended
}

async function attack({
  port,
  connections,
  bytes,
  forMs,
  isPaced,
  line = 'GET /directory',
}: Attack & { port: number }) {
  const request = `${line} HTTP/1.1\r\nHost: test\r\n\r\n`
  const whole = Buffer.from(request.repeat(Math.floor(bytes / request.length)))
  const until = performance.now() + (forMs ?? OBSERVED_MS)
  const sockets = new Set<Socket>()
  const open = () => {
    const socket = connect({ port, host: '127.0.0.1', localAddress: ATTACKER }, () => {
      socket.pause()
      if (!isPaced) return send()
      const timer = setInterval(() => socket.write(request), PACE_MS)
      socket.once('close', () => clearInterval(timer))
    })
    const send = (): void => {
      socket.write(whole, () => {
        if (forMs !== undefined && performance.now() < until) send()
      })
    }
    sockets.add(socket)
    socket.setNoDelay(true)
    socket.on('error', () => undefined)
    socket.once('close', () => {
      sockets.delete(socket)
      if (forMs !== undefined && performance.now() < until) setTimeout(open, PACE_MS)
    })
  }
  for (let i = 0; i < connections; i++) open()
  await sleep(until - performance.now())
  for (const socket of sockets) socket.destroy()
  process.exit()
}
