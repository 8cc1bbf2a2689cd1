/** The HTTP adapter under overload, against raw sockets: refusals by the head, connections that are not taken, memory for bodies, slow clients. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { HttpServer, ListenOptions } from '../../src/http/http-message.ts'
import { listen } from '../../src/http/uws.ts'
import { until as untilFact } from '../support/until.ts'
import { head, open, openRaw, reply, serve as serveBy } from './raw-client.ts'

const REFUSED = reply(503, 'refused', [['Retry-After', '2']])

const until = (condition: () => boolean) => untilFact('a fact about the server', condition)

/** Bodies that reached the handler. */
function serve(options: Partial<ListenOptions> = {}): { server: HttpServer; handled: string[] } {
  const handled: string[] = []
  const server = serveBy(({ path, body }) => {
    handled.push(`${path} ${body.length}`)
    return reply(200, 'handled')
  }, options)
  return { server, handled }
}

describe('a refusal by the head', () => {
  for (const [when, later] of [
    ['at once', false],
    ['late', true],
  ] as const) {
    test(`${when}: it comes before the body, the body is skipped, and the connection goes on`, async () => {
      const seen: string[] = []
      const { server, handled } = serve({
        admit(request) {
          seen.push(`${request.method} ${request.path} ${request.header('x-kept')} ${request.peerAddress}`)
          if (request.path === '/let-in') return undefined
          return later ? sleep(20).then(() => REFUSED) : REFUSED
        },
      })
      const client = await open(server, head('POST /no', 'Content-Length: 10', 'X-Kept: k'))
      const text = await client.receives(/refused$/)
      assert.match(text, /^HTTP\/1\.1 503 /)
      assert.match(text, /\r\nRetry-After: 2\r\n/)
      client.send('0123456789')
      client.send(`${head('POST /let-in', 'Content-Length: 3')}abc`)
      await client.receives(/handled$/)
      assert.deepEqual(handled, ['/let-in 3'])
      assert.equal(seen[0], 'POST /no k 127.0.0.1')
      await until(() => server.inFlight === 0)
    })
  }

  test('is not asked for where the end of the body is uncertain (RFC 9112 §6.3): the connection ends', async () => {
    let asked = 0
    const { server } = serve({
      admit() {
        asked++
        return REFUSED
      },
    })
    const client = await open(server, `${head('POST /', 'Content-Length: 3', 'Content-Length: 5')}abc`)
    assert.match(await client.closes(), /^HTTP\/1\.1 400 /)
    assert.equal(asked, 0)
  })

  test('that fails itself is the error reply', async () => {
    const { server } = serve({
      admit() {
        throw new Error('broken')
      },
    })
    const client = await open(server, head('GET /'))
    assert.match(await client.receives(/broken/), /^HTTP\/1\.1 500 /)
  })

  test('may end the connection', async () => {
    const { server } = serve({ admit: () => ({ ...REFUSED, closes: true }) })
    const client = await open(server, head('GET /'))
    assert.match(await client.closes(), /\r\nConnection: close\r\n/i)
  })
})

describe('a connection that is not taken', () => {
  test('is closed before anything is read; others are not touched', async () => {
    const asked: [string, number][] = []
    const { server, handled } = serve({
      accept(address, openConnections) {
        asked.push([address, openConnections])
        return openConnections <= 2
      },
    })
    const first = await open(server)
    const second = await open(server)
    await until(() => server.openConnections === 2)
    const third = await open(server, head('GET /third'))
    await third.closes()
    assert.deepEqual(handled, [])
    for (const client of [first, second]) {
      client.send(head('GET /'))
      await client.receives(/handled$/)
    }
    assert.equal(server.openConnections, 2)
    assert.equal(server.counters.refusedConnections, 1)
    assert.deepEqual(asked.at(-1), ['127.0.0.1', 3])
  })

  test('hundreds of them leave nothing behind', async () => {
    const { server } = serve({ accept: (_address, openConnections) => openConnections <= 10 })
    const clients = await Promise.all(Array.from({ length: 300 }, () => open(server).catch(() => undefined)))
    await until(() => server.counters.connections === 300)
    await until(() => server.openConnections === 10)
    assert.equal(server.counters.refusedConnections, 290)
    for (const client of clients) client?.socket.destroy()
    await until(() => server.openConnections === 0)
  })
})

