/** How the console is served: behind the fronts below a path, and not at all. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { adminConfig } from '../support/admin.ts'
import { freePort } from '../support/free-port.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { sharedService } from '../support/shared-service.ts'

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
/** For the first load; the console has no other. */
const MOST_BYTES = 150_000

describe('the console on the public port, below a path', () => {
  let service: TestService
  let base: string
  before(async () => {
    const port = await freePort()
    const { server, ...others } = adminConfig()
    service = await startTestService({
      config: { ...others, server: { ...server, port, external_url: `http://127.0.0.1:${port}/ca` } },
    })
    base = `http://127.0.0.1:${port}/ca/api/console`
  })
  after(() => service.dispose())

  const get = (path: string, headers: Record<string, string> = {}) =>
    fetch(base + path, { headers: { 'accept-encoding': 'identity', ...headers }, redirect: 'manual' })
  const names = async () => {
    const html = await (await get('/')).text()
    return [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, name]) => `/${name}`)
  }

  test('without a slash it leads to the page, by a relative path', async () => {
    const reply = await get('')
    assert.deepEqual([reply.status, reply.headers.get('location')], [308, 'console/'])
  })

  test('the page allows no script but its own, and no frame', async () => {
    const reply = await get('/')
    assert.equal(reply.status, 200)
    assert.equal(reply.headers.get('content-security-policy'), POLICY)
    assert.equal(reply.headers.get('x-content-type-options'), 'nosniff')
    assert.equal(reply.headers.get('x-frame-options'), 'DENY')
    assert.match(String(reply.headers.get('content-type')), /^text\/html/)
    assert.doesNotMatch(await reply.text(), /<script>|<style|style=|https?:/)
  })

  test('the page is asked for again by its ETag; its files are kept for good', async () => {
    const page = await get('/')
    assert.equal(page.headers.get('cache-control'), 'no-cache')
    const again = await get('/', { 'if-none-match': String(page.headers.get('etag')) })
    assert.deepEqual([again.status, await again.text()], [304, ''])
    const files = await names()
    assert.equal(files.length, 3)
    for (const name of files) {
      const reply = await get(name)
      assert.equal(reply.status, 200, name)
      assert.equal(reply.headers.get('cache-control'), 'public, max-age=31536000, immutable')
      await reply.text()
    }
  })

  test('packed as the browser takes it, the first load is small', async () => {
    for (const [coding, refused] of [
      ['br', 'gzip;q=0, br'],
      ['gzip', 'gzip, br;q=0'],
    ] as const) {
      let bytes = 0
      for (const name of ['/', ...(await names())]) {
        const reply = await get(name, { 'accept-encoding': refused })
        assert.equal(reply.headers.get('content-encoding'), coding)
        assert.equal(reply.headers.get('vary'), 'Accept-Encoding')
        bytes += Number(reply.headers.get('content-length'))
      }
      assert.ok(bytes > 0 && bytes < MOST_BYTES, `${bytes} bytes with ${coding}`)
    }
  })

  test('what is no file is no resource of the Admin API', async () => {
    for (const path of ['/nothing.js', '/index.html.br', '/%2e%2e/%2e%2e/thread.js', '//'])
      assert.equal((await get(path)).status, 404, path)
    assert.equal((await fetch(`${base}/`, { method: 'POST' })).status, 404)
  })
})

test('admin_api.console: false serves the Admin API alone', async () => {
  const service = await sharedService('small pages')
  assert.equal((await fetch(`${service.baseUrl}/api/console/`)).status, 404)
  assert.equal((await fetch(`${service.baseUrl}/api`)).status, 200)
})
