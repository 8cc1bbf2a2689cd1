/**
 * What signals do to a service (docs/operations/deploy.md): its orderly end is soon, complete, and without an error for
 * whoever is connected; SIGUSR1 and SIGUSR2, by which Node would open a debugger or end, do nothing.
 */

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import {
  createPersistentClient,
  type HeldCertificate,
  type PersistentClient,
} from '../../bench/client/persistent-client.ts'
import { assertPortFree } from '../../src/http/start-checks.ts'
import { VERSION } from '../../src/shared/lib/program-files.ts'
import { closeConnections, registeredClient, send } from '../support/acme-client.ts'
import { startHttp01Responder } from '../support/clients/http01-responder.ts'
import { freePort } from '../support/free-port.ts'
import { WAIT_MS } from '../support/patience.ts'
import { mustRun, runCommand } from '../support/run-command.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const CLI = path.resolve(import.meta.dirname, '../../../dist/src/cli/main.js')
const IDLE_CONNECTIONS = 20
/** What `server.graceful_timeout` allows for requests that run, and there are none. Who waited for it would not end in time. */
const GRACEFUL_SECONDS = 3_600
/** Enough on a machine that stands still for a while. */
const DRAIN_SECONDS = 30
/** Every request on a connection of its own. */
const CLOSING = { headers: { Connection: 'close' } }