describe('memory for bodies', () => {
  /** Every address may use all of it. */
  const TRUSTED: Partial<ListenOptions> = { isTrustedProxy: () => true, busy: () => reply(503, 'busy') }
  const LARGE = 65_536

  test('is bounded over all connections, and given back', async () => {
    const { server, handled } = serve({ ...TRUSTED, maxBufferedBytes: 2500 })
    const slow = await Promise.all([open(server), open(server)])
    for (const client of slow) client.send(`${head('POST /slow', 'Content-Length: 1000')}x`)
    await until(() => server.bufferedBytes === 2000)
    const third = await open(server, `${head('POST /third', 'Content-Length: 800')}y`)
    await third.receives(/busy$/)
    third.send(`${'y'.repeat(799)}${head('POST /third', 'Content-Length: 500')}y`)
    await until(() => server.bufferedBytes === 2500)
    third.send('y'.repeat(499))
    await third.receives(/handled$/)
    const chunked = await open(
      server,
      `${head('POST /chunked', 'Transfer-Encoding: chunked')}258\r\n${'z'.repeat(600)}\r\n`,
    )
    assert.match(await chunked.closes(), /busy$/)
    for (const client of slow) client.send('x'.repeat(999))
    for (const client of slow) await client.receives(/handled$/)
    assert.equal(server.bufferedBytes, 0)
    assert.equal(server.inFlight, 0)
    assert.deepEqual(handled.sort(), ['/slow 1000', '/slow 1000', '/third 500'])
  })

  test('is not needed for a body that arrives whole: it is taken where there is none left', async () => {
    const { server, handled } = serve({ ...TRUSTED, maxBufferedBytes: 1000 })
    await open(server, `${head('POST /slow', 'Content-Length: 1000')}x`)
    await until(() => server.bufferedBytes === 1000)
    const client = await open(server, head('POST /whole', 'Content-Length: 900') + 'y'.repeat(900))
    await client.receives(/handled$/)
    assert.deepEqual(handled, ['/whole 900'])
  })

  test('is needed for a long body that arrives whole, until its reply or until nobody reads it any more', async () => {
    const ends: (() => void)[] = []
    const { server } = serve({
      ...TRUSTED,
      maxBodyBytes: LARGE,
      maxBufferedBytes: 30_000,
      handler: (request) =>
        new Promise((resolve) => {
          if (request.path === '/held') request.dropBody()
          ends.push(() => resolve(reply(200, `${request.body.length} handled`)))
        }),
    })
    const send = async (path: string) => {
      const client = await open(server, head(`POST ${path}`, 'Content-Length: 20000') + 'x'.repeat(20_000))
      return client
    }
    const first = await send('/')
    await until(() => ends.length === 1)
    assert.equal(server.bufferedBytes, 20_000)
    await (await send('/')).receives(/busy$/)
    ends[0]?.()
    await first.receives(/20000 handled$/)
    assert.equal(server.bufferedBytes, 0)
    const held = await Promise.all([send('/held'), send('/held'), send('/held')])
    await until(() => ends.length === 4)
    assert.equal(server.bufferedBytes, 0)
    for (const end of ends) end()
    for (const client of held) await client.receives(/0 handled$/)
    assert.equal(server.inFlight, 0)
  })

  test('is given back when clients leave in the middle', async () => {
    const { server } = serve({ ...TRUSTED, maxBufferedBytes: 2500 })
    const client = await open(server, `${head('POST /', 'Content-Length: 900')}x`)
    const chunked = await open(server, `${head('POST /', 'Transfer-Encoding: chunked')}64\r\n${'z'.repeat(100)}\r\n`)
    await until(() => server.bufferedBytes === 1900)
    client.socket.destroy()
    chunked.socket.destroy()
    await until(() => server.bufferedBytes === 0)
    assert.equal(server.inFlight, 0)
  })

  test('is not held by what was only declared', async () => {
    const { server, handled } = serve({ maxBodyBytes: LARGE, maxBufferedBytes: 16 * LARGE })
    const idle = await Promise.all(Array.from({ length: 64 }, () => open(server)))
    for (const client of idle) client.send(head('POST /idle', `Content-Length: ${LARGE}`))
    await until(() => server.inFlight === 64)
    assert.equal(server.bufferedBytes, 0)
    const client = await open(server, `${head('POST /', `Content-Length: ${LARGE}`)}x`)
    await until(() => server.bufferedBytes > 0)
    client.send('x'.repeat(LARGE - 1))
    await client.receives(/handled$/)
    assert.deepEqual(handled, [`/ ${LARGE}`])
    assert.equal(server.bufferedBytes, 0)
  })

  for (const [what, framing] of [
    ['declared', `Content-Length: ${LARGE}`],
    ['chunked', 'Transfer-Encoding: chunked'],
  ] as const) {
    test(`${what}: grows to at most twice what has arrived, and the body is whole`, async () => {
      const content = randomBytes(LARGE)
      let received: Buffer | undefined
      const { server } = serve({
        maxBodyBytes: LARGE,
        maxBufferedBytes: 16 * LARGE,
        handler({ body }) {
          received = body
          return reply(200, 'handled')
        },
      })
      const client = await open(server, head('POST /', framing))
      let before = 0
      for (const upTo of [1, 2, 1500, 1501, 20_000, 45_000, LARGE]) {
        const part = content.subarray(before, upTo)
        const framed = Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n')])
        client.send(what === 'chunked' ? framed : part)
        if (upTo < LARGE) await until(() => server.bufferedBytes >= upTo)
        assert.ok(server.bufferedBytes <= Math.max(1024, 2 * upTo), `${server.bufferedBytes} for ${upTo}`)
        before = upTo
      }
      if (what === 'chunked') client.send('0\r\n\r\n')
      await client.receives(/handled$/)
      assert.ok(received?.equals(content))
      assert.equal(server.bufferedBytes, 0)
    })
  }

  test('goes to one address by an eighth, so that others go on; a trusted proxy may have all', async () => {
    const { server, handled } = serve({
      maxBufferedBytes: 8000,
      isTrustedProxy: (address) => address === '127.0.0.3',
      busy: ({ peerAddress }) => reply(503, `busy ${peerAddress}`),
    })
    const slow = async (address: string) => {
      const before = server.bufferedBytes
      const client = await open(server, `${head('POST /', 'Content-Length: 1000')}x`, '127.0.0.1', address)
      await until(() => server.bufferedBytes > before || client.text !== '')
      return client
    }
    const [first, second] = [await slow('127.0.0.1'), await slow('127.0.0.1')]
    await second.receives(/busy 127\.0\.0\.1$/)
    const others = [await slow('127.0.0.2')]
    for (let i = 0; i < 6; i++) others.push(await slow('127.0.0.3'))
    assert.equal(server.bufferedBytes, 8000)
    await (await slow('127.0.0.3')).receives(/busy 127\.0\.0\.3$/)
    for (const client of [first, ...others]) client.send('x'.repeat(999))
    for (const client of [first, ...others]) await client.receives(/handled$/)
    assert.equal(handled.length, 8)
    assert.equal(server.bufferedBytes, 0)
    const again = await slow('127.0.0.1')
    again.send('x'.repeat(999))
    await again.receives(/handled$/)
  })

  test('is counted on after a length that is no number', async () => {
    const { server } = serve({ ...TRUSTED, maxBufferedBytes: 1000 })
    const bad = await open(server, `${head('POST /', 'Content-Length: x')}hello`)
    await bad.closes()
    await until(() => server.openConnections === 0)
    assert.deepEqual([server.bufferedBytes, server.inFlight], [0, 0])
    const clients = await Promise.all([open(server), open(server)])
    for (const client of clients) client.send(`${head('POST /', 'Content-Length: 1000')}x`)
    await until(() => clients.some(({ text }) => text.endsWith('busy')))
    assert.equal(server.bufferedBytes, 1000)
  })
})

