/** The HTTP adapter against raw sockets: framing, limits, hostile and vanishing clients (RFC 9112, RFC 9110). */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { HttpHandler, HttpReply, HttpRequest, HttpServer } from '../../src/http/http-message.ts'
import { until as untilFact } from '../support/until.ts'
import { head, open, openRaw, type RawConnection, reply, serve } from './raw-client.ts'

const until = (condition: () => boolean) => untilFact('a fact about the server', condition)

/** An answer that comes when the test says so. */
function held(): { answer: HttpHandler; send(reply: HttpReply): void } {
  let send: (reply: HttpReply) => void = () => {}
  const coming = new Promise<HttpReply>((resolve) => {
    send = resolve
  })
  return { answer: () => coming, send }
}

async function later<T>(value: T, ms = 20): Promise<T> {
  await sleep(ms)
  return value
}

/** So that no part of it is like another. */
function numbered(bytes: Buffer): Buffer {
  for (let at = 0; at < bytes.length; at += 4) bytes.writeUInt32LE(at, at)
  return bytes
}

async function requireBody(client: RawConnection, body: Buffer): Promise<void> {
  await until(() => client.text.length > body.length)
  assert.ok(Buffer.from(client.text.slice(client.text.indexOf('\r\n\r\n') + 4), 'latin1').equals(body))
}

/** Every case twice: answered in the same turn, and after an await. */
const TURNS = [
  ['at once', (value: HttpReply) => value],
  ['later', (value: HttpReply) => later(value)],
] as const

describe('replies', () => {
  for (const [when, answer] of TURNS) {
    test(`a reply ${when} carries its status, its headers in order and its length`, async () => {
      const links = [
        ['Link', '<a>;rel="index"'],
        ['Link', '<b>;rel="up"'],
        ['X-Third', 'ü'],
      ] as const
      const client = await open(
        serve(() => answer(reply(201, 'grüße', links))),
        head('GET /'),
      )
      const text = await client.receives(/\r\n\r\n.{7}/)
      assert.match(text, /^HTTP\/1\.1 201 Created\r\nLink: <a>;rel="index"\r\nLink: <b>;rel="up"\r\nX-Third: /)
      assert.match(text, /\r\nContent-Length: 7\r\n/)
      assert.match(text, /\r\nDate: \w{3}, \d{2} /)
      assert.doesNotMatch(text, /uwebsockets/i)
    })

    // RFC 9110 §9.3.2: HEAD has the headers of GET and no body.
    test(`HEAD ${when} reports the length and sends no body`, async () => {
      const client = await open(
        serve((request) => answer(reply(200, request.path === '/empty' ? '' : 'é body'))),
        head('HEAD /'),
      )
      assert.match(await client.receives(/\r\n\r\n$/), /Content-Length: 7\r\n/)
      client.send(head('HEAD /empty'))
      assert.match(await client.receives(/\r\n\r\n.*\r\n\r\n$/s), /Content-Length: 0\r\n/)
      client.send(head('GET /'))
      await client.receives(/ body$/)
    })

    // RFC 9110 §8.6: no Content-Length in a 204.
    test(`204 ${when} has neither body nor length`, async () => {
      const client = await open(
        serve(() => answer(reply(204))),
        head('GET /') + (when === 'at once' ? head('GET /') : ''),
      )
      assert.doesNotMatch(await client.receives(/\r\n\r\n$/), /Content-Length/i)
    })

    test(`a large reply ${when} reaches a slow reader whole`, async () => {
      const body = numbered(Buffer.alloc(8 * 1024 * 1024))
      const server = serve(() => answer(reply(200, body, [['X-Kind', 'large']])))
      const client = await open(server)
      client.socket.pause()
      client.send(head('GET /'))
      await until(() => server.inFlight === 1)
      await sleep(100)
      assert.equal(server.inFlight, 1, 'the rest waits for the socket')
      client.socket.resume()
      await until(() => server.inFlight === 0)
      await requireBody(client, body)
      client.send(head('HEAD /'))
      await client.receives(/Content-Length: 8388608\r\n(?:.*\r\n)*\r\n$/)
    })

    test(`a large reply ${when} from memory that threads share leaves others their turn, and arrives whole`, async () => {
      const body = numbered(Buffer.from(new SharedArrayBuffer(16 * 1024 * 1024)))
      const server = serve((request) =>
        request.path === '/large' ? answer(reply(200, body)) : reply(200, `${server.inFlight} in flight`),
      )
      const [large, small] = [await open(server), await open(server)]
      large.send(head('GET /large'))
      // It takes several turns of the loop that this test shares with the server.
      while (server.inFlight === 0) await nextTurn()
      small.send(head('GET /'))
      await small.receives(/1 in flight$/)
      await until(() => server.inFlight === 0)
      await requireBody(large, body)
    })

    test(`a client that leaves during a large reply ${when} leaves nothing behind`, async () => {
      const server = serve(() => answer(reply(200, Buffer.alloc(8 * 1024 * 1024))))
      const client = await open(server)
      client.socket.pause()
      client.send(head('GET /'))
      await until(() => server.inFlight === 1)
      await sleep(50)
      client.socket.destroy()
      await until(() => server.inFlight === 0 && server.openConnections === 0)
      assert.equal(server.counters.aborted, 1)
    })

    for (const [what, bad] of [
      ['a line break in a header value', reply(200, '', [['Location', 'x\r\nSet-Cookie: y']])],
      ['a line break in a header name', reply(200, '', [['X\r\nY', 'x']])],
      ['an unknown status', reply(99)],
      ['no body', { status: 200, headers: [] } as unknown as HttpReply],
      ['nothing at all', undefined as unknown as HttpReply],
    ] as const) {
      test(`a reply ${when} with ${what} becomes the error reply`, async () => {
        const server = serve(() => answer(bad))
        const client = await open(server, head('GET /'))
        const text = await client.receives(/error: /)
        assert.match(text, /^HTTP\/1\.1 500 /)
        assert.doesNotMatch(text, /Set-Cookie/)
        assert.equal(server.counters.handlerErrors, 1)
      })
    }
  }
})

