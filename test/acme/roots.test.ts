/** The trust bundle at `api.roots_path`, as curl, machines and clusters fetch it. */

import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { makeAuthority, type SignerFiles, writeSignerFiles } from '../signer/authority.ts'
import { type Daemon, startDaemon } from '../signer/daemon.ts'
import { closeConnections, send } from '../support/acme-client.ts'
import { freePort } from '../support/free-port.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const PEM = 'application/x-pem-file'

/** A front that has just started answers 503 until its connection to the signer is made. */
const untilKnown = (url: string) =>
  until('the roots are known', async () => {
    const answer = await send({ method: 'GET', url })
    return answer.status !== 503 && answer
  })

describe('the roots', () => {
  let port: number
  let service: TestService
  before(async () => {
    port = await freePort()
    const config = { api: { base_path: '/acme', roots_path: '/roots.pem' }, crl: { enabled: true, http_port: port } }
    service = await startTestService({ fronts: 1, config })
    await untilKnown(`${service.baseUrl}/acme/roots.pem`)
  })
  after(async () => {
    closeConnections()
    await service.dispose()
  })

  const fetchRoots = (headers: Record<string, string> = {}, method = 'GET') =>
    send({ method, url: `${service.baseUrl}/acme/roots.pem`, headers })
  const root = () => readFileSync(service.ca.root, 'utf8')

  test('are the root of the issuer alone, with what caches need', async () => {
    const { status, headers, text } = await fetchRoots()
    assert.deepEqual([status, text.trim()], [200, root().trim()])
    assert.equal(headers['content-type'], PEM)
    assert.match(String(headers.etag), /^"[0-9a-f]{32}"$/)
    assert.equal(headers['cache-control'], 'public, max-age=3600')
    assert.equal(headers['x-content-type-options'], 'nosniff')
    assert.equal(headers['replay-nonce'], undefined)
  })

  test('a client that has them gets 304, and HEAD tells their length', async () => {
    const { headers, body } = await fetchRoots()
    const unchanged = await fetchRoots({ 'If-None-Match': String(headers.etag) })
    assert.deepEqual([unchanged.status, unchanged.body.length, unchanged.headers.etag], [304, 0, headers.etag])
    assert.equal((await fetchRoots({ 'If-None-Match': '"other"' })).status, 200)
    const head = await fetchRoots({}, 'HEAD')
    assert.deepEqual([head.status, head.headers['content-length']], [200, String(body.length)])
  })

  test('other methods are refused, and other paths are not found', async () => {
    for (const method of ['POST', 'DELETE', 'OPTIONS']) {
      const refused = await fetchRoots({}, method)
      assert.deepEqual([refused.status, refused.headers.allow], [405, 'GET, HEAD'], method)
    }
    for (const place of ['/roots.pem', '/acme/roots.pem/', '/acme/roots'])
      assert.equal((await send({ method: 'GET', url: service.baseUrl + place })).status, 404, place)
  })

  test('are at the port without TLS, too', async () => {
    const plain = await send({ method: 'GET', url: `http://127.0.0.1:${port}/acme/roots.pem` })
    assert.deepEqual([plain.status, plain.body], [200, (await fetchRoots()).body])
  })

  test('are served without the database', async () => {
    const { database, ...server } = service.database.connection
    const client = new pg.Client({ ...server, database: 'postgres' })
    await client.connect()
    await client.query(`DROP DATABASE ${database} WITH (FORCE)`)
    await client.end()
    assert.equal((await fetchRoots()).status, 200)
  })
})

describe('the roots of a chain without its root', () => {
  const root = makeAuthority('P-256', { name: 'Offline Root' })
  const former = makeAuthority('P-256', { name: 'Former Root' })
  const intermediate = makeAuthority('P-256', { name: 'Intermediate', by: root })
  let files: SignerFiles
  let daemon: Daemon
  before(async () => {
    files = writeSignerFiles({ default: intermediate })
    daemon = await startDaemon(files.config)
  })
  after(async () => {
    closeConnections()
    await daemon.stop()
    rmSync(files.folder, { recursive: true })
  })

  async function startWith(api: object): Promise<TestService> {
    const signer = { socket: files.socket, secret_file: path.join(files.folder, 'secret') }
    return startTestService({ fronts: 1, config: { ca: { signer }, api: { roots_path: '/roots.pem', ...api } } })
  }
  const rootsOf = (service: TestService) => untilKnown(`${service.baseUrl}/roots.pem`)

  test('are not known: 404, and the start warns', async () => {
    const service = await startWith({})
    try {
      const { status, text } = await rootsOf(service)
      assert.equal(status, 404)
      assert.match(text, /api\.roots_file/)
      const warned = await service.untilLogged('no root', ({ message }) => message.startsWith('api.roots_path serves'))
      assert.deepEqual(warned['issuers'], ['default'])
    } finally {
      await service.dispose()
    }
  })

  test('come from the file', async () => {
    const roots_file = path.join(files.folder, 'roots.pem')
    writeFileSync(roots_file, root.certificatePem + former.certificatePem)
    const service = await startWith({ roots_file })
    try {
      assert.equal((await rootsOf(service)).text, root.certificatePem + former.certificatePem)
      assert.ok(!service.log.some(({ message }) => message.startsWith('api.roots_path serves')))
    } finally {
      await service.dispose()
    }
  })
})
