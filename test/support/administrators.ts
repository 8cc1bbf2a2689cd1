/**
 * Twenty administrators in a process of their own, since in earnest their computers stand elsewhere: it looks at no reply,
 * and says what it has cost.
 *
 * `startAdministrators` starts it. It works from `begin` to `end`, and then tells what it did.
 */

import { fork } from 'node:child_process'
import { once, setMaxListeners } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const ADMINISTRATORS = 20
/** A person and a dashboard: one request every half a second each. */
const PAUSE_MS = 500

export interface AdministratorsTask {
  baseUrl: string
  token: string
  username: string
  password: string
}

export interface KindOfWork {
  name: string
  done: number
  /** Such as the ninth export at a time. */
  refused: number
  /** The median of the requests that were done; 0 without any. */
  medianMs: number
  mebibytes: number
}

export interface WorkReport {
  kinds: KindOfWork[]
  seconds: number
  /** This process itself took so much of a processor. */
  cpuSeconds: number
}

export interface Administrators {
  begin(): void
  /** What is under way is broken off. */
  end(): Promise<WorkReport>
  stop(): void
}

export function startAdministrators(task: AdministratorsTask): Administrators {
  const child = fork(fileURLToPath(import.meta.url), [JSON.stringify(task)])
  return {
    begin: () => void child.send('begin'),
    async end() {
      const answer = once(child, 'message')
      child.send('end')
      return (await answer)[0] as WorkReport
    },
    stop: () => void child.kill(),
  }
}

interface Work {
  name: string
  method: string
  path: string
  body?: object
  times: number[]
  refused: number
  bytes: number
}

class Office {
  readonly #task: AdministratorsTask
  readonly #agent = new Agent({ keepAlive: true })
  readonly #work: readonly Work[]
  readonly #ending = new AbortController()
  readonly #startedAt = performance.now()
  readonly #cpu = process.cpuUsage()
  readonly #all: Promise<unknown>

  constructor(task: AdministratorsTask) {
    const { username, password } = task
    const none = () => ({ times: [], refused: 0, bytes: 0 })
    this.#task = task
    setMaxListeners(2 * ADMINISTRATORS, this.#ending.signal)
    this.#work = [
      { name: 'certificates', method: 'GET', path: '/certificates?status=active', ...none() },
      { name: 'accounts', method: 'GET', path: '/accounts', ...none() },
      { name: 'export', method: 'POST', path: '/audit-log/export', body: {}, ...none() },
      { name: 'login', method: 'POST', path: '/auth/login', body: { username, password }, ...none() },
      { name: 'me', method: 'GET', path: '/me', ...none() },
    ]
    this.#all = Promise.all(Array.from({ length: ADMINISTRATORS }, (_, index) => this.#administer(index)))
  }

  async close(): Promise<WorkReport> {
    this.#ending.abort()
    await this.#all
    this.#agent.destroy()
    const { user, system } = process.cpuUsage(this.#cpu)
    return {
      kinds: this.#work.map(({ name, times, refused, bytes }) => ({
        name,
        refused,
        done: times.length,
        mebibytes: bytes / 2 ** 20,
        medianMs: times.toSorted((a, b) => a - b)[times.length >> 1] ?? 0,
      })),
      seconds: (performance.now() - this.#startedAt) / 1000,
      cpuSeconds: (user + system) / 1e6,
    }
  }

  async #administer(index: number): Promise<void> {
    const { signal } = this.#ending
    for (let n = index; !signal.aborted; n++) {
      try {
        await this.#ask(this.#work[n % this.#work.length] as Work)
        await setTimeout(PAUSE_MS, undefined, { signal })
      } catch (error) {
        if (!signal.aborted) throw error
      }
    }
  }

  async #ask(work: Work): Promise<void> {
    const { method, path, body } = work
    const { baseUrl, token } = this.#task
    const startedAt = performance.now()
    const headers = { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }) }
    const asked = request(`${baseUrl}/api${path}`, { method, headers, agent: this.#agent, signal: this.#ending.signal })
    asked.end(body && JSON.stringify(body))
    const [reply] = (await once(asked, 'response')) as [IncomingMessage]
    for await (const piece of reply) work.bytes += (piece as Buffer).length
    if (reply.statusCode === 200) work.times.push(performance.now() - startedAt)
    else if (reply.statusCode === 503 || reply.statusCode === 429) work.refused++
    else throw new Error(`${work.name}: ${reply.statusCode}`)
  }
}

if (process.send && process.argv[1] === fileURLToPath(import.meta.url)) {
  const task = JSON.parse(process.argv[2] ?? '') as AdministratorsTask
  let office: Office | undefined
  process.on('message', (word) => {
    if (word === 'begin') office = new Office(task)
    else void office?.close().then((report) => process.send?.(report))
  })
  // The process that started it may be killed.
  process.on('disconnect', () => process.exit())
}
