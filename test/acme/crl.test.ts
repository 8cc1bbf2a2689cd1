/** The certificate revocation list as clients and operators meet it (RFC 5280 §5). */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { revoke, send, serialOf } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { readCrl, verifyWithOpenssl } from '../support/crl.ts'
import { operate } from '../support/operator.ts'
import { startRunningClock } from '../support/until.ts'

const SUPERSEDED = 4
/** Decisions 15, 18. */
const LISTED_MS = 5_000

describe('the CRL', () => {
  const { service, responder, client } = acmeScene('acme')
  before(async () => {
    await service.waitForLog('CRL published')
  })

  const fetchCrl = (headers: Record<string, string> = {}, method = 'GET', name = '') =>
    send({ method, url: `${service.baseUrl}/crl${name}`, headers })

  async function served() {
    for (;;) {
      const answer = await fetchCrl()
      if (answer.status === 200) return answer
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }

  async function untilListed(serial: string) {
    const ranMs = startRunningClock()
    for (;;) {
      const crl = readCrl((await served()).body)
      const entry = crl.entries.find((one) => one.serial === serial)
      if (entry) return { crl, entry }
      assert.ok(ranMs() < LISTED_MS, `${serial} is not in the CRL after ${LISTED_MS} ms`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }

  test('is served as DER with what caches need', async () => {
    const answer = await served()
    assert.equal(answer.headers['content-type'], 'application/pkix-crl')
    assert.match(String(answer.headers.etag), /^"[0-9a-f]+-[0-9a-f]+"$/)
    const crl = readCrl(answer.body)
    assert.equal(Date.parse(String(answer.headers['last-modified'])), crl.thisUpdate.getTime())
    assert.match(String(answer.headers['cache-control']), /^public, max-age=(3600|35\d\d)$/)
    assert.equal(answer.headers['x-content-type-options'], 'nosniff')
    assert.equal(crl.nextUpdate.getTime() - crl.thisUpdate.getTime(), 86_400_000)
    assert.deepEqual((await fetchCrl({}, 'GET', '/default')).body, answer.body)
  })

  test('a client that has it gets 304, and HEAD tells its length', async () => {
    const { headers, body } = await served()
    for (const condition of [
      { 'If-None-Match': String(headers.etag) },
      { 'If-None-Match': `"x", W/${headers.etag}` },
      { 'If-Modified-Since': String(headers['last-modified']) },
    ]) {
      const answer = await fetchCrl(condition)
      assert.deepEqual([answer.status, answer.body.length, answer.headers.etag], [304, 0, headers.etag])
    }
    assert.equal((await fetchCrl({ 'If-None-Match': '"other"' })).status, 200)
    const head = await fetchCrl({}, 'HEAD')
    assert.deepEqual([head.status, head.headers['content-length']], [200, String(body.length)])
  })

  test('other methods are refused, and other issuers are not found', async () => {
    const refused = await fetchCrl({}, 'DELETE')
    assert.deepEqual([refused.status, refused.headers.allow], [405, 'GET, HEAD'])
    assert.equal((await fetchCrl({}, 'GET', '/nobody')).status, 404)
    assert.equal((await fetchCrl({}, 'GET', 'x')).status, 404)
  })

  test('a certificate names its CRL, and a revocation is in it within 5 seconds', async () => {
    const { der, chain } = await client.obtain(['crl.test'], responder)
    const url = `${service.baseUrl}/crl/default`
    assert.ok(new X509Certificate(der).toString().length > 0 && der.includes(Buffer.from(url)), 'CRLDP')
    const before = readCrl((await served()).body)
    verifyWithOpenssl({ chain, rootFile: service.ca.root, crl: (await served()).body, revoked: false })

    assert.equal((await revoke(client, der, SUPERSEDED)).status, 200)
    const { crl, entry } = await untilListed(serialOf(der))
    assert.equal(entry.reason, SUPERSEDED)
    assert.ok(crl.number > before.number)
    verifyWithOpenssl({ chain, rootFile: service.ca.root, crl: (await served()).body, revoked: true })
  })

  test('many revocations make few lists, and none without a reason says one', async () => {
    const names = Array.from({ length: 12 }, (_, index) => `many-${index}.test`)
    const issued = await Promise.all(names.map((name) => client.obtain([name], responder)))
    const before = service.log.filter(({ message }) => message === 'CRL published').length
    const startedAt = performance.now()
    for (const { der } of issued) assert.equal((await revoke(client, der)).status, 200)
    const serials = issued.map(({ der }) => serialOf(der))
    const found = await Promise.all(serials.map((serial) => untilListed(serial)))
    assert.ok(found.every(({ entry }) => entry.reason === undefined))
    const built = service.log.filter(({ message }) => message === 'CRL published').length - before
    // It is looked once a second whether there is anything new.
    const most = 2 + Math.ceil((performance.now() - startedAt) / 1000)
    assert.ok(built <= most, `${built} lists for 12 revocations, ${most} at the most`)
  })

  test('crl rebuild has a new one made', async () => {
    const before = readCrl((await served()).body)
    const output = await operate(service, 'crl', 'rebuild')
    const [, number] = /CRL default: number (\d+), \d+ entries/.exec(output) ?? []
    assert.ok(BigInt(number ?? 0) > before.number, output)
  })

  test('health and metrics tell of it', async () => {
    const health = await send({ method: 'GET', url: `${service.baseUrl}/healthz` })
    assert.deepEqual(health.json.checks.crl, { status: 'ok', stale: false })
    assert.equal((await send({ method: 'GET', url: `${service.baseUrl}/readyz` })).status, 200)
    const { text } = await send({ method: 'GET', url: `${service.baseUrl}/metrics` })
    for (const name of ['number', 'entries', 'bytes', 'this_update_seconds', 'next_update_seconds', 'build_seconds']) {
      assert.match(text, new RegExp(`^service_crl_${name}\\{crl="default"\\} [\\d.e+]+$`, 'm'))
    }
    assert.match(text, /^service_crl_builds_total\{crl="default"\} [1-9]/m)
  })
})
