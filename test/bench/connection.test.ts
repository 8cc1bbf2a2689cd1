import assert from 'node:assert/strict'
import { createServer, type Server, type Socket } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Connection, parseTarget, trusting } from '../../bench/client/connection.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

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
  let connection: Connection
  let target: ReturnType<typeof parseTarget>
  const traffic = { sentBytes: 0, receivedBytes: 0 }
  const sockets: Socket[] = []
  before(async () => {
    server = createServer((socket) => {
      sockets.push(socket)
      socket.on('error', () => socket.destroy())
      socket.on('data', (bytes) => behave(socket, bytes.toString()))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    target = parseTarget(`http://127.0.0.1:${(server.address() as { port: number }).port}/`)
    connection = new Connection({ target, trust: trusting(undefined), insecure: false, timeoutMs: 30_000 }, traffic)
  })
  after(async () => {
    connection.close()
    await new Promise((resolve) => server.close(resolve))
  })

  test('is kept between requests, and its bytes are counted', async () => {
    for (let i = 0; i < 3; i++) assert.equal((await connection.request('GET', '/ok')).body, 'ok')
    assert.equal(sockets.length, 1)
    assert.equal(traffic.receivedBytes, 3 * OK.length)
    assert.ok(traffic.sentBytes > 3 * 'GET /ok HTTP/1.1'.length)
  })

  test('is opened anew after Connection: close', async () => {
    assert.equal((await connection.request('GET', '/last')).body, 'ok')
    assert.equal((await connection.request('GET', '/ok')).body, 'ok')
    assert.equal(sockets.length, 2)
  })

  test('times out also after it was idle for longer than the time-out', async () => {
    const options = { target, trust: trusting(undefined), insecure: false, timeoutMs: 600 }
    const impatient = new Connection(options, { sentBytes: 0, receivedBytes: 0 })
    assert.equal((await impatient.request('GET', '/ok')).status, 200)
    await sleep(800)
    await assert.rejects(impatient.request('GET', '/silence'), { kind: 'timeout' })
    assert.equal((await impatient.request('GET', '/ok')).status, 200)
    impatient.close()
  })

  for (const [path, kind] of [
    ['/hang-up', 'connection'],
    ['/noise', 'protocol'],
  ] as const) {
    test(`that meets ${path} fails with ${kind} and then works again`, async () => {
      await assert.rejects(connection.request('GET', path), { kind })
      assert.equal((await connection.request('GET', '/ok')).status, 200)
    })
  }
})
