/** The CRL over plain HTTP (RFC 5280 §8), of a service that terminates TLS itself. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { closeConnections, type Responder, registeredClient, send, startResponder } from '../support/acme-client.ts'
import { startEmbedded } from '../support/embedded.ts'
import { freePort } from '../support/free-port.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const crlUrlsOf = (der: Buffer) => parseCertificate(der).tbs.crlDistributionPointUrls
const derOf = (pemFile: string) => new X509Certificate(readFileSync(pemFile)).raw

describe('crl.http_port', () => {
  let port: number
  let service: TestService
  let responder: Responder
  before(async () => {
    port = await freePort()
    service = await startTestService({ fronts: 1, config: { crl: { enabled: true, http_port: port } } })
    responder = await startResponder(service.http01Port)
  })
  after(async () => {
    closeConnections()
    await responder.close()
    await service.dispose()
  })

  const at = (place: string, method = 'GET') => send({ method, url: `http://127.0.0.1:${port}${place}` })

  test('serves what the other port serves, and certificates name it', async () => {
    const { der } = await (await registeredClient(service.directoryUrl)).obtain(['port.test'], responder)
    const [url] = crlUrlsOf(der)
    assert.equal(url, `http://127.0.0.1:${port}/crl/default`)
    const [here, there] = await Promise.all([
      at('/crl/default'),
      send({ method: 'GET', url: `${service.baseUrl}/crl` }),
    ])
    assert.equal(here.status, 200)
    assert.equal(here.headers['content-type'], 'application/pkix-crl')
    assert.equal(here.headers['strict-transport-security'], undefined)
    assert.deepEqual(here.body, there.body)
    assert.equal((await at('/crl', 'HEAD')).status, 200)
  })

  test('serves nothing else', async () => {
    for (const place of ['/directory', '/new-nonce', '/metrics', '/livez', '/'])
      assert.equal((await at(place)).status, 404, place)
    assert.equal((await at('/new-account', 'POST')).status, 404)
    assert.equal((await at('/crl', 'POST')).status, 405)
  })

  test('is refused at start where somebody listens', async () => {
    await assert.rejects(
      startTestService({ fronts: 1, config: { crl: { enabled: true, http_port: port } } }),
      new RegExp(`cannot listen on 127.0.0.1:${port}: it is in use`),
    )
  })

  test('is refused as the port of the Admin API, too', async () => {
    const admin_api = {
      enabled: true,
      initial_admin_email: 'admin@example.test',
      token_secret: 'a secret of sixteen bytes and more',
      listen: { bind: '127.0.0.1', port },
    }
    await assert.rejects(
      startTestService({ fronts: 1, config: { admin_api } }),
      new RegExp(`cannot listen on 127.0.0.1:${port}: it is in use .admin_api.listen.port.`),
    )
  })
})

test('the connections of both ports are bounded together, and those refused are counted', async () => {
  const port = await freePort()
  const overload = { max_connections: 40 }
  const service = await startTestService({
    fronts: 1,
    config: { server: { overload, workers: 1 }, crl: { enabled: true, http_port: port } },
  })
  const mainPort = Number(new URL(service.baseUrl).port)
  const sockets: Socket[] = []
  let closed = 0
  try {
    for (const to of [mainPort, port])
      for (let i = 0; i < 30; i++) {
        const socket = connect({ host: '127.0.0.1', port: to }).on('error', () => undefined)
        socket.resume().on('close', () => closed++)
        sockets.push(socket)
        await once(socket, 'connect')
      }
    await until('20 of 60 are closed', () => closed >= 20)
    for (const socket of sockets) socket.destroy()
    await until('they are reported', async () => {
      const { text } = await send({ method: 'GET', url: `${service.baseUrl}/metrics` })
      const [, refused] = /requests_shed_total\{reason="connections"\} (\d+)/.exec(text) ?? []
      return Number(refused) >= 20
    })
  } finally {
    closeConnections()
    await service.dispose()
  }
})

test('the TLS certificate of the service itself names no CRL', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-own-certificate-'))
  const tls = { cert_path: path.join(folder, 'tls.pem'), key_path: path.join(folder, 'tls.key') }
  const config = { server: { tls: { ...tls, self_issued_names: ['localhost'] } }, crl: { enabled: true } }
  const service = await startTestService({ fronts: 1, config })
  try {
    assert.deepEqual(crlUrlsOf(derOf(tls.cert_path)), [])
  } finally {
    await service.dispose()
    rmSync(folder, { recursive: true })
  }
})

test('the embedded mode serves its CRL over plain HTTP', async () => {
  const port = await freePort()
  const service = await startEmbedded(undefined, ['--crl', '--crl-port', String(port)])
  try {
    const answer = await send({ method: 'GET', url: `http://localhost:${port}/crl` })
    assert.equal(answer.headers['content-type'], 'application/pkix-crl')
    assert.deepEqual(crlUrlsOf(derOf(path.join(service.dataDir, 'server', 'cert.pem'))), [])
  } finally {
    closeConnections()
    await service.dispose()
  }
})
