/** The trust bundle at `api.roots_path`, as curl, machines and clusters fetch it. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { before, describe, test } from 'node:test'
import pg from 'pg'
import { parse } from 'yaml'
import { send } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { configOf } from '../support/reload.ts'
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
  const { service } = acmeScene('paths')
  before(async () => {
    port = (parse(configOf(service).text()) as { crl: { http_port: number } }).crl.http_port
    await untilKnown(`${service.baseUrl}/acme/roots.pem`)
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
    const allow = (isAllowed: boolean) => client.query(`ALTER DATABASE ${database} ALLOW_CONNECTIONS ${isAllowed}`)
    try {
      await allow(false)
      await client.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1', [database])
      assert.equal((await fetchRoots()).status, 200)
    } finally {
      await allow(true)
      await client.end()
    }
  })
})
