/** What the keys of `ca.external` do to the requests: TLS, client certificate, forward proxy, pauses. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, connect, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { TLSSocket } from 'node:tls'
import { CaError } from '../../../src/ca/backend.ts'
import type { IssuanceRequest } from '../../../src/ca/csr-backend.ts'
import { createExternalBackend } from '../../../src/ca/external-backend.ts'
import { externalSettings } from '../../../src/settings/backends.ts'
import { aConfig } from '../config/support.ts'

const REQUEST: IssuanceRequest = {
  ...{ certificateId: '01', orderId: '02', csr: Buffer.of(0x30, 0), profile: 'default', validityDays: 90 },
  ...{ identifiers: [], notBefore: new Date(0), notAfter: new Date(1), replaces: undefined },
}
const STEP = { signal: new AbortController().signal, isRepeated: false, isAbandoned: false }

describe('the backend external', { timeout: 60_000 }, () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-external-'))
  const file = (name: string) => path.join(folder, name)
  const servers: Server[] = []
  before(() => {
    for (const [name, subject] of [
      ['server', 'localhost'],
      ['client', 'chancery'],
    ])
      execFileSync(
        'openssl',
        [
          ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'],
          ...['-keyout', file(`${name}.key`), '-out', file(`${name}.pem`), '-subj', `/CN=${subject}`],
          ...['-addext', 'subjectAltName=DNS:localhost'],
        ],
        { stdio: 'ignore' },
      )
  })
  after(() => {
    for (const server of servers) server.close()
    rmSync(folder, { recursive: true })
  })

  async function listening(server: Server): Promise<number> {
    servers.push(server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return (server.address() as AddressInfo).port
  }

  const promising: RequestListener = (_request, response) => {
    response.writeHead(202, { 'Content-Type': 'application/json' }).end('{"request_id":"r1"}')
  }

  async function ask(external: Record<string, unknown>) {
    const backend = createExternalBackend(externalSettings(aConfig({ ca: { backend: 'external', external } })))
    try {
      return await backend.advance(REQUEST, undefined, STEP)
    } finally {
      await backend.close()
    }
  }

  const refusing = (external: Record<string, unknown>) =>
    ask(external).then(
      () => assert.fail('it was answered'),
      (error: unknown) => {
        assert.ok(error instanceof CaError)
        return error
      },
    )

  const tlsServer = (listener: RequestListener) =>
    createTlsServer(
      {
        ...{ cert: readFileSync(file('server.pem')), key: readFileSync(file('server.key')) },
        ...{ ca: readFileSync(file('client.pem')), requestCert: true, rejectUnauthorized: false },
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
})