describe('a handler that fails', () => {
  for (const [how, handler] of [
    ['throws', () => assert.fail('no')],
    ['rejects', () => Promise.reject(new Error('no'))],
    ['rejects later', () => later(null).then(() => assert.fail('no'))],
  ] as const satisfies readonly (readonly [string, HttpHandler])[]) {
    for (const line of ['GET /', 'POST /']) {
      const request = line === 'GET /' ? head(line) : `${head(line, 'Content-Length: 2')}hi`
      test(`${line}: one that ${how} is answered by onError, and the connection goes on`, async () => {
        const client = await open(serve(handler), request)
        await client.receives(/500 Internal Server Error[\s\S]*error: no$/)
        client.send(request)
        await client.receives(/(error: no[\s\S]*){2}$/)
      })

      test(`${line}: one that ${how}, with an onError that throws too, is a bare 500`, async () => {
        const server = serve(handler, { onError: () => assert.fail('again') })
        const client = await open(server, request)
        await client.receives(/^HTTP\/1\.1 500 [\s\S]*Content-Length: 0\r\n\r\n$/)
        assert.equal(server.counters.handlerErrors, 2)
      })
    }
  }
})

describe('the request value', () => {
  test('has method, path, query, kept headers and peer, also after an await', async () => {
    const seen: unknown[] = []
    const facts = (request: HttpRequest) => [
      request.method,
      request.path,
      request.query,
      request.header('x-kept'),
      request.header('content-type'),
      request.header('x-dropped'),
      request.peerAddress,
      request.body.toString(),
    ]
    const client = await open(
      serve(async (request) => {
        if (request.query !== 'late=1') seen.push(facts(request))
        await sleep(10)
        seen.push(facts(request))
        return reply(200, 'done')
      }),
    )
    client.send(head('GET /a%20b/c?x=%41&y', 'X-Kept: 1 2 ', 'X-Dropped: no'))
    await client.receives(/done$/)
    const expected = ['GET', '/a%20b/c', 'x=%41&y', '1 2', undefined, undefined, '127.0.0.1', '']
    assert.deepEqual(seen.splice(0), [expected, expected])

    client.send(head('GET /?late=1', 'X-Kept: z'))
    await client.receives(/(done[\s\S]*){2}$/)
    assert.deepEqual(seen.splice(0), [['GET', '/', 'late=1', 'z', undefined, undefined, '127.0.0.1', '']])

    client.send(`${head('POST /p', 'Content-Type: a/b', 'Content-Length: 4')}body`)
    await client.receives(/(done[\s\S]*){3}$/)
    const posted = ['POST', '/p', '', undefined, 'a/b', undefined, '127.0.0.1', 'body']
    assert.deepEqual(seen, [posted, posted])
  })

  // RFC 9110 §5.3: a proxy may put its entry in a line of its own, behind what the client sent.
  test('a list header in several lines is one list, in order', async () => {
    const seen: unknown[] = []
    const client = await open(
      serve(async (request) => {
        if (request.query === '') seen.push(request.header('x-list'))
        await sleep(5)
        seen.push(request.header('x-list'), request.header('x-kept'))
        return reply(200, 'done')
      }),
    )
    const lines = ['X-List: a', 'X-Kept: first', 'X-List:', 'x-list: b, c', 'X-Kept: second', 'X-LIST: d']
    client.send(head('GET /', ...lines))
    await client.receives(/done$/)
    client.send(head('GET /?late', ...lines))
    await client.receives(/(done[\s\S]*){2}$/)
    client.send(`${head('POST /', ...lines, 'Content-Length: 1')}x`)
    await client.receives(/(done[\s\S]*){3}$/)
    client.send(head('GET /'))
    await client.receives(/(done[\s\S]*){4}$/)
    const list = 'a, b, c, d'
    assert.deepEqual(seen, [list, list, 'first', list, 'first', list, list, 'first', undefined, undefined, undefined])
  })

  test('a v4 client of a dual-stack listener is shown as IPv4', async (t) => {
    let server: HttpServer
    try {
      server = serve((request) => reply(200, request.peerAddress), { host: '::' })
    } catch {
      t.skip('no IPv6 on this machine')
      return
    }
    const v4 = await open(server, head('GET /'))
    await v4.receives(/\r\n127\.0\.0\.1$/)
    const v6 = await open(server, head('GET /'), '::1')
    await v6.receives(/\r\n::1$/)
  })

  // RFC 9110 §9.1: the method is case-sensitive.
  test('the method is given as sent', async () => {
    const client = await open(serve((request) => reply(200, `<${request.method}>`)))
    for (const method of ['GET', 'get', 'POST', 'DELETE', 'PATCH', 'PUT', 'OPTIONS', 'BREW']) {
      client.send(head(`${method} /`))
      await client.receives(new RegExp(`<${method}>$`))
    }
  })
})

