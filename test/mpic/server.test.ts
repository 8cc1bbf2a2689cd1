/** The server of a perspective beside its checks: what it makes of clients that leave and of faults of its own. */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { connect as connectTcp, type Socket } from 'node:net'
import { after, before, beforeEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'node:tls'
import { MPIC_PATH } from '../../src/mpic/perspective-api.ts'
import { Busy, type PerspectiveServer, startPerspectiveServer } from '../../src/mpic/perspective-server.ts'
import { loopbackCertificate, type TestCertificate } from '../support/certificates.ts'
import { until } from '../support/until.ts'

const BODY = JSON.stringify({ check_type: 'caa', domain_or_ip_target: 'demo.test' })

describe('the server of a perspective', () => {
  let certificate: TestCertificate
  let server: PerspectiveServer
  let failure: Error
  let faults: unknown[]
  let answers: number[]
  before(async () => {
    certificate = await loopbackCertificate()
    server = await startPerspectiveServer({
      bind: '127.0.0.1',
      port: 0,
      cert: certificate.cert,
      key: certificate.key,
      clientCa: undefined,
      tokens: [],
      code: 'here',
      check: () => Promise.reject(failure),
      onAnswered: ({ status }) => answers.push(status),
      onFault: (error) => faults.push(error),
    })
  })
  after(() => server.close(0))
  beforeEach(() => {
    faults = []
    answers = []
  })

  const begin = (length: number) =>
    httpsRequest({
      host: '127.0.0.1',
      port: server.port,
      method: 'POST',
      path: MPIC_PATH,
      ca: certificate.cert,
      agent: false,
      headers: { 'content-type': 'application/json', 'content-length': length },
    })

  function ask(body: string): Promise<number | undefined> {
    return new Promise((resolve, reject) => {
      begin(Buffer.byteLength(body))
        .on('response', (response) => resolve(response.resume().statusCode))
        .on('error', reject)
        .end(body)
    })
  }

  test('takes 64 connections of an address that has shown no token, and any number once it has', async (t) => {
    const guarded = await startPerspectiveServer({
      bind: '127.0.0.1',
      port: 0,
      cert: certificate.cert,
      key: certificate.key,
      clientCa: undefined,
      tokens: ['known'],
      code: 'here',
      check: () => Promise.reject(new Busy('no room')),
      onAnswered: () => undefined,
      onFault: (error) => faults.push(error),
    })
    const sockets: Socket[] = []
    t.after(async () => {
      for (const socket of sockets) socket.destroy()
      await guarded.close(0)
    })
    let closed = 0
    const opened = async (count: number, refused: number) => {
      for (let i = 0; i < count; i++) {
        const socket = connectTcp({ host: '127.0.0.1', port: guarded.port }).on('error', () => undefined)
        socket.resume().on('close', () => closed++)
        sockets.push(socket)
        await once(socket, 'connect')
      }
      await until(`${refused} are refused`, () => closed >= refused)
      // Time for one too many.
      await sleep(200)
      assert.equal(closed, refused)
    }
    await opened(80, 16)
    sockets[0]?.destroy()
    const headers = { authorization: 'Bearer known' }
    const where = { host: '127.0.0.1', port: guarded.port, ca: certificate.cert, agent: false, path: '/', headers }
    const [response] = await until('its place is free', () =>
      (once(httpsRequest(where).end(), 'response') as Promise<[IncomingMessage]>).catch(() => undefined),
    )
    assert.equal(response.resume().statusCode, 404)
    closed = 0
    await opened(80, 0)
  })

  test('answers what fails behind a whole body, and reports what is its own fault', async () => {
    failure = new Busy('no room')
    assert.equal(await ask(BODY), 503)
    assert.deepEqual(faults, [])
    failure = new Error('broken')
    assert.equal(await ask(BODY), 500)
    assert.deepEqual(faults, [failure])
    assert.deepEqual(answers, [503, 500])
  })

  test('takes a client that hangs up inside its body for no fault of its own', async () => {
    const request = begin(1000).on('error', () => undefined)
    await new Promise((resolve) => request.write(BODY, resolve))
    await sleep(50)
    request.destroy()
    await sleep(200)
    assert.deepEqual([faults, answers], [[], []])
  })

  test('hangs up on who sends nothing but line ends, in the time that a request has', async (context) => {
    const socket = connect({ host: '127.0.0.1', port: server.port, ca: certificate.cert }).on('error', () => undefined)
    const startedAt = performance.now()
    const timer = setInterval(() => socket.write('\r\n'), 50)
    context.after(() => {
      clearInterval(timer)
      socket.destroy()
    })
    await once(socket.resume(), 'close')
    // Ten seconds, and up to half a minute more where nobody looks at the clock in between.
    assert.ok(performance.now() - startedAt < 25_000)
  })

  test('tells a client that sends too much, and goes on sending, so', async () => {
    const request = begin(1_000_000).on('error', () => undefined)
    const status = new Promise((resolve) => request.on('response', (response) => resolve(response.resume().statusCode)))
    request.write('x'.repeat(20_000))
    assert.equal(await status, 413)
    assert.deepEqual([faults, answers], [[], [413]])
    request.destroy()
  })
})
