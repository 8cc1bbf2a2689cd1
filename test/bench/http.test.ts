import assert from 'node:assert/strict'
import { createServer, type Server, type Socket } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { type Connection, connectionMaker } from '../../bench/client/http.ts'
import { parseOptions } from '../../bench/options.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nReplay-Nonce: n1\r\n\r\nok'

/** What the server does is in the path. */
function behave(socket: Socket, request: string): void {
  const path = request.split(' ')[1]
  if (path === '/ok') socket.write(OK)
  else if (path === '/last') socket.end(OK.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'))
  else if (path === '/hang-up') socket.destroy()
  else if (path === '/noise') socket.write('220 mail.test ESMTP\r\n\r\n')
}

describe('a connection', () => {
  let server: Server
  let connect: (timeout: number) => Connection
  const sockets: Socket[] = []
  before(async () => {
    server = createServer((socket) => {
      sockets.push(socket)
      socket.on('error', () => socket.destroy())
      socket.on('data', (bytes) => behave(socket, bytes.toString()))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const directory = `http://127.0.0.1:${(server.address() as { port: number }).port}/`
    connect = (timeout) => connectionMaker(parseOptions({ directory, timeout }).options)()
  })
  after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })

  test('is kept between requests, and opened anew after Connection: close', async () => {
    const connection = connect(30)
    const before = sockets.length
    for (let i = 0; i < 3; i++) {
      const { status, body, replayNonce } = await connection.request('GET', '/ok')
      assert.deepEqual([status, body.toString(), replayNonce], [200, 'ok', 'n1'])
    }
    assert.equal(connection.isOpen, true)
    assert.equal((await connection.request('GET', '/last')).body.toString(), 'ok')
    assert.equal((await connection.request('GET', '/ok')).body.toString(), 'ok')
    assert.equal(sockets.length - before, 2)
    await connection.close()
  })

  for (const [path, kind] of [
    ['/hang-up', 'connection'],
    ['/noise', 'protocol'],
    ['/silence', 'timeout'],
  ] as const) {
    test(`that meets ${path} fails with ${kind}, is not tried again, and then works`, async () => {
      const connection = connect(kind === 'timeout' ? 2 : 30)
      const before = sockets.length
      await assert.rejects(connection.request('GET', path), { kind })
      assert.equal(sockets.length - before, 1)
      assert.equal((await connection.request('GET', '/ok')).status, 200)
      await connection.close()
    })
  }
})