describe('bodies', () => {
  const echo: HttpHandler = async (request) => {
    await sleep(5)
    return reply(200, `[${request.body.length}:${request.body.toString('latin1')}]`)
  }

  for (const size of [1, 2, 999, 1000]) {
    const content = 'abcdefghij'.repeat(100).slice(0, size)
    test(`of ${size} octets arrive whole, in one piece, octet by octet or chunked`, async () => {
      const server = serve(echo)
      const client = await open(server)
      const expected = new RegExp(`\\[${size}:${content}\\]$`)
      client.send(head('POST /', `Content-Length: ${size}`) + content)
      await client.receives(expected)

      const second = await open(server)
      second.socket.setNoDelay(true)
      second.send(head('POST /', `Content-Length: ${size}`))
      for (let at = 0; at < size; at += Math.ceil(size / 20)) {
        await sleep(1)
        second.send(content.slice(at, at + Math.ceil(size / 20)))
      }
      await second.receives(expected)

      const third = await open(server, head('POST /', 'Transfer-Encoding: chunked'))
      const half = Math.ceil(size / 2)
      for (const part of [content.slice(0, half), content.slice(half)].filter((part) => part !== '')) {
        third.send(`${part.length.toString(16)}\r\n${part}\r\n`)
        await sleep(5)
      }
      third.send('0\r\n\r\n')
      await third.receives(expected)
    })
  }

  test('that are empty by declaration, by absence or by a last chunk only are empty', async () => {
    const client = await open(serve(echo), head('POST /', 'Content-Length: 0'))
    await client.receives(/(\[0:\][\s\S]*){1}$/)
    client.send(head('POST /'))
    await client.receives(/(\[0:\][\s\S]*){2}$/)
    client.send(`${head('POST /', 'Transfer-Encoding: chunked')}0\r\n\r\n`)
    await client.receives(/(\[0:\][\s\S]*){3}$/)
  })

  test('of GET and HEAD are skipped', async () => {
    const client = await open(
      serve(() => reply(200, 'ok')),
      `${head('GET /', 'Content-Length: 5')}hello${head('GET /')}`,
    )
    await client.receives(/(ok[\s\S]*){2}$/)
  })

  // RFC 9110 §10.1.1
  test('announced by Expect: 100-continue are asked for', async () => {
    const client = await open(serve(echo), head('POST /', 'Content-Length: 5', 'Expect: 100-continue'))
    await client.receives(/^HTTP\/1\.1 100 Continue\r\n\r\n$/)
    client.send('hello')
    await client.receives(/100 Continue\r\n\r\nHTTP\/1\.1 200 OK[\s\S]*\[5:hello\]$/)
  })

  test('cut short by the client are never handed to the handler', async () => {
    let called = 0
    const aborted: string[] = []
    const server = serve(
      () => {
        called++
        return reply(200)
      },
      {
        onAborted({ path, isOver }) {
          assert.ok(isOver)
          aborted.push(path)
        },
      },
    )
    for (const start of [
      `${head('POST /length', 'Content-Length: 10')}hello`,
      `${head('POST /chunked', 'Transfer-Encoding: chunked')}5\r\nhel`,
      head('POST /none', 'Content-Length: 10'),
    ]) {
      const client = await open(server, start)
      await until(() => server.inFlight === 1)
      client.socket.destroy()
      await until(() => server.inFlight === 0)
    }
    assert.equal(called, 0)
    assert.deepEqual(aborted, ['/length', '/chunked', '/none'])
    assert.equal(server.counters.aborted, 3)
  })
})

