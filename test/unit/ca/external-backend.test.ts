/** What the keys of `ca.external` do to the requests: TLS, client certificate, forward proxy, pauses. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, connect, type Server } from 'node:net'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { TLSSocket } from 'node:tls'
import { CaError } from '../../../src/ca/backend.ts'
import type { BackendState, StepOptions } from '../../../src/ca/csr-backend.ts'
import { createExternalBackend } from '../../../src/ca/external-backend.ts'
import { externalSettings } from '../../../src/settings/backend-settings.ts'
import { ISSUANCE_REQUEST } from '../../support/cas/issuance-request.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { words } from '../../support/words.ts'
import { aConfig } from '../config/support.ts'

const STEP = { signal: new AbortController().signal, isRepeated: false, isAbandoned: false }

describe('the backend external', () => {
  const folder = temporaryFolder()
  const file = (name: string) => path.join(folder, name)
  const servers: Server[] = []
  before(() => {
    for (const [name, subject] of [
      ['server', 'localhost'],
      ['client', 'chancery'],
    ])
      execFileSync('openssl', [
        ...words`req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -addext subjectAltName=DNS:localhost`,
        ...['-keyout', file(`${name}.key`), '-out', file(`${name}.pem`), '-subj', `/CN=${subject}`],
      ])
  })
  after(() => {
    for (const server of servers) server.close()
  })

  async function listening(server: Server): Promise<number> {
    servers.push(server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return (server.address() as AddressInfo).port
  }

  const promising: RequestListener = (_request, response) => {
    response.writeHead(202, { 'Content-Type': 'application/json' }).end('{"request_id":"r1"}')
  }

  async function ask(external: Record<string, unknown>, state?: BackendState, step: Partial<StepOptions> = {}) {
    const backend = createExternalBackend(externalSettings(aConfig({ ca: { backend: 'external', external } })))
    try {
      return await backend.advance(ISSUANCE_REQUEST, state, { ...STEP, ...step })
    } finally {
      await backend.close()
    }
  }

  const refusing = (external: Record<string, unknown>, state?: BackendState, step?: Partial<StepOptions>) =>
    ask(external, state, step).then(
      () => assert.fail('it was answered'),
      (error: unknown) => {
        assert.ok(error instanceof CaError)
        return error
      },
    )

  const tlsServer = (listener: RequestListener) =>
    createTlsServer(
      {
        cert: readFileSync(file('server.pem')),
        key: readFileSync(file('server.key')),
        ca: readFileSync(file('client.pem')),
        requestCert: true,
        rejectUnauthorized: false,
      },
      listener,
    )

  test('trusts ca_cert_path, and shows its client certificate', async () => {
    let subject: string | undefined
    const port = await listening(
      tlsServer((request, response) => {
        subject = String((request.socket as TLSSocket).getPeerCertificate().subject?.CN)
        promising(request, response)
      }),
    )
    const url = { sign_url: `https://localhost:${port}/sign` }
    const stranger = await refusing(url)
    assert.equal(stranger.retryable && !stranger.mayHaveIssued, true, 'nothing was sent')
    const client = { client_cert_path: file('client.pem'), client_key_path: file('client.key') }
    const step = await ask({ ...url, ca_cert_path: file('server.pem'), ...client })
    assert.deepEqual([step.status, subject], ['pending', 'chancery'])
  })

  test('goes through proxy_url, with TLS and without', async () => {
    const seen: string[] = []
    const proxy = createServer((request, response) => {
      seen.push(`${request.method} ${request.headers['proxy-authorization']}`)
      promising(request, response)
    })
    proxy.on('connect', (request, socket) => {
      seen.push(`CONNECT ${request.url}`)
      const onward = connect(Number(String(request.url).split(':')[1]), '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n')
        onward.pipe(socket).pipe(onward)
      })
      onward.on('error', () => socket.destroy())
      socket.on('error', () => onward.destroy())
    })
    const proxy_url = `http://user:word@127.0.0.1:${await listening(proxy)}`
    const port = await listening(tlsServer(promising))
    await ask({ sign_url: `https://localhost:${port}/sign`, proxy_url, ca_cert_path: file('server.pem') })
    await ask({ sign_url: 'http://ca.invalid/sign', proxy_url })
    const credentials = Buffer.from('user:word').toString('base64')
    assert.deepEqual(seen, [`CONNECT localhost:${port}`, `POST Basic ${credentials}`])
  })

  test('is well when the CA answers anything, and away when only a proxy in front of it does', async () => {
    let status = 200
    const port = await listening(createServer((_request, response) => void response.writeHead(status).end()))
    const external = { sign_url: `http://127.0.0.1:${port}/sign` }
    const backend = createExternalBackend(externalSettings(aConfig({ ca: { backend: 'external', external } })))
    for (status of [200, 404, 405, 500]) await backend.checkHealth(STEP.signal)
    for (status of [502, 503, 504])
      await assert.rejects(backend.checkHealth(STEP.signal), {
        message: `external is not reachable: ${status}`,
        retryable: true,
      })
    await backend.close()
  })

  test('names an IPv6 address to the proxy in brackets', async () => {
    const seen: unknown[] = []
    const proxy = createServer()
    proxy.on('connect', ({ url, headers }, socket) => {
      seen.push([url, headers.host])
      socket.end('HTTP/1.1 403 Forbidden\r\n\r\n')
    })
    const proxy_url = `http://127.0.0.1:${await listening(proxy)}`
    await refusing({ sign_url: 'https://[::1]:8443/sign', proxy_url, max_retries: 0 })
    assert.deepEqual(seen, [['[::1]:8443', '[::1]:8443']])
  })

  test('waits retry_delay_seconds before the second attempt, and twice that before the third', async () => {
    const at: number[] = []
    const server = createServer((_request, response) => {
      at.push(performance.now())
      response.writeHead(503).end()
    })
    const sign_url = `http://127.0.0.1:${await listening(server)}/`
    const error = await refusing({ sign_url, max_retries: 2, retry_delay_seconds: 0.2 })
    assert.equal(error.retryable && !error.mayHaveIssued, true)
    const [first, second, third] = at as [number, number, number]
    assert.equal(at.length, 3)
    assert.ok(second - first >= 190 && third - second >= 390, at.join())
  })

  test('says of a CA that nobody reaches that it has not issued', async () => {
    const closed = createServer()
    const port = await listening(closed)
    closed.close()
    const error = await refusing({ sign_url: `http://127.0.0.1:${port}/` })
    assert.deepEqual([error.retryable, error.mayHaveIssued], [true, false])
  })

  test('asks again after a lost answer only where the CA is idempotent', async () => {
    const port = await listening(createServer((request) => request.socket.destroy()))
    const sign_url = `http://127.0.0.1:${port}/`
    for (const idempotent of [true, false]) {
      const error = await refusing({ sign_url, idempotent })
      assert.deepEqual([error.retryable, error.mayHaveIssued], [idempotent, true])
    }
  })

  /** Answers the requests with these statuses, the last one for ever; 0 loses an answer. */
  async function answering(...statuses: number[]) {
    const asked = { count: 0 }
    const server = createServer((request, response) => {
      const status = statuses[Math.min(asked.count++, statuses.length - 1)] as number
      if (status === 0) request.socket.destroy()
      else response.writeHead(status).end()
    })
    const sign_url = `http://127.0.0.1:${await listening(server)}/`
    return { asked, external: { sign_url, max_retries: 2, retry_delay_seconds: 0.01 } }
  }

  // RFC 6585 §4
  test('a rate limit is told apart from a CA that is away', async () => {
    for (const [status, headers, pauseMs] of [
      [429, { 'Retry-After': '120' }, 120_000],
      [429, {}, 0],
      [503, { 'Retry-After': '120' }, undefined],
    ] as const) {
      const server = createServer((_request, response) => response.writeHead(status, headers).end())
      const error = await refusing({ sign_url: `http://127.0.0.1:${await listening(server)}/`, max_retries: 0 })
      assert.deepEqual([error.retryable, error.mayHaveIssued, error.pauseMs], [true, false, pauseMs])
    }
  })

  test('a CA that knows no idempotency keys is not asked twice within a step', async () => {
    for (const status of [0, 408, 500, 502, 504]) {
      const { asked, external } = await answering(status, 503)
      const error = await refusing({ ...external, idempotent: false })
      assert.deepEqual([asked.count, error.retryable, error.mayHaveIssued], [1, false, true], String(status))
    }
  })

  test('what an earlier try may have issued is not forgotten by a later one', async () => {
    for (const [later, retryable] of [
      [503, true],
      [403, true],
      [422, false],
    ] as const) {
      const { external } = await answering(0, later)
      const error = await refusing({ ...external, idempotent: true })
      assert.deepEqual([error.retryable, error.mayHaveIssued], [retryable, true], String(later))
    }
    const { external } = await answering(500)
    const stopping = AbortSignal.timeout(200)
    const error = await refusing({ ...external, idempotent: true, retry_delay_seconds: 20 }, undefined, {
      signal: stopping,
    })
    assert.equal(error.mayHaveIssued, true, 'a step that is cut off in its pause')
  })

  test('a step that is repeated may have issued the first time, whatever comes now', async () => {
    const closed = createServer()
    const port = await listening(closed)
    closed.close()
    const nobody = { sign_url: `http://127.0.0.1:${port}/`, max_retries: 0 }
    for (const external of [nobody, (await answering(503)).external]) {
      const error = await refusing({ ...external, idempotent: true }, undefined, { isRepeated: true })
      assert.deepEqual([error.retryable, error.mayHaveIssued], [true, true])
    }
  })

  test('a promised certificate is asked for again, or its loss raises an alarm', async () => {
    for (const [status, retryable] of [
      [401, true],
      [403, true],
      [404, true],
      [408, true],
      [400, false],
      [410, false],
    ] as const) {
      const { external } = await answering(status)
      const error = await refusing({ ...external, idempotent: false }, { requestId: 'r1' })
      assert.deepEqual([error.retryable, error.mayHaveIssued], [retryable, true], String(status))
    }
  })

  test('a request that got no connection in its time was not sent', async () => {
    const server = createServer(() => undefined)
    const sign_url = `http://127.0.0.1:${await listening(server)}/`
    const external = { sign_url, idempotent: false, max_retries: 0, timeout_seconds: 2 }
    const backend = createExternalBackend(externalSettings(aConfig({ ca: { backend: 'external', external } })))
    const steps = await Promise.allSettled(
      Array.from({ length: 34 }, () => backend.advance(ISSUANCE_REQUEST, undefined, STEP)),
    )
    await backend.close()
    server.closeAllConnections()
    const errors = steps.map((step) => (step.status === 'rejected' ? (step.reason as CaError) : assert.fail()))
    const flags = errors.map(({ retryable, mayHaveIssued }) => `${retryable} ${mayHaveIssued}`)
    assert.deepEqual(flags, [...Array(32).fill('false true'), 'true false', 'true false'])
  })
})
