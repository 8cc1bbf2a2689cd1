/**
 * Each rule by which the adapter ends a connection, whenever the reply is ready and however the octets arrive:
 * nothing behind that request is seen or answered (RFC 9112 §9.6, §11.2).
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { HttpReply, HttpServer, ListenOptions } from '../../src/http/http-message.ts'
import { head, open, type RawConnection, reply, serve } from './raw-client.ts'

type Settle = (value: HttpReply) => HttpReply | Promise<HttpReply>

const SETTLINGS: Readonly<Record<string, Settle>> = {
  'that is ready': (value) => value,
  'whose promise has settled': (value) => Promise.resolve(value),
  async 'that some promises of the same turn bring'(value) {
    for (let turn = 0; turn < 5; turn++) await undefined
    return value
  },
  async 'that comes later'(value) {
    await sleep(5)
    return value
  },
}

const DELIVERIES: Readonly<Record<string, (client: RawConnection, request: string, behind: string) => Promise<void>>> =
  {
    async 'in one write'(client, request, behind) {
      client.send(request + behind)
    },
    async 'in two writes'(client, request, behind) {
      client.send(request)
      await nextTurn()
      client.send(behind)
    },
    // The library answers a request line in pieces with 505 and closes.
    async 'octet by octet'(client, request, behind) {
      client.socket.setNoDelay(true)
      const line = request.indexOf('\r\n') + 2
      client.send(request.slice(0, line))
      for (const octet of request.slice(line)) {
        await nextTurn()
        client.send(octet)
      }
      client.send(behind)
    },
  }

interface Rule {
  request: string
  options?: (settle: Settle) => Partial<ListenOptions>
  closes?: true
  drains?: true
}

const chunked = (chunks: string) => `${head('POST /', 'Transfer-Encoding: chunked')}${chunks}0\r\n\r\n`

const RULES: Readonly<Record<string, Rule>> = {
  'behind a chunked body': { request: chunked('4\r\nbody\r\n') },
  'behind an empty chunked body': { request: chunked('') },
  'behind a chunked body over the limit': {
    request: chunked(`7d0\r\n${'a'.repeat(2000)}\r\n`),
    options: (settle) => ({ tooLarge: () => settle(reply(413, 'refused')) }),
  },
  'behind too many small chunks': {
    request: chunked('1\r\na\r\n'.repeat(1100)),
    options: (settle) => ({ maxBodyBytes: 65_536, badRequest: () => settle(reply(400, 'refused')) }),
  },
  'behind two hosts': {
    request: head('GET /', 'Host: other'),
    options: (settle) => ({ badRequest: () => settle(reply(400, 'refused')) }),
  },
  'behind two lengths': {
    request: `${head('POST /', 'Content-Length: 4', 'Content-Length: 5')}body`,
    options: (settle) => ({ badRequest: () => settle(reply(400, 'refused')) }),
  },
  'behind the wish to close': { request: head('GET /', 'Connection: keep-alive, close') },
  'behind a body and the wish to close': { request: `${head('POST /', 'Connection: close', 'Content-Length: 4')}body` },
  'behind a reply that closes': { request: head('GET /'), closes: true },
  'behind a refusal that closes': {
    request: head('GET /'),
    options: (settle) => ({
      admit: ({ path }) => (path === '/' ? settle({ ...reply(503, 'refused'), closes: true }) : undefined),
    }),
  },
  'while the server drains': { request: head('GET /'), drains: true },
}

async function requireOneReply(server: HttpServer, client: RawConnection, seen: readonly string[]): Promise<void> {
  const text = await client.closes()
  assert.ok((text.match(/HTTP\/1\.1 /g) ?? []).length <= 1, text)
  assert.doesNotMatch(text, /behind/)
  assert.ok(!seen.includes('/behind'), 'the handler saw it')
  assert.equal(server.inFlight, 0)
}

for (const [rule, { request, options, closes, drains }] of Object.entries(RULES))
  for (const [when, settle] of Object.entries(SETTLINGS))
    describe(`${rule}, a reply ${when}`, () => {
      for (const [how, deliver] of Object.entries(DELIVERIES))
        test(`is the last one, ${how}`, async () => {
          const seen: string[] = []
          const server = serve(({ path }) => {
            seen.push(path)
            return settle({ ...reply(200, path), ...(closes && { closes }) })
          }, options?.(settle))
          const client = await open(server)
          client.socket.on('error', () => undefined)
          if (drains) server.closeAfterReplies()
          await deliver(client, request, head('GET /behind'))
          await requireOneReply(server, client, seen)
        })
    })