describe('bodies over the limit', () => {
  const never: HttpHandler = () => assert.fail('the handler must not see it')

  test('are refused by their declared length, before they are sent; the connection is still good', async () => {
    const server = serve((request) => (request.method === 'GET' ? reply(200, 'fine') : never(request)))
    const client = await open(server, head('POST /x', 'Content-Length: 1001'))
    await client.receives(/^HTTP\/1\.1 413 [\s\S]*too large: POST \/x$/)
    client.send('a'.repeat(1001) + head('GET /'))
    await client.receives(/fine$/)
    assert.equal(server.counters.tooLarge, 1)
  })

  test('far over the limit end the connection behind the 413', async () => {
    const client = await open(serve(never), head('POST /x', 'Content-Length: 999999999999'))
    assert.match(await client.closes(), /^HTTP\/1\.1 413 [\s\S]*Connection: close\r\n[\s\S]*too large: POST \/x$/)
  })

  test('that are chunked are counted, not stored, and refused at their end', async () => {
    const client = await open(serve(never), head('POST /x', 'Transfer-Encoding: chunked'))
    for (let part = 0; part < 10; part++) client.send(`c8\r\n${'a'.repeat(200)}\r\n`)
    await sleep(30)
    assert.equal(client.text, '')
    client.send('0\r\n\r\n')
    await client.receives(/^HTTP\/1\.1 413 [\s\S]*too large: POST \/x$/)
  })

  test('that are chunked without end are cut off', async () => {
    const server = serve(never)
    const client = await open(server)
    client.socket.on('error', () => undefined)
    client.send(head('POST /x', 'Transfer-Encoding: chunked'))
    const chunk = `10000\r\n${'a'.repeat(0x10000)}\r\n`
    for (let part = 0; part < 64 && !client.closed; part++) {
      client.send(chunk)
      await sleep(1)
    }
    await until(() => server.openConnections === 0)
    assert.equal(server.counters.tooLarge, 1)
    assert.equal(server.inFlight, 0)
  })

  test('in more than a thousand small chunks are refused', async () => {
    const server = serve(never, { maxBodyBytes: 65_536 })
    const client = await open(
      server,
      `${head('POST /', 'Transfer-Encoding: chunked')}${'1\r\na\r\n'.repeat(2_000)}0\r\n\r\n`,
    )
    assert.match(await client.closes(), /^HTTP\/1\.1 400 Bad Request[\s\S]*bad request$/)
    assert.deepEqual([server.inFlight, server.bufferedBytes], [0, 0])
  })

  test('in many thousands of small chunks end the connection at once', async () => {
    const server = serve(never, { maxBodyBytes: 65_536 })
    const client = await open(server)
    client.socket.on('error', () => undefined)
    client.send(`${head('POST /', 'Transfer-Encoding: chunked')}${'1\r\na\r\n'.repeat(20_000)}0\r\n\r\n`)
    assert.equal(await client.closes(), '')
    assert.deepEqual([server.counters.aborted, server.inFlight, server.bufferedBytes], [1, 0, 0])
  })

  test('in a thousand small chunks are read', async () => {
    const client = await open(
      serve((request) => reply(200, `<${request.body.length}>`)),
      `${head('POST /', 'Transfer-Encoding: chunked')}${'1\r\na\r\n'.repeat(1000)}0\r\n\r\n`,
    )
    await client.receives(/<1000>$/)
  })

  test('announced by Expect: 100-continue get the 413', async () => {
    const client = await open(serve(never), head('POST /x', 'Content-Length: 2000', 'Expect: 100-continue'))
    await client.receives(/HTTP\/1\.1 413 [\s\S]*too large/)
  })
})

describe('a client that leaves', () => {
  test('while its answer is pending has its answer dropped', async () => {
    let end: () => void = () => {}
    let ended = 0
    const server = serve(async (request) => {
      if (request.path === '/at-once') return reply(200)
      await new Promise<void>((resolve) => {
        end = resolve
      })
      ended++
      if (request.path === '/reject') throw new Error('nobody hears it')
      return reply(200)
    })
    for (const path of ['/', '/reject']) {
      const client = await open(server, head(`GET ${path}`))
      await until(() => server.inFlight === 1)
      client.socket.destroy()
      await until(() => server.inFlight === 0)
      end()
    }
    await until(() => ended === 2)
    assert.equal(server.counters.aborted, 2)
    const client = await open(server, head('GET /at-once'))
    await client.receives(/200 OK/)
  })
})

describe('a reply that closes', () => {
  for (const [when, answer] of TURNS) {
    for (const method of ['GET', 'HEAD', 'POST']) {
      test(`${when}, to a ${method}, ends the connection behind itself`, async () => {
        const server = serve(() => answer({ ...reply(403, 'refused'), closes: true }))
        const client = await open(server, head(`${method} /`))
        const text = await client.closes()
        assert.match(text, /^HTTP\/1\.1 403 Forbidden\r\n[\s\S]*Connection: close\r\n/)
        assert.match(text, /Content-Length: 7\r\n/)
        assert.ok(text.endsWith(method === 'HEAD' ? '\r\n\r\n' : '\r\n\r\nrefused'))
        assert.deepEqual([server.inFlight, server.counters.aborted], [0, 0])
      })
    }
  }

  test('to a HEAD while the server drains, too', async () => {
    const { answer, send } = held()
    const server = serve(answer)
    const client = await open(server, head('HEAD /'))
    await until(() => server.inFlight === 1)
    const drained = server.drain(20_000)
    send(reply(200, 'listed'))
    assert.match(await client.closes(), /Content-Length: 6\r\n/)
    assert.equal(await drained, 0)
  })
})

describe('pipelining', () => {
  test('plain replies come in order, bodies included', async () => {
    const client = await open(serve((request) => reply(200, `<${request.path}${request.body}>`)))
    client.send(
      `${head('GET /1')}${head('POST /2', 'Content-Length: 2')}ab${head('GET /3')}${head('POST /4', 'Transfer-Encoding: chunked')}1\r\nc\r\n0\r\n\r\n`,
    )
    await client.receives(/<\/1>[\s\S]*<\/2ab>[\s\S]*<\/3>[\s\S]*<\/4c>$/)
  })

  for (const together of [true, false]) {
    test(`a request ${together ? 'sent along' : 'sent'} while an answer is pending closes the connection, nothing is mixed up`, async () => {
      const handled: string[] = []
      const { answer, send } = held()
      const server = serve((request) => {
        handled.push(request.path)
        return answer(request)
      })
      const client = await open(server)
      if (together) client.send(head('GET /1') + head('GET /2'))
      else {
        client.send(head('GET /1'))
        await until(() => server.inFlight === 1)
        client.send(head('GET /2'))
      }
      assert.equal(await client.closes(), '')
      assert.deepEqual(handled, ['/1'])
      assert.equal(server.counters.aborted, 1)
      send(reply(200, 'nobody hears it'))
      await sleep(20)
      assert.equal(server.inFlight, 0)
    })
  }
})

