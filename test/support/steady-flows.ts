/** Clients that obtain certificates without an end while something restarts, and a count of whatever fails meanwhile. */

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type AcmeClient,
  type Answer,
  csrFor,
  locationOf,
  type Responder,
  registeredClient,
  type Transport,
} from './acme-client.ts'
import { WAIT_MS } from './patience.ts'
import { until } from './until.ts'

export const IS_NIGHTLY = process.env['CHANCERY_NIGHTLY'] === '1'
/** Thirty in every run, a thousand in a nightly one (CHANCERY_NIGHTLY=1). */
export const FLOWS = IS_NIGHTLY ? 1_000 : 30
const CLIENTS = IS_NIGHTLY ? 8 : 4
/** A thousand flows, also where each restart takes a quarter of a minute. */
export const FLOWS_TIMEOUT_MS = 30 * WAIT_MS

export interface Tally {
  flows: number
  requests: number
  /** Without a reply, or refused; a nonce that is no longer good is the next reply's to replace (RFC 8555 §6.5). */
  failedRequests: string[]
  failedFlows: string[]
  badNonces: number
  slowestFlowMs: number
}

export interface SteadyFlows {
  readonly tally: Tally
  /** Resolves once so many flows are done. */
  reached(flows: number): Promise<void>
  /** Resolves once every client has ended its flow. @throws AssertionError when any request or flow has failed */
  stop(): Promise<void>
}

interface FlowOptions {
  directoryUrl: string
  responder: Responder
  /** Each client has connections of its own, which stay open. */
  connect(): { send: Transport; close(): void }
  clients?: number
}

/** Most requests follow soon; some clients wait for as long as a connection may be idle here. */
const PAUSES = { mostMs: 150, longMs: 4_500, longShare: 0.04 }
const POLL_MS = 50
const TRIES = 3
const RETRY_PAUSE_MS = 500

export async function startFlows({
  directoryUrl,
  responder,
  connect,
  clients = CLIENTS,
}: FlowOptions): Promise<SteadyFlows> {
  const tally: Tally = { flows: 0, requests: 0, failedRequests: [], failedFlows: [], badNonces: 0, slowestFlowMs: 0 }
  let isOver = false
  const opened = await Promise.all(
    Array.from({ length: clients }, async () => {
      const { send, close } = connect()
      return { client: await registeredClient(directoryUrl, undefined, send), close }
    }),
  )
  const working = Promise.all(
    opened.map(async ({ client, close }) => {
      const ask = asker(client, tally)
      while (!isOver) {
        const startedAt = performance.now()
        await flow(client, ask, responder).then(
          () => tally.flows++,
          (error) => tally.failedFlows.push(String(error)),
        )
        tally.slowestFlowMs = Math.max(tally.slowestFlowMs, performance.now() - startedAt)
      }
      close()
    }),
  )
  return {
    tally,
    reached: async (flows) => {
      await until(`${flows} flows`, () => tally.flows + tally.failedFlows.length >= flows, FLOWS_TIMEOUT_MS)
    },
    async stop() {
      isOver = true
      await working
      const { failedRequests, failedFlows } = tally
      assert.deepEqual({ failedRequests, failedFlows }, { failedRequests: [], failedFlows: [] }, summary(tally))
    },
  }
}

export function summary({ flows, requests, badNonces, failedRequests, failedFlows, slowestFlowMs }: Tally): string {
  const failed = `${failedRequests.length} requests and ${failedFlows.length} flows failed`
  const slowest = `slowest flow ${(slowestFlowMs / 1000).toFixed(1)} s`
  return `${flows} flows, ${requests} requests (${badNonces} nonces replaced), ${failed}, ${slowest}`
}

type Ask = (url: string, payload?: object) => Promise<Answer>

/** Sends one request after the other, each with the nonce of the last reply, and repeats what failed. */
function asker(client: AcmeClient, tally: Tally): Ask {
  let nonce: string | undefined
  const once = async (url: string, payload: object | undefined): Promise<Answer> => {
    tally.requests++
    const header = nonce === undefined ? {} : { header: { nonce } }
    nonce = undefined
    const answer = await client.post(url, payload, header)
    nonce = answer.headers['replay-nonce'] as string | undefined
    if (!String(answer.json.type).endsWith(':badNonce')) return answer
    tally.badNonces++
    return once(url, payload)
  }
  return async (url, payload) => {
    const { mostMs, longMs, longShare } = PAUSES
    await sleep(Math.random() * (Math.random() < longShare ? longMs : mostMs))
    for (let tries = 1; ; tries++) {
      const answer = await once(url, payload).catch((error) => String(error))
      if (typeof answer !== 'string' && answer.status < 300) return answer
      const failure = typeof answer === 'string' ? answer : `${answer.status} ${answer.text}`
      tally.failedRequests.push(`${new Date().toISOString()} ${new URL(url).pathname}: ${failure}`)
      if (tries === TRIES) throw new Error(failure)
      await sleep(RETRY_PAUSE_MS)
    }
  }
}

async function flow(client: AcmeClient, ask: Ask, responder: Responder): Promise<void> {
  const name = `${randomUUID()}.test`
  const created = await ask(client.directory['newOrder'] as string, { identifiers: [{ type: 'dns', value: name }] })
  const [url] = created.json.authorizations
  const { challenges } = (await ask(url)).json
  const { token, url: challenge } = challenges.find(({ type }: { type: string }) => type === 'http-01')
  responder.answer(token, `${token}.${client.key.thumbprint}`)
  await ask(challenge, {})
  while (['pending', 'processing'].includes((await ask(url)).json.status)) await sleep(POLL_MS)
  let order = await ask(created.json.finalize, { csr: await csrFor([name]) })
  while (order.json.status === 'processing') order = await ask(locationOf(created))
  assert.match((await ask(order.json.certificate)).text, /BEGIN CERTIFICATE/)
}
