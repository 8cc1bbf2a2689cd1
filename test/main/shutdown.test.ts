/** The orderly end of a service: soon, complete, and without an error for whoever is connected. */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { after, describe, test } from 'node:test'
import { createPersistentClient } from '../../bench/client/persistent-client.ts'
import { closeConnections, registeredClient, send } from '../support/acme-client.ts'
import { startHttp01Responder } from '../support/http01-responder.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const IDLE_CONNECTIONS = 20
/** What `server.graceful_timeout` allows for requests that run, and there are none. Who waited for it would outlast the time-out below. */
const GRACEFUL_SECONDS = 3_600
/** Enough on a machine that stands still for a while. */
const DRAIN_SECONDS = 30
/** Every request on a connection of its own. */
const CLOSING = { headers: { Connection: 'close' } }

describe('shutdown', () => {
  const services: TestService[] = []
  const sockets: Socket[] = []
  after(async () => {
    for (const socket of sockets) socket.destroy()
    for (const service of services.toReversed()) await service.dispose()
  })

  async function start(server: object = {}): Promise<TestService> {
    const service = await startTestService({
      // The second attempt is still to come when the service ends.
      config: { server: { graceful_timeout: GRACEFUL_SECONDS, ...server }, challenges: { backoff_base_seconds: 60 } },
    })
    services.push(service)
    return service
  }

  async function idleConnection({ port }: TestService, request: string): Promise<void> {
    const socket = connect(port, '127.0.0.1')
    sockets.push(socket)
    // A server that closes is what this is about.
    socket.on('error', () => undefined)
    await once(socket, 'connect')
    if (request === '') return
    socket.write(request)
    await once(socket, 'data')
  }

  test('SIGTERM with idle keep-alive connections waits for none of them', async () => {
    const service = await start()
    const get = 'GET /directory HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'
    const requests = Array.from({ length: IDLE_CONNECTIONS }, (_, i) => (i % 4 === 0 ? '' : get))
    await Promise.all(requests.map((request) => idleConnection(service, request)))
    assert.equal(await service.stop(), 0)
  })

  test('SIGTERM right after the start ends it at once', async () => {
    assert.equal(await (await start()).stop(), 0)
  })

  test('with server.drain_seconds an instance that was told to stop is not ready, serves, and then ends', async () => {
    const service = await start({ drain_seconds: DRAIN_SECONDS })
    const { baseUrl, directoryUrl } = service
    const status = async (path: string) => (await fetch(baseUrl + path, CLOSING)).status
    assert.equal(await status('/readyz'), 200)
    const stopped = service.stop()
    await until('/readyz says that it stops', async () => (await status('/readyz')) === 503)
    assert.equal(await status('/livez'), 200)
    const { headers } = await send({ method: 'GET', url: directoryUrl })
    assert.equal(headers.connection, 'close')
    const client = await registeredClient(directoryUrl)
    const order = await client.newOrder(['drained.test'])
    closeConnections()
    assert.equal(order.status, 201)
    assert.ok(!service.log.some(({ message }) => message === 'service stopping'))
    assert.equal(await stopped, 0)
    const { seconds } = await service.untilLogged('its draining', ({ message }) => message === 'service draining')
    assert.equal(seconds, DRAIN_SECONDS)
  })

  test('a second signal while it drains ends it at once', async () => {
    const service = await start({ drain_seconds: GRACEFUL_SECONDS })
    const stopped = service.stop()
    await service.waitForLog('service draining')
    service.process.kill('SIGTERM')
    assert.equal(await stopped, null)
    assert.equal(service.process.signalCode, 'SIGKILL')
  })

  test('a challenge that is being retried is pending again afterwards, and a successor finishes the order', async () => {
    const service = await start()
    const { directoryUrl, http01Port } = service
    const client = createPersistentClient({ directoryUrl, timeoutMs: 200_000 })
    await client.register()
    // Nobody answers on the port yet, so the first attempt fails and another is to follow.
    const obtained = client.obtain('shutdown.test')
    await service.waitForLog('validation attempt')
    assert.equal(await service.stop(), 0)
    assert.ok(service.log.some(({ message }) => message === 'challenges in processing are pending again'))

    const responder = await startHttp01Responder(http01Port)
    try {
      responder.serve('shutdown.test', client.thumbprint)
      services.push(await startTestService({ continueFrom: service }))
      assert.equal((await obtained).name, 'shutdown.test')
    } finally {
      await responder.close()
    }
  })
})