describe('a client that asks and does not read', () => {
  const ANSWERED = { GET: 'GET /', POST: 'POST /' } as const
  for (const [method, line] of Object.entries(ANSWERED)) {
    test(`has its connection ended when a read brings more requests by ${method} than a turn answers`, async () => {
      const server = serve(() => reply(200, 'answer'))
      const client = await open(server)
      client.socket.pause()
      client.socket.on('error', () => undefined)
      client.send((method === 'POST' ? `${head(line, 'Content-Length: 2')}{}` : head(line)).repeat(10_000))
      await until(() => server.counters.requests > 0 && server.openConnections === 0)
      assert.ok(server.counters.requests < 32, `${server.counters.requests} requests were handled`)
      assert.deepEqual([server.counters.aborted, server.inFlight], [1, 0])
    })
  }

  test('leaves those their turn that ask once: all are answered, however many come at a time', async () => {
    const server = serve((request) => reply(200, `<${request.path}>`))
    const clients = await Promise.all(Array.from({ length: 100 }, () => open(server)))
    for (const [at, client] of clients.entries()) client.send(head(`GET /${at}`))
    await Promise.all(clients.map((client, at) => client.receives(new RegExp(`</${at}>$`))))
    assert.deepEqual([server.counters.requests, server.counters.aborted], [100, 0])
  })

  test('has its connection ended when its replies fill the socket, one request at a time', async () => {
    const body = 'a'.repeat(60_000)
    const server = serve(() => reply(200, body))
    const client = await open(server)
    client.socket.pause()
    client.socket.on('error', () => undefined)
    const MOST = 1000
    for (let sent = 0; sent < MOST && server.openConnections > 0; ) {
      client.send(head('GET /'))
      sent++
      await until(() => server.counters.requests === sent || server.openConnections === 0)
    }
    assert.equal(server.openConnections, 0, `60 MB wait unread`)
    assert.equal(server.inFlight, 0)
  })

  for (const [line, answer] of [
    ['HEAD /', reply(200, 'x')],
    ['GET /', reply(204)],
  ] as const) {
    test(`has its connection ended behind some hundred replies without a body (${answer.status})`, async () => {
      const server = serve(() => answer)
      const client = await open(server)
      for (let sent = 0; sent < 1000 && server.openConnections > 0; ) {
        client.send(head(line))
        sent++
        await until(() => server.counters.requests === sent || server.openConnections === 0)
      }
      const text = await client.closes()
      const replies = text.split('\r\n\r\n').slice(0, -1)
      assert.ok(replies.length >= 128 && replies.length <= 384, `${replies.length} replies`)
      assert.deepEqual(
        replies.map((one) => one.includes('Connection: close')),
        replies.map((_, at) => at === replies.length - 1),
      )
      assert.equal(server.inFlight, 0)
    })
  }

  test('and resets its connection is not answered any more, since its address is unknown', async () => {
    const seen: string[] = []
    const server = serve((request) => {
      seen.push(request.path, request.peerAddress)
      client.socket.resetAndDestroy()
      return reply(200)
    })
    const client = await open(server, head('GET /1') + head('GET /2') + head('GET /3'))
    await until(() => server.openConnections === 0 && server.counters.requests > 0)
    assert.deepEqual(seen, ['/1', '127.0.0.1'])
  })
})

describe('a chunked request', () => {
  const chunkedHead = (line: string) => head(line, 'Transfer-Encoding: chunked')
  const BODY = '2\r\n{}\r\n0\r\n'
  const restOf = (pieces: string[]) => ({ next: async () => pieces.shift(), cancel: () => undefined })

  for (const method of ['POST', 'DELETE'])
    for (const [how, handler] of Object.entries({
      'at once': () => reply(200, 'answered'),
      later: async () => reply(200, 'answered'),
      'in pieces': () => ({ ...reply(200, 'answered'), rest: restOf(['and', 'more']) }),
    }) as [string, HttpHandler][])
      test(`${method} answered ${how}: has its answer, and its connection ends`, async () => {
        const server = serve(handler)
        const client = await open(server, `${chunkedHead(`${method} /`)}${BODY}\r\n`)
        const text = await client.closes()
        assert.match(text, /^HTTP\/1\.1 200 OK\r\n(?:.+\r\n)*Connection: close\r\n/)
        if (how === 'in pieces') assert.match(text, /\r\n3\r\nmor\r\n1\r\ne\r\n0\r\nX-End: 1\r\n\r\n$/)
        assert.deepEqual([server.counters.requests, server.inFlight, server.bufferedBytes], [1, 0, 0])
      })

  for (const method of ['GET', 'HEAD'])
    test(`${method} is refused: a reply of many octets would leave its connection open (RFC 9112 §6.3)`, async () => {
      const seen: string[] = []
      const server = serve(({ path }) => {
        seen.push(path)
        return reply(200, 'x'.repeat(1_000_000))
      })
      const client = await open(server, `${chunkedHead(`${method} /`)}${BODY}`)
      const text = await client.closes()
      assert.match(text, /^HTTP\/1\.1 400 Bad Request\r\n(?:.+\r\n)*Connection: close\r\n/)
      assert.deepEqual([seen, server.inFlight], [[], 0])
    })

  for (const admits of [true, false])
    for (const method of ['POST', 'GET', 'HEAD', 'DELETE'])
      for (const [what, behind] of Object.entries({
        'two octets and a request in place of the last CRLF (RFC 9112 §7.1)': `${BODY}XX${head('GET /smuggled')}`,
        'a trailer (RFC 9112 §7.1.2)': `${BODY}GET /smuggled HTTP/1.1: x\r\n\r\n`,
        'a trailer that holds a request (RFC 9112 §11.2)': `${BODY}a:${head('GET /smuggled')}`,
        'a chunk extension (RFC 9112 §7.1.1)': `2;a=b\r\n{}\r\n0\r\n\r\n${head('GET /smuggled')}`,
        'another request': `${BODY}\r\n${head('GET /smuggled')}`,
      }))
        test(`${method} with ${what}${admits ? '' : ', refused by its head'}: nothing behind it is answered`, async () => {
          const seen: string[] = []
          const handler: HttpHandler = ({ path }) => {
            seen.push(path)
            return reply(200, 'answered')
          }
          const refusal = admits ? {} : { admit: () => reply(503, 'refused') }
          const server = serve(handler, refusal)
          const client = await open(server)
          client.socket.on('error', () => undefined)
          client.send(chunkedHead(`${method} /`) + behind)
          const text = await client.closes()
          assert.ok((text.match(/^HTTP\/1\.1 (?:200|503)/gm)?.length ?? 0) <= 1, text)
          assert.equal(seen.includes('/smuggled'), false)
          assert.equal(server.inFlight, 0)
        })
})

