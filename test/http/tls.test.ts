/** The HTTP adapter over TLS, and the check for a free port. */
import 'reflect-metadata'
import assert from 'node:assert/strict'
import { webcrypto } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { connect } from 'node:tls'
import { X509CertificateGenerator } from '@peculiar/x509'
import type { HttpServer, ListenOptions } from '../../src/http/http-message.ts'
import { assertPortFree } from '../../src/http/start-checks.ts'
import { listen } from '../../src/http/uws.ts'
import { freePort } from '../support/free-port.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { openRaw } from './raw-client.ts'

const LARGE = Buffer.alloc(3 * 1024 * 1024, 'tls ')
const directory = temporaryFolder()
let certificate: string
let server: HttpServer

const options: Omit<ListenOptions, 'tls'> = {
  host: '127.0.0.1',
  port: 0,
  maxBodyBytes: 100_000,
  keptHeaders: [],
  handler: async ({ path, body }) => ({ status: 200, headers: [], body: path === '/large' ? LARGE : body }),
  onError: () => ({ status: 500, headers: [], body: '' }),
  tooLarge: () => ({ status: 413, headers: [], body: '' }),
  badRequest: () => ({ status: 400, headers: [], body: '' }),
}

before(async () => {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const selfSigned = await X509CertificateGenerator.createSelfSigned({
    name: 'CN=localhost',
    keys,
    signingAlgorithm: algorithm,
  })
  certificate = selfSigned.toString('pem')
  const key = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64')
  writeFileSync(join(directory, 'cert.pem'), certificate)
  writeFileSync(join(directory, 'key.pem'), `-----BEGIN PRIVATE KEY-----\n${key}\n-----END PRIVATE KEY-----\n`)
  const tls = { certPath: join(directory, 'cert.pem'), keyPath: join(directory, 'key.pem') }
  server = listen({ ...options, tls })
})

after(() => {
  server.close()
})

function ask(path: string, body?: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const { port } = server
    const target = { host: '127.0.0.1', port, path, ca: certificate, servername: 'localhost', agent: false } as const
    const outgoing = request({ ...target, method: body ? 'POST' : 'GET' }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk) => chunks.push(chunk))
      response.on('end', () => resolve(Buffer.concat(chunks)))
      response.on('error', reject)
    })
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}

describe('over TLS', () => {
  test('bodies of many records arrive whole, and so do large replies', async () => {
    const body = Buffer.alloc(90_000, 'abc')
    assert.ok((await ask('/', body)).equals(body))
    assert.ok((await ask('/large')).equals(LARGE))
  })

  // RFC 8996: TLS 1.0 and 1.1 must not be used.
  test('versions before 1.2 are refused', async () => {
    for (const version of ['TLSv1', 'TLSv1.1'] as const) {
      const outcome = await new Promise((resolve) => {
        const socket = connect(
          {
            host: '127.0.0.1',
            port: server.port,
            rejectUnauthorized: false,
            minVersion: version,
            maxVersion: version,
            ciphers: 'DEFAULT@SECLEVEL=0',
          },
          () => resolve(socket.getProtocol()),
        )
        socket.on('error', () => resolve('refused'))
        socket.on('close', () => resolve('refused'))
      })
      assert.equal(outcome, 'refused')
    }
  })

  test('plain HTTP on the TLS port closes the connection, others go on', async () => {
    const plain = await openRaw(server.port)
    plain.send('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await plain.closes()
    assert.equal((await ask('/', Buffer.from('still here'))).toString(), 'still here')
  })

  test('a certificate that cannot be read is a clear error', () => {
    const missing = { certPath: join(directory, 'none.pem'), keyPath: join(directory, 'key.pem') }
    assert.throws(() => listen({ ...options, tls: missing }), /cannot load the certificate .*none\.pem/)
    const swapped = { certPath: join(directory, 'key.pem'), keyPath: join(directory, 'cert.pem') }
    assert.throws(() => listen({ ...options, tls: swapped }), /cannot load the certificate/)
  })
})

describe('a port', () => {
  test('that a running server shares is not free', async () => {
    await assert.rejects(assertPortFree('127.0.0.1', server.port), { code: 'EADDRINUSE' })
  })

  test('is free again once the server is closed', async () => {
    // Not one of the kernel's own choice, which it may give to somebody else in the meantime.
    const port = await freePort()
    const other = listen({ ...options, port })
    const sharing = listen({ ...options, port })
    other.close()
    await assert.rejects(assertPortFree('127.0.0.1', port), { code: 'EADDRINUSE' })
    sharing.close()
    await assertPortFree('127.0.0.1', port)
  })
})