describe('a refusal of a large body that is held back', () => {
  for (const [what, first, rest] of [
    ['declared', head('POST /', 'Content-Length: 500000'), ''],
    ['chunked', head('POST /', 'Transfer-Encoding: chunked'), `FFFFFFF\r\n${'x'.repeat(2 * 1024 * 1024)}`],
  ] as const) {
    test(`${what}: the rest stays in the network meanwhile, and the connection ends with it`, async () => {
      let asked = 0
      const { server, handled } = serve({
        tooLarge: async () => {
          asked++
          await sleep(200)
          return reply(413, 'too large')
        },
      })
      const client = await open(server)
      const began = performance.now()
      client.send(first + rest)
      for (let i = 0; i < 64; i++) client.send(Buffer.alloc(65536, 'x'))
      // What the client still sends may cost it the answer; that it is rid of the connection late is what counts.
      await client.closes()
      assert.ok(performance.now() - began >= 190)
      assert.equal(asked, 1)
      assert.deepEqual(handled, [])
      await until(() => server.openConnections === 0 && server.inFlight === 0)
    })
  }
})

describe('slow clients', { concurrency: true }, () => {
  const cases = [
    ['a head that trickles', 'GET / HTTP/1.1\r\nHost: t\r\n', 'X: y\r\n'],
    ['a body that trickles', head('POST /', 'Content-Length: 900'), 'x'],
    ['a body below the least rate', head('POST /', 'Transfer-Encoding: chunked'), `1\r\nx\r\n`],
    ['a connection that says nothing', '', ''],
    // What newer parsers of the library answer with 400 at once.
    ['a head that is a request line only', 'GET / HTTP/1.1\r\n\r\n', ''],
    ['a line of a head without a colon', head('GET /', 'nothing'), ''],
    ['white space before a colon', head('GET /', 'X : y'), ''],
    ['a folded line of a head', head('GET /', 'X: y', ' z'), ''],
    ['NUL in a head', head('GET /', 'X: \0'), ''],
  ] as const
  for (const [what, first, more] of cases) {
    test(`${what} is ended after ten seconds or little more`, async () => {
      // Not `serve`: these tests run at the same time.
      const server = listen({
        host: '127.0.0.1',
        port: 0,
        maxBodyBytes: 1000,
        keptHeaders: [],
        handler: () => assert.fail('the handler must not see it'),
        onError: () => reply(500),
        tooLarge: () => reply(413),
        badRequest: () => reply(400),
      })
      const client = await openRaw(server.port)
      client.send(first)
      const trickle = more ? setInterval(() => client.send(more), 250) : undefined
      try {
        assert.match(await client.closes(), /^(?:HTTP\/1\.1 400 [\s\S]*)?$/)
        assert.equal(server.bufferedBytes, 0)
      } finally {
        clearInterval(trickle)
        client.socket.destroy()
        server.close()
      }
    })
  }
})