describe('requests that are none', () => {
  const CASES: Record<string, [sent: string, answer: RegExp]> = {
    'both length headers (RFC 9112 §6.1)': [head('POST /', 'Content-Length: 5', 'Transfer-Encoding: chunked'), /400/],
    'two different lengths (RFC 9112 §6.3)': [
      `${head('POST /', 'Content-Length: 5', 'Content-Length: 6')}hello!`,
      /400 Bad Request[\s\S]*bad request$/,
    ],
    'two different lengths of a GET, one of them zero': [
      head('GET /', 'Content-Length: 0', 'Content-Length: 6'),
      /^HTTP\/1\.1 400 Bad Request[\s\S]*bad request$/,
    ],
    'two different lengths, and a request behind the shorter one (RFC 9112 §11.2)': [
      `${head('POST /', 'Content-Length: 0', 'Content-Length: 60')}${head('GET /smuggled')}`,
      /^$/,
    ],
    'two different lengths, and a request behind the shorter body (RFC 9112 §11.2)': [
      `${head('POST /', 'Content-Length: 5', 'Content-Length: 60')}hello${head('GET /smuggled')}`,
      /^$/,
    ],
    'a negative length': [`${head('POST /', 'Content-Length: -5')}hello`, /400/],
    'a length that is no number': [`${head('POST /', 'Content-Length: 0x5')}hello`, /400/],
    'a length that is a letter': [`${head('POST /', 'Content-Length: x')}hello`, /^(?:HTTP\/1\.1 400 [\s\S]*)?$/],
    'a length with a sign': [`${head('POST /', 'Content-Length: +5')}hello`, /^(?:HTTP\/1\.1 400 [\s\S]*)?$/],
    'a length with an exponent': [`${head('POST /', 'Content-Length: 5e0')}hello`, /^(?:HTTP\/1\.1 400 [\s\S]*)?$/],
    'a list of lengths': [`${head('POST /', 'Content-Length: 5, 5')}hello`, /^(?:HTTP\/1\.1 400 [\s\S]*)?$/],
    'a length of a GET that is a letter': [head('GET /', 'Content-Length: x'), /^(?:HTTP\/1\.1 400 [\s\S]*)?$/],
    'an empty length before another, and a request as the body': [
      head('POST /', 'Content-Length:', 'Content-Length: 31') + head('GET /smuggled'),
      /^(?:HTTP\/1\.1 400 [\s\S]*)?$/,
    ],
    'an empty transfer coding before another': [
      `${head('POST /', 'Transfer-Encoding:', 'Transfer-Encoding: chunked')}0\r\n\r\n`,
      /^(?:HTTP\/1\.1 (?:400|505) [\s\S]*)?$/,
    ],
    'an unknown transfer coding': [`${head('POST /', 'Transfer-Encoding: gzip')}hello`, /400/],
    'another transfer coding that looks like chunked (RFC 9112 §6.1)': [
      `${head('POST /', 'Transfer-Encoding: identity')}0\r\n\r\n${head('GET /smuggled')}`,
      /^(?:HTTP\/1\.1 400 Bad Request[\s\S]*bad request)?$/,
    ],
    'such a coding of a GET': [
      `${head('GET /', 'Transfer-Encoding: identity')}0\r\n\r\n${head('GET /smuggled')}`,
      /^(?:HTTP\/1\.1 400 Bad Request[\s\S]*bad request)?$/,
    ],
    'two transfer codings in two lines': [
      `${head('POST /', 'Transfer-Encoding: chunked', 'Transfer-Encoding: identity')}5\r\nhello\r\n0\r\n\r\n`,
      /^(?:HTTP\/1\.1 400 Bad Request[\s\S]*bad request)?$/,
    ],
    'no Host (RFC 9112 §3.2)': ['GET / HTTP/1.1\r\nAccept: a/b\r\n\r\n', /^HTTP\/1\.1 400 /],
    'two Hosts (RFC 9112 §3.2)': [head('POST /', 'Host: other.test', 'Content-Length: 0'), /^HTTP\/1\.1 400 /],
    'two equal Hosts of a GET': [head('GET /', 'Host: test'), /^HTTP\/1\.1 400 /],
    'an invalid Host': ['GET / HTTP/1.1\r\nHost: a b\r\n\r\n', /^HTTP\/1\.1 400 /],
    'an invalid Host of a POST': ['POST / HTTP/1.1\r\nHost: a/b\r\nContent-Length: 0\r\n\r\n', /^HTTP\/1\.1 400 /],
    'a target in absolute form': [head('GET http://test/'), /^HTTP\/1\.1 (?:400|505) /],
    'HTTP/1.0': ['GET / HTTP/1.0\r\nHost: x\r\n\r\n', /505/],
    'a TLS hello': ['\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 \r\n\r\n', /505/],
  }
  for (const [what, [sent, answer]] of Object.entries(CASES)) {
    test(`${what}: refused, the connection closes, the handler sees nothing`, async () => {
      let called = 0
      const server = serve(() => {
        called++
        return reply(200)
      })
      const client = await open(server, sent)
      assert.match(await client.closes(), answer)
      assert.deepEqual([called, server.inFlight, server.bufferedBytes], [0, 0, 0])
    })
  }

  test('what follows a refused HEAD is no request, also where it comes later (RFC 9112 §11.2)', async () => {
    const server = serve(() => assert.fail('the handler must not see it'))
    const client = await open(server, head('HEAD /', 'Content-Length: 0', 'Content-Length: 35'))
    assert.match(await client.closes(), /^HTTP\/1\.1 400 Bad Request\r\n[\s\S]*Connection: close\r\n[\s\S]*\r\n\r\n$/)
    assert.deepEqual([server.inFlight, server.counters.aborted], [0, 0])
  })

  for (const method of ['GET', 'HEAD']) {
    test(`an empty length before another is refused for ${method} from a proxy, which may have read it otherwise`, async () => {
      const handled: string[] = []
      const handler: HttpHandler = ({ path }) => {
        handled.push(path)
        return reply(200, 'handled')
      }
      const server = serve(handler, { isTrustedProxy: (address) => address === '127.0.0.1' })
      const client = await open(
        server,
        head(`${method} /`, 'Content-Length:', 'Content-Length: 31') + head('GET /smuggled'),
      )
      await client.closes()
      assert.deepEqual(handled, [])
      const other = await open(server, head(`${method} /plain`))
      await other.receives(/200 OK/)
      assert.deepEqual(handled, ['/plain'])
    })
  }

  test('a head that comes in pieces and never ends is cut at 4 KiB', async () => {
    const server = serve(() => assert.fail('the handler must not see it'))
    const client = await open(server)
    client.socket.on('error', () => undefined)
    client.send('GET / HTTP/1.1\r\nHost: x\r\n')
    for (let line = 0; line < 100 && !client.closed; line++) {
      await sleep(2)
      client.send(`X-${line}: ${'a'.repeat(90)}\r\n`)
    }
    assert.match(await client.closes(), /431|400|^$/)
  })
})

