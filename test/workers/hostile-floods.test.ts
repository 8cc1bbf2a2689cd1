/** Targets that never stop sending: how much of it is read before an attempt ends, whatever part of the protocol it fills. */

import assert from 'node:assert/strict'
import type { RequestListener } from 'node:http'
import type { Socket } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import type { ValidationVerdict } from '../../workers/job.ts'
import { validateHttp01 } from '../../workers/validate/http-01.ts'
import { validateTlsAlpn01 } from '../../workers/validate/tls-alpn-01.ts'
import { anAlpnJob } from './scripted-tls.ts'
import { aJob, KEY_AUTHORIZATION } from './scripted-web.ts'
import { assertInvalid, keptRaw, keptSecureWeb, keptWeb } from './verdicts.ts'

/** What a target tries to send at most. */
const FLOOD_BYTES = 64 * 1024 * 1024
/** Far less; it has room for the buffers of both ends in the kernel, which fill up unread. */
const MOST_BYTES = 24 * 1024 * 1024

/** Sends `piece` again and again as fast as the other side reads; `sent` counts until it hangs up. */
function flooding(piece: Buffer) {
  let sent = 0
  const flood = (socket: Socket) => {
    const more = () => {
      while (!socket.destroyed && sent < FLOOD_BYTES) {
        sent += piece.length
        if (!socket.write(piece)) return
      }
      socket.end()
    }
    socket.on('drain', more)
    more()
  }
  return { flood, sent: () => sent }
}

/** Sends `head` before the flood. */
async function startFlood(t: TestContext, head: string, piece: Buffer): Promise<{ port: number; sent(): number }> {
  const { flood, sent } = flooding(piece)
  const { port } = await keptRaw(t, (socket) => {
    if (head !== '') socket.write(head, 'latin1')
    flood(socket)
  })
  return { port, sent }
}

const repeated = (text: string) => Buffer.from(text.repeat(Math.ceil(65_536 / text.length)), 'latin1')

function assertCutOff(verdict: ValidationVerdict, sent: number, problem: string, reason: RegExp): void {
  assertInvalid(verdict, problem, true, reason)
  assert.ok(sent < MOST_BYTES, `${sent} bytes were sent`)
}

describe('a web server that sends without end', () => {
  const OK = 'HTTP/1.1 200 OK\r\n'
  const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n`
  const floods: Record<string, [head: string, piece: string]> = {
    'line ends before the status line': ['', '\r\n'],
    'informational responses': ['', 'HTTP/1.1 100 Continue\r\n\r\n'],
    'informational responses with headers': ['', `HTTP/1.1 103 Early Hints\r\nlink: </${'x'.repeat(4000)}>\r\n\r\n`],
    'informational responses of unknown kinds': ['', 'HTTP/1.1 199 Wait\r\n\r\n'],
    'one header': [`${OK}x-header: `, 'x'],
    'many headers': [OK, 'x-header: y\r\n'],
    'a status text': ['HTTP/1.1 200 ', 'x'],
    'an extension of every chunk': [CHUNKED, `1;${'x'.repeat(10_000)}\r\nx\r\n`],
    'zeros in front of a chunk size': [CHUNKED, '0'],
    trailers: [`${CHUNKED}57\r\n${KEY_AUTHORIZATION}\r\n0\r\n`, 'x-trailer: y\r\n'],
  }
  for (const [what, [head, piece]] of Object.entries(floods)) {
    test(`is cut off after a bounded number of bytes: ${what}`, async (t) => {
      const { port, sent } = await startFlood(t, head, repeated(piece))
      assertCutOff(await validateHttp01(aJob(port)), sent(), 'connection', /no complete response: /)
    })
  }

  const toSecure =
    (port: number): RequestListener =>
    (request, response) =>
      void response.writeHead(302, { location: `https://demo.test:${port}${request.url}` }).end()
  test('is cut off over TLS as well', async (t) => {
    const { flood, sent } = flooding(repeated('HTTP/1.1 103 Early Hints\r\n\r\n'))
    const secure = await keptSecureWeb(t, ({ socket }) => flood(socket))
    const web = await keptWeb(t, toSecure(secure.port))
    const verdict = await validateHttp01(aJob(web.port, { httpsPort: secure.port }))
    assertCutOff(verdict, sent(), 'connection', /no complete response/)
  })
  test('is told apart from one with a large page at every address, over TLS as well', async (t) => {
    const page: RequestListener = (_request, response) => void response.end(Buffer.alloc(1_000_000, 'x'))
    const secure = await keptSecureWeb(t, page)
    for (const listener of [page, toSecure(secure.port)]) {
      const web = await keptWeb(t, listener)
      const verdict = await validateHttp01(aJob(web.port, { httpsPort: secure.port }))
      assertInvalid(verdict, 'incorrectResponse', false, /the body is longer than the key authorization/)
    }
  })
  test('may send an honest number of informational responses and headers before the answer', async (t) => {
    const hints = 'HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n'.repeat(20)
    const headers = Array.from({ length: 30 }, (_, index) => `x-header-${index}: ${'y'.repeat(300)}\r\n`).join('')
    const answer = `${OK}${headers}content-length: ${KEY_AUTHORIZATION.length}\r\n\r\n${KEY_AUTHORIZATION}`
    const web = await keptRaw(t, (socket) => void socket.end(`${hints}${answer}`))
    const verdict = await validateHttp01(aJob(web.port))
    assert.equal(verdict.ok, true, JSON.stringify(verdict))
  })
})

describe('a TLS server that sends without end', () => {
  const record = (type: number, body: Buffer) =>
    Buffer.concat([Buffer.from([type, 3, 3, body.length >> 8, body.length & 0xff]), body])
  const floods: Record<string, Buffer> = {
    // RFC 5246 §7.4.1.1: a client that is negotiating already ignores them, however many there are.
    'HelloRequest messages': record(22, Buffer.alloc(16_384)),
    'HelloRequest messages, one a record': Buffer.concat(
      Array.from({ length: 1024 }, () => record(22, Buffer.alloc(4))),
    ),
    'warnings, one a record': Buffer.concat(Array.from({ length: 1024 }, () => record(21, Buffer.from([1, 90])))),
    'a handshake message of 16 MiB': record(22, Buffer.alloc(16_384, 2)),
  }
  for (const [what, piece] of Object.entries(floods)) {
    test(`is cut off after a bounded number of bytes: ${what}`, async (t) => {
      const { port, sent } = await startFlood(t, '', piece)
      assertCutOff(await validateTlsAlpn01(anAlpnJob(port)), sent(), 'tls', /no TLS connection/)
    })
  }
})