/** One service, started again on what it left with another time for draining. */
describe('a service that gets a signal', () => {
  let first: TestService
  let service: TestService
  let inspectPort: number
  let client: PersistentClient
  let obtained: Promise<HeldCertificate>
  const sockets: Socket[] = []
  before(async () => {
    inspectPort = await freePort()
    process.env['NODE_OPTIONS'] = `--inspect-port=${inspectPort}`
    try {
      first = await start({})
    } finally {
      delete process.env['NODE_OPTIONS']
    }
  })
  after(async () => {
    for (const socket of sockets) socket.destroy()
    closeConnections()
    await service?.dispose()
    await first?.dispose()
  })

  async function start(server: object): Promise<TestService> {
    service = await startTestService({
      ...(first && { continueFrom: first }),
      // The second attempt is still to come when the service ends.
      config: { server: { graceful_timeout: GRACEFUL_SECONDS, ...server }, challenges: { backoff_base_seconds: 60 } },
    })
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

  test('SIGUSR1 and SIGUSR2 open no debugger and end nothing, and a log line says what to send instead', async () => {
    for (const signal of ['SIGUSR1', 'SIGUSR2'] as const) {
      service.process.kill(signal)
      const sentence = `${signal} is ignored; SIGHUP has the configuration read again, SIGTERM stops`
      const { level } = await service.waitForLog(sentence)
      assert.equal(level, 'warn')
    }
    await assertPortFree('127.0.0.1', inspectPort)
    assert.equal((await fetch(service.directoryUrl, CLOSING)).status, 200)
  })

  test('a second instance on its database is refused while nonce.store is memory, and the first goes on', async () => {
    const file = path.join(service.folder, 'second.yaml')
    const text = readFileSync(path.join(service.folder, 'config.yaml'), 'utf8')
    writeFileSync(file, text.replaceAll(String(service.port), String(await freePort())))
    const { code, output } = await runCommand(process.execPath, [CLI, '-c', file, 'serve'])
    assert.equal(code, 1, output)
    assert.match(output, /^chancery: another instance is running on this database, and nonce\.store is memory/m)
    assert.equal((await fetch(service.directoryUrl, CLOSING)).status, 200)
  })

  test('SIGTERM waits for no idle keep-alive connection, and a challenge that is being retried is pending again', async () => {
    client = createPersistentClient({ directoryUrl: service.directoryUrl, timeoutMs: 4 * WAIT_MS })
    await client.register()
    // Nobody answers on the port yet, so the first attempt fails and another is to follow.
    obtained = client.obtain('shutdown.test')
    await service.waitForLog('validation attempt')
    const get = 'GET /directory HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'
    const requests = Array.from({ length: IDLE_CONNECTIONS }, (_, i) => (i % 4 === 0 ? '' : get))
    await Promise.all(requests.map((request) => idleConnection(service, request)))
    assert.equal(await service.stop(), 0)
    assert.ok(service.log.some(({ message }) => message === 'challenges in processing are pending again'))
  })

  test('a successor finishes its orders', async () => {
    const responder = await startHttp01Responder(first.http01Port)
    try {
      responder.serve('shutdown.test', client.thumbprint)
      await start({ drain_seconds: DRAIN_SECONDS })
      assert.equal((await obtained).name, 'shutdown.test')
    } finally {
      await responder.close()
    }
  })

  test('with server.drain_seconds an instance that was told to stop is not ready, serves, and then ends', async () => {
    const { baseUrl, directoryUrl } = service
    const status = async (path: string) => (await fetch(baseUrl + path, CLOSING)).status
    assert.equal(await status('/readyz'), 200)
    const stopped = service.stop()
    await until('/readyz says that it stops', async () => (await status('/readyz')) === 503)
    assert.equal(await status('/livez'), 200)
    const { headers } = await send({ method: 'GET', url: directoryUrl })
    assert.equal(headers.connection, 'close')
    const draining = await registeredClient(directoryUrl)
    const order = await draining.newOrder(['drained.test'])
    closeConnections()
    assert.equal(order.status, 201)
    assert.ok(!service.log.some(({ message }) => message === 'service stopping'))
    assert.equal(await stopped, 0)
    const { seconds } = await service.untilLogged('its draining', ({ message }) => message === 'service draining')
    assert.equal(seconds, DRAIN_SECONDS)
  })

  test('a second signal while it drains ends it at once', async () => {
    await start({ drain_seconds: GRACEFUL_SECONDS })
    const stopped = service.stop()
    await service.waitForLog('service draining')
    service.process.kill('SIGTERM')
    assert.equal(await stopped, null)
    assert.equal(service.process.signalCode, 'SIGKILL')
  })
})

test('a service and its signer whose standard output is full start, serve, count the lines, and stop at SIGTERM', {
  skip: !existsSync('/dev/full'),
}, async () => {
  const service = await startTestService({ fronts: 1 })
  try {
    await service.stop()
    const full = openSync('/dev/full', 'w')
    const child = spawn(process.execPath, [CLI, '-c', path.join(service.folder, 'config.yaml'), 'serve'], {
      stdio: ['ignore', full, full],
    })
    const ended = once(child, 'exit')
    const isReady = async () => child.exitCode !== null || (await fetch(`${service.baseUrl}/readyz`, CLOSING)).ok
    await until('it is ready', () => isReady().catch(() => false))
    const client = await registeredClient(service.directoryUrl)
    assert.equal((await client.newOrder(['full.test'])).status, 201)
    const counted = async () => {
      const text = await (await fetch(`${service.baseUrl}/metrics`, CLOSING)).text()
      return Number(/^service_log_lines_dropped_total (\d+)$/m.exec(text)?.[1]) > 0
    }
    await until('the lines are counted', counted)
    closeConnections()
    child.kill('SIGTERM')
    assert.deepEqual(await ended, [0, null])
  } finally {
    await service.dispose()
  }
})

/**
 * Runs in the process under test before anything of ours: both signals come as soon as somebody listens for them. It stays until they have
 * been seen, because Node.js 24 loads all modules and ends without looking at what has come.
 */
const SIGNALS_AT_ONCE = `
  import { createRequire } from 'node:module'
  const { cache } = createRequire(process.execPath)
  process.on('newListener', (event) => {
    if (event !== 'SIGUSR2') return
    process.stderr.write(Object.keys(cache).length + ' packages loaded\\n')
    queueMicrotask(() => ['SIGUSR1', 'SIGUSR2'].forEach((signal) => process.kill(process.pid, signal)))
    setTimeout(() => {}, 500)
  })`

// To load the modules is most of a start: more than a second on a slow machine.
test('SIGUSR1 and SIGUSR2 do nothing while the modules are being loaded', async () => {
  const port = await freePort()
  const preload = `data:text/javascript,${encodeURIComponent(SIGNALS_AT_ONCE)}`
  const output = await mustRun(process.execPath, [`--inspect-port=${port}`, '--import', preload, CLI, '--version'])
  assert.deepEqual(output.trim().split('\n').toSorted(), [
    '0 packages loaded',
    `chancery, ${VERSION}`,
    'chancery: SIGUSR1 is ignored; SIGHUP has the configuration read again, SIGTERM stops',
    'chancery: SIGUSR2 is ignored; SIGHUP has the configuration read again, SIGTERM stops',
  ])
})