describe('the end of a server', () => {
  test('draining: the pending answer arrives with Connection: close, new connections are refused', async () => {
    const { answer, send } = held()
    const server = serve(answer)
    const busy = await open(server, head('GET /'))
    await until(() => server.inFlight === 1)
    const drained = server.drain(20_000)
    await assert.rejects(openRaw(server.port), { code: 'ECONNREFUSED' })
    send(reply(200, 'last'))
    assert.match(await busy.closes(), /200 OK\r\n[\s\S]*Connection: close\r\n[\s\S]*last$/)
    assert.equal(await drained, 0)
    assert.equal(server.openConnections, 0)
  })

  test('draining: an idle connection may still ask once within the grace', async () => {
    for (;;) {
      const server = serve(() => reply(200, 'last'))
      const idle = await open(server, head('GET /'))
      await idle.receives(/last$/)
      const startedAt = performance.now()
      const drained = server.drain(20_000)
      await sleep(50)
      idle.send(head('GET /'))
      const text = await idle.closes()
      assert.equal(await drained, 0)
      const isAnswered = /last[\s\S]*Connection: close\r\n[\s\S]*last$/.test(text)
      if (isAnswered) return
      // Once more where this process stood still for the second that idle connections have.
      assert.ok(performance.now() - startedAt >= 1_000, text)
    }
  })

  test('closing after replies: a kept connection ends with its next reply, and new ones are taken', async () => {
    const server = serve(() => reply(200, 'served'))
    const kept = await open(server, head('GET /'))
    await kept.receives(/served$/)
    assert.doesNotMatch(kept.text, /Connection: close/)
    server.closeAfterReplies()
    const fresh = await open(server)
    for (const client of [kept, fresh]) {
      client.send(head('GET /'))
      assert.match(await client.closes(), /Connection: close\r\n[\s\S]*served$/)
    }
    assert.equal(await server.drain(20_000), 0)
  })

  test('a drain after that leaves an idle connection the twelve seconds in which its client may use it', async () => {
    const server = serve(() => reply(200, 'served'))
    const idle = await open(server)
    server.closeAfterReplies()
    const drained = server.drain(60_000)
    await sleep(3_000)
    idle.send(head('GET /'))
    assert.match(await idle.closes(), /served$/)
    assert.equal(await drained, 0)
  })

  test('draining ends at its deadline and says what is left', async () => {
    const { answer, send } = held()
    const server = serve(answer)
    const client = await open(server, head('GET /'))
    await until(() => server.inFlight === 1)
    assert.equal(await server.drain(100), 1)
    server.close()
    send(reply(200))
    assert.equal(await client.closes(), '')
    assert.equal(server.inFlight, 0)
    server.close()
    assert.equal(server.counters.aborted, 1)
  })

  test('an address that is taken, or not ours, is a clear error', async () => {
    const { createServer } = await import('node:net')
    const other = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => other.once('listening', resolve))
    const { port } = other.address() as { port: number }
    assert.throws(() => serve(() => reply(200), { port }), new RegExp(`cannot listen on 127.0.0.1 port ${port}`))
    assert.throws(() => serve(() => reply(200), { host: '192.0.2.1' }), /cannot listen on 192\.0\.2\.1/)
    other.close()
  })

  const LARGE = 'x'.repeat(100_000)
  const IN_PIECES = () => {
    const pieces = ['b', 'c']
    return { ...reply(200, 'a'), rest: { next: async () => pieces.shift(), cancel: () => undefined } }
  }
  const ANSWERS: Record<string, HttpHandler> = {
    'GET /': () => reply(200, 'x'),
    'GET /later': () => later(reply(200, 'x')),
    'GET /empty': () => reply(200),
    'GET /204': () => reply(204),
    'GET /large': () => reply(200, LARGE),
    'GET /in-pieces': IN_PIECES,
    'HEAD /': () => reply(200, 'x'),
  }

  // RFC 9112 §9.6: the option in a request ends the connection, and the reply should have it, too.
  for (const [line, handler] of Object.entries(ANSWERS))
    test(`Connection: close of a client is obeyed and said in the reply to ${line}`, async () => {
      const client = await open(serve(handler), head(line, 'Connection: Close'))
      const text = await client.closes()
      assert.match(text, /^HTTP\/1\.1 20[04] /)
      assert.deepEqual(text.match(/^Connection: .*/gm), ['Connection: close'])
    })

  // LWP of Perl sends `TE, close` (RFC 9110 §7.6.1: a list, whose options have no case).
  for (const headers of [['TE, close'], ['Close ,TE'], ['keep-alive', 'close'], ['close', 'TE']])
    test(`Connection: ${headers.join(' and ')} of a client is close`, async () => {
      const server = serve(() => reply(200, 'x'))
      const client = await open(server, head('GET /', ...headers.map((value) => `Connection: ${value}`)))
      assert.deepEqual((await client.closes()).match(/^Connection: .*/gm), ['Connection: close'])
    })

  test('other options of a client leave the connection open', async () => {
    const client = await open(serve(() => reply(200, 'x')))
    for (const option of ['keep-alive', 'closed', 'TE, not-close']) {
      client.send(head('GET /', `Connection: ${option}`))
      await client.receives(/x$/)
      assert.doesNotMatch(client.text, /close/)
    }
  })

  // RFC 9112 §9.6: who sent the option closes, and answers nothing after it.
  for (const line of ['GET /large', 'GET /in-pieces', 'POST /large', 'POST /in-pieces'])
    test(`the reply to ${line} that closes is whole, and the last one`, async () => {
      const seen: string[] = []
      const server = serve((request) => {
        seen.push(request.path)
        return request.path === '/large' ? reply(200, LARGE) : IN_PIECES()
      })
      const isPost = line.startsWith('POST')
      const lists = isPost ? ['Transfer-Encoding: chunked'] : ['Connection: TE, close']
      const client = await open(server, head(line, ...lists) + (isPost ? '0\r\n\r\n' : ''))
      await until(() => server.inFlight === 0 && seen.length === 1)
      client.socket.on('error', () => undefined)
      client.send(head('GET /behind'))
      const text = await client.closes()
      const body = text.slice(text.indexOf('\r\n\r\n') + 4)
      assert.deepEqual(text.match(/^Connection: .*/gm), ['Connection: close'])
      assert.equal(body, line.endsWith('large') ? LARGE : '1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\nX-End: 1\r\n\r\n')
      assert.deepEqual(seen, [line.slice(line.indexOf('/'))])
    })

  // RFC 9110 §8.6: the length of the first piece is not that of the whole.
  test('HEAD of a reply in pieces names no length', async () => {
    const client = await open(serve(IN_PIECES), head('HEAD /'))
    assert.doesNotMatch(await client.receives(/\r\n\r\n$/), /Content-Length/i)
  })

  test('a reply in pieces that closes says so in its head, and its chunks are whole (RFC 9112 §7.1)', async () => {
    const client = await open(
      serve(() => ({ ...IN_PIECES(), closes: true })),
      head('GET /'),
    )
    const text = await client.receives(/\r\n0\r\n/)
    assert.match(text, /^Connection: close\r$/m)
    assert.ok(text.endsWith('\r\n\r\n1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\nX-End: 1\r\n\r\n'), text)
  })
})
