/** The built-in webhook, against real HTTP servers that behave in every way. */

import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import type http from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { after, describe, test } from 'node:test'
import { readWebhookConfig } from '../../src/config/modules.ts'
import type { OccurredEvent } from '../../src/domain/event.ts'
import { sampleEvent } from '../../src/domain/event-samples.ts'
import { hookConsumers, Webhook, WebhookError } from '../../src/events/hooks/hook-consumers.ts'
import type { WebhookHook } from '../../src/events/hooks/load-hooks.ts'
import type { DatabasePool } from '../../src/store/slonik.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'

const SECRET = '0123456789abcdef'
const EVENT: OccurredEvent = {
  ...sampleEvent('certificate.revocation'),
  id: '5f0c3c5e-8d8b-4d5b-9d0a-2f4f0f1f7f11',
  subject: 'a certificate',
  occurredAt: new Date('2026-11-23T05:00:00Z'),
}

describe('the webhook', () => {
  const servers: Receiver[] = []
  after(() => {
    for (const server of servers) server.close()
  })

  async function receiver(answer: (request: IncomingMessage, response: ServerResponse, body: string) => void) {
    const server = await startReceiver((body, response, request) => answer(request, response, body))
    servers.push(server)
    return `${server.url}events`
  }
  /** One that takes what comes. @returns its URL, and the last request */
  async function taking() {
    const seen = { headers: {} as http.IncomingHttpHeaders, body: '' }
    const url = await receiver((request, response, body) => {
      Object.assign(seen, { headers: request.headers, body })
      response.writeHead(204).end()
    })
    return { url, seen }
  }

  const hook = (url: string, more: Partial<WebhookHook> = {}): WebhookHook => ({
    name: 'hook webhook',
    kinds: ['certificate.revocation'],
    timeoutMs: 60_000,
    maxRetries: 3,
    url,
    secret: SECRET,
    ca: undefined,
    allowPrivate: true,
    source: 'https://ca.test',
    isPlain: false,
    batch: 1,
    ...more,
  })
  const post = (of: WebhookHook, signal = AbortSignal.timeout(60_000)) =>
    new Webhook(of).post([{ event: EVENT, context: EVENT.data }], signal)
  async function failure(of: WebhookHook): Promise<WebhookError> {
    const error = await post(of).then(
      () => assert.fail('it was taken'),
      (thrown) => thrown,
    )
    assert.ok(error instanceof WebhookError, String(error))
    return error
  }

  test('posts a CloudEvent with a signature over time and body', async () => {
    const { url, seen } = await taking()
    await post(hook(url))
    assert.match(seen.headers['content-type'] ?? '', /^application\/cloudevents\+json/)
    assert.deepEqual(JSON.parse(seen.body), {
      specversion: '1.0',
      id: EVENT.id,
      source: 'https://ca.test',
      type: 'chancery.certificate.revocation',
      subject: 'a certificate',
      time: '2026-11-23T05:00:00.000Z',
      datacontenttype: 'application/json',
      data: EVENT.data,
    })
    const [, time, mac] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(seen.headers['chancery-signature'])) ?? []
    assert.ok(Math.abs(Number(time) - Date.now() / 1000) < 60)
    assert.equal(mac, createHmac('sha256', SECRET).update(`${time}.${seen.body}`).digest('hex'))
  })

  test('sends event and data alone where a receiver of the reference expects that', async () => {
    const { url, seen } = await taking()
    await post(hook(url, { isPlain: true }))
    assert.equal(seen.headers['content-type'], 'application/json')
    assert.deepEqual(JSON.parse(seen.body), { event: 'certificate.revocation', data: EVENT.data })
  })

  test('sends an array of CloudEvents where the receiver expects that, signed as a whole', async () => {
    const { url, seen } = await taking()
    const hooks = [hook(url, { batch: 50 })]
    const db = undefined as unknown as DatabasePool
    const { consumers } = hookConsumers({ hooks, db, maxWorkers: 1, includeRoot: false, onOutput: () => undefined })
    assert.equal(consumers[0]?.most, 50)
    await consumers[0]?.deliver([EVENT, { ...EVENT, id: 'another' }], AbortSignal.timeout(60_000))
    assert.match(seen.headers['content-type'] ?? '', /^application\/cloudevents-batch\+json/)
    const events = JSON.parse(seen.body) as { id: string; type: string; data: { event_id: string } }[]
    assert.deepEqual(
      events.map(({ id, type, data }) => [id, type, data.event_id]),
      [EVENT.id, 'another'].map((id) => [id, 'chancery.certificate.revocation', id]),
    )
    const [, time, mac] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(seen.headers['chancery-signature'])) ?? []
    assert.equal(mac, createHmac('sha256', SECRET).update(`${time}.${seen.body}`).digest('hex'))
  })

  test('is repeated after 5xx and 429, not before Retry-After', async () => {
    const busy = await receiver((_request, response) => void response.writeHead(429, { 'Retry-After': '7' }).end())
    const { consumers } = hookConsumers({
      hooks: [hook(busy)],
      db: undefined as unknown as DatabasePool,
      maxWorkers: 1,
      includeRoot: false,
      onOutput: () => undefined,
    })
    const error = await failure(hook(busy))
    assert.equal(consumers[0]?.retryDelayMs(1, error), 7_000)
    assert.equal(consumers[0]?.retryDelayMs(4, error), undefined)
    const broken = await receiver((_request, response) => void response.writeHead(500).end())
    assert.equal(consumers[0]?.retryDelayMs(2, await failure(hook(broken))), 1_000)
    assert.equal(consumers[0]?.retryDelayMs(1, new Error('ECONNRESET')), 500)
  })

  test('is dead after any other refusal', async () => {
    for (const status of [400, 401, 404, 410]) {
      const url = await receiver((_request, response) => void response.writeHead(status).end())
      assert.equal((await failure(hook(url))).isFinal, true)
    }
  })

  test('follows no redirect', async () => {
    let asked = 0
    const target = await receiver((_request, response) => {
      asked++
      response.writeHead(200).end()
    })
    const url = await receiver((_request, response) => void response.writeHead(302, { Location: target }).end())
    assert.match((await failure(hook(url))).message, /302; redirects are not followed/)
    assert.equal(asked, 0)
  })

  test('ends with its signal where the receiver hangs', async () => {
    const url = await receiver(() => undefined)
    // Without its end the test would have none.
    await assert.rejects(post(hook(url), AbortSignal.timeout(200)))
  })

  test('fails, to be repeated, where the receiver breaks off', async () => {
    const url = await receiver((request) => void request.socket.destroy())
    const error = await post(hook(url)).catch((thrown) => thrown)
    assert.ok(error instanceof Error && !(error instanceof WebhookError))
  })

  test('connects to no private address unless the configuration permits it', async () => {
    let asked = 0
    const url = await receiver((_request, response) => {
      asked++
      response.writeHead(200).end()
    })
    const { port } = new URL(url)
    for (const host of ['127.0.0.1', 'localhost', '[::ffff:127.0.0.1]', '0x7f.1', '169.254.169.254'])
      assert.equal((await failure(hook(`http://${host}:${port}/`, { allowPrivate: false }))).isFinal, true, host)
    assert.equal(asked, 0)
    await post(hook(`http://localhost:${port}/`))
    assert.equal(asked, 1)
  })
})

test('the settings of a webhook are checked', () => {
  assert.match(String(readWebhookConfig({})), /needs url/)
  assert.match(String(readWebhookConfig({ url: 'ftp://x' })), /url must be an http or https URL/)
  assert.match(String(readWebhookConfig({ url: 'https://x', secret: 'short' })), /at least 16 characters/)
  assert.match(String(readWebhookConfig({ url: 'https://x', colour: 1 })), /colour/)
  assert.deepEqual(readWebhookConfig({ webhook_url: 'https://x', timeout_seconds: 5 }), {
    url: 'https://x',
    allow_private: false,
    batch: 1,
    max_retries: 10,
    timeout_seconds: 5,
  })
})
