/** Planned restarts of two instances behind the examples of deploy/proxy: no client sees one. */

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type AcmeClient,
  type Answer,
  csrFor,
  locationOf,
  type Responder,
  registeredClient,
  startResponder,
} from '../support/acme-client.ts'
import {
  haproxy,
  makeCertificate,
  nginx,
  OPERATORS,
  type ProxyExample,
  type ProxyPorts,
  proxyPorts,
  startProxy,
  stopProxy,
  throughProxy,
} from '../support/proxies.ts'
import { requireAll } from '../support/requirements.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const RESTARTS = 5
/** Flows through each proxy: before the signal, from the signal on, and once the instance is back. */
const FLOWS = { before: 5, meanwhile: 20, afterwards: 5 }
const CLIENTS = 4
/** Between two requests of a client while an instance restarts, so that flows meet each step of it. */
const PAUSE_MS = 60
const POLL_MS = 50
const MOST_NONCES = 5
const EXTERNAL_URL = 'https://acme.corp.example'

const config = {
  server: { external_url: EXTERNAL_URL },
  proxy: { enabled: true, trusted_proxies: ['127.0.0.1'] },
  nonce: { store: 'database' },
}

/** Both ask the one responder. */
const configOf = ({ http01Port: port }: TestService) => ({ ...config, challenges: { http01: { port } } })

interface Lane {
  proxy: ProxyExample
  ports: ProxyPorts
  clients: AcmeClient[]
  done: number
  lost: string[]
}

describe('rolling restarts behind both proxies', requireAll(nginx.required, haproxy.required), () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-rolling-'))
  const instances: TestService[] = []
  const lanes: Lane[] = []
  let responder: Responder
  const cleanups: (() => unknown)[] = [() => rmSync(folder, { recursive: true })]
  before(async () => {
    makeCertificate(folder)
    const first = await startTestService({ config })
    cleanups.push(() => first.dispose())
    responder = await startResponder(first.http01Port)
    cleanups.push(() => responder.close())
    const second = await startTestService({ config: configOf(first), beside: first })
    cleanups.push(() => second.dispose())
    instances.push(first, second)
    for (const proxy of [nginx, haproxy]) {
      const ports = await proxyPorts(first.port, second.port)
      const child = await startProxy(proxy, folder, ports, OPERATORS)
      cleanups.push(() => stopProxy(child))
      const { send, close } = throughProxy(ports)
      cleanups.push(close)
      const client = () => registeredClient(`${EXTERNAL_URL}/directory`, undefined, send)
      lanes.push({
        proxy,
        ports,
        clients: await Promise.all(Array.from({ length: CLIENTS }, client)),
        done: 0,
        lost: [],
      })
    }
  })
  after(async () => {
    for (const instance of instances) await instance.dispose()
    for (const cleanup of cleanups.toReversed()) await cleanup()
  })

  /** The flows of every lane, by a few clients at a time. */
  const flows = (count: number, pauseMs: number) =>
    Promise.all(lanes.map((lane) => run(lane, responder, count, pauseMs)))

  test(`lose none of ${RESTARTS * (FLOWS.before + FLOWS.meanwhile + FLOWS.afterwards)} flows through each`, async () => {
    for (let round = 0; round < RESTARTS; round++) {
      const which = round % instances.length
      const restarted = async () => {
        const instance = instances[which] as TestService
        assert.equal(await instance.stop(), 0)
        instances[which] = await startTestService({
          config: configOf(instances[0] as TestService),
          continueFrom: instance,
        })
      }
      await flows(FLOWS.before, 0)
      await Promise.all([restarted(), flows(FLOWS.meanwhile, PAUSE_MS)])
      for (const { proxy, ports } of lanes)
        await until(`${proxy.command} uses both instances`, () => proxy.usesAll(folder, ports))
      await flows(FLOWS.afterwards, 0)
    }
    const all = RESTARTS * (FLOWS.before + FLOWS.meanwhile + FLOWS.afterwards)
    for (const { proxy, done, lost } of lanes) assert.deepEqual({ done, lost }, { done: all, lost: [] }, proxy.command)
  })
})

async function run(lane: Lane, responder: Responder, count: number, pauseMs: number): Promise<void> {
  let left = count
  const work = async (client: AcmeClient) => {
    while (left-- > 0)
      try {
        await flow(client, responder, `${randomUUID()}.test`, pauseMs)
        lane.done++
      } catch (error) {
        lane.lost.push(String(error))
      }
  }
  await Promise.all(lane.clients.map(work))
}

async function flow(client: AcmeClient, responder: Responder, name: string, pauseMs: number): Promise<void> {
  const ask = async (url: string, payload?: object): Promise<Answer> => {
    await sleep(pauseMs)
    const answer = await postWithFreshNonce(client, url, payload)
    assert.ok(answer.status < 300, `${answer.status} to ${url}: ${answer.text}`)
    return answer
  }
  const identifiers = [{ type: 'dns', value: name }]
  const created = await ask(client.directory['newOrder'] as string, { identifiers })
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

/** A nonce that is no longer good is replaced by that of the reply (RFC 8555 section 6.5); nothing else is repeated. */
async function postWithFreshNonce(client: AcmeClient, url: string, payload: object | undefined): Promise<Answer> {
  let answer = await client.post(url, payload)
  for (let tries = 1; tries < MOST_NONCES && String(answer.json.type).endsWith(':badNonce'); tries++)
    answer = await client.post(url, payload, { header: { nonce: answer.headers['replay-nonce'] } })
  return answer
}
