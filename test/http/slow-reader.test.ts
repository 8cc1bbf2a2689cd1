/** Replies that end their connection, and replies in pieces, for readers slower than the server. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { buffer } from 'node:stream/consumers'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { HttpReply } from '../../src/http/http-message.ts'
import { requireCommand } from '../support/requirements.ts'
import { until as untilFact } from '../support/until.ts'
import { head, open, reply, serve } from './raw-client.ts'

const until = (condition: () => boolean) => untilFact('a fact about a slow reader', condition)

const PIECE = 'é23456789abcde\n'.repeat(8 * 1024)
const PIECE_OCTETS = Buffer.byteLength(PIECE)

/** @param onAsked told of each further piece */
function inPieces(pieces: number, onAsked = (): void => undefined): HttpReply {
  let left = pieces - 1
  const next = async () => {
    onAsked()
    return left-- > 0 ? PIECE : undefined
  }
  return { ...reply(200, PIECE), rest: { next, cancel: () => undefined } }
}

/** The content of chunks, which end as a closing reply does (RFC 9112 §7.1). */
function contentOf(text: Buffer): Buffer {
  const content: Buffer[] = []
  for (let at = text.indexOf('\r\n\r\n') + 4; ; ) {
    const line = text.indexOf('\r\n', at)
    const size = Number.parseInt(text.toString('latin1', at, line), 16)
    if (size === 0) {
      assert.equal(text.toString('latin1', at), '0\r\nX-End: 1\r\n\r\n')
      return Buffer.concat(content)
    }
    assert.ok(size > 0, `a chunk begins with ${JSON.stringify(text.toString('latin1', at, at + 20))}`)
    content.push(text.subarray(line + 2, line + 2 + size))
    at = line + 2 + size + 2
  }
}

const CLOSERS: Readonly<Record<string, { header?: string; closes?: true; drains?: true }>> = {
  'that the client wants closed': { header: 'Connection: close' },
  'that a list wants closed': { header: 'Connection: TE, close' },
  'that the reply closes': { closes: true },
  'that the end of the server closes': { drains: true },
}

/**
 * Node.js can set neither: with the segments of loopback the system itself holds megabytes for a reader.
 * It stops after the first octets until it is told to go on, and prints what it has read.
 */
const READER = `
import socket, sys, time
port, request, pause = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
s = socket.socket()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 500)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
s.connect(('127.0.0.1', port))
s.sendall(request.encode())
read = bytearray()
while len(read) < pause:
  read += s.recv(4000) or sys.exit('cut off')
  time.sleep(0.0005)
print(len(read), flush=True)
sys.stdin.readline()
while not read.endswith(b'\\r\\n0\\r\\nX-End: 1\\r\\n\\r\\n'):
  more = s.recv(65536)
  if not more: break
  read += more
sys.stdout.buffer.write(read)
`

const PAUSE_OCTETS = 1024 * 1024
const PIECES = 24

/** @param whilePaused told how many octets have been read */
async function readSlowly(t: TestContext, request: string, port: number, whilePaused: (read: number) => void) {
  const args = ['-c', READER, String(port), request, String(PAUSE_OCTETS)]
  const reader = spawn('python3', args, { stdio: ['pipe', 'pipe', 'inherit'] })
  t.after(() => reader.kill('SIGKILL'))
  const [read] = (await once(reader.stdout, 'data')) as [Buffer]
  await sleep(100)
  whilePaused(Number(read))
  const [text] = await Promise.all([buffer(reader.stdout), once(reader, 'close'), reader.stdin.end('\n')])
  return text
}

for (const [what, { header, closes, drains }] of Object.entries(CLOSERS))
  describe(`a connection ${what}`, () => {
    const request = head('GET /', ...(header ? [header] : []))
    const body = Buffer.from(PIECE.repeat(PIECES))
    const serveCloser = (answer: () => HttpReply, onPath = (_: string): void => undefined) => {
      const server = serve(({ path }) => {
        onPath(path)
        return { ...answer(), ...(closes && { closes }) }
      })
      if (drains) server.closeAfterReplies()
      return server
    }

    test(
      'takes a reply in pieces whole to a slow reader, and holds none of it in memory',
      requireCommand('python3'),
      async (t) => {
        let asked = 1
        const server = serveCloser(() => inPieces(PIECES, () => asked++))
        const text = await readSlowly(t, request, server.port, (read) => {
          const held = asked * PIECE_OCTETS - read
          assert.ok(held < 1024 * 1024, `${held} octets wait for their reader`)
        })
        assert.ok(contentOf(text).equals(body))
        await until(() => server.inFlight === 0 && server.openConnections === 0)
        assert.equal(server.counters.aborted, 0)
      },
    )

    test('takes a large reply whole to a slow reader, and ends behind it', requireCommand('python3'), async (t) => {
      const server = serveCloser(() => reply(200, body))
      const text = await readSlowly(t, request, server.port, () => assert.equal(server.inFlight, 1))
      const from = text.indexOf('\r\n\r\n') + 4
      assert.match(text.toString('latin1', 0, from), /^Connection: close\r$/m)
      assert.match(text.toString('latin1', 0, from), new RegExp(`^Content-Length: ${body.length}\r$`, 'm'))
      assert.ok(text.subarray(from).equals(body), `${text.length - from} of ${body.length} octets`)
      assert.deepEqual([server.inFlight, server.counters.aborted], [0, 0])
    })

    for (const [kind, answer] of [
      ['in pieces', () => inPieces(8 * PIECES)],
      ['of many octets', () => reply(200, Buffer.alloc(8 * body.length))],
    ] as const)
      test(`answers nothing behind a reply ${kind} that its reader has not taken (RFC 9112 §9.6)`, async () => {
        const seen: string[] = []
        const server = serveCloser(answer, (path) => seen.push(path))
        const client = await open(server)
        client.socket.on('error', () => undefined)
        client.socket.pause()
        client.send(request)
        await until(() => server.inFlight === 1)
        client.send(head('GET /behind'))
        await until(() => server.openConnections === 0)
        assert.deepEqual([seen, server.inFlight], [['/'], 0])
      })
  })

test('a slow reader that does not close has its connection ended behind a reply in pieces', async () => {
  const server = serve(() => ({ ...inPieces(8 * PIECES), closes: true }))
  const client = await open(server)
  client.socket.pause()
  client.send(head('GET /'))
  await until(() => server.inFlight === 1)
  await sleep(300)
  client.socket.resume()
  const text = Buffer.from(await client.closes(), 'latin1')
  assert.equal(contentOf(text).length, 8 * PIECES * PIECE_OCTETS)
  assert.deepEqual([server.inFlight, server.counters.aborted], [0, 0])
})
