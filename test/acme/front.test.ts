/** What every response has, whatever it is about, and where the resources lie (RFC 8555 §6.1, §6.5, §7.1). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parse } from 'yaml'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { head, openRaw } from '../http/raw-client.ts'
import {
  type Answer,
  createAcmeClient,
  newAccountKey,
  type RawRequest,
  registeredClient,
  revoke,
  send,
  startResponder,
} from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { certIdOf } from '../support/certificate-id.ts'
import { configOf } from '../support/reload.ts'
import type { LogLine } from '../support/service.ts'
import { EXTERNAL } from '../support/shared-service.ts'

const DIRECTORY = `${EXTERNAL}/acme/v2/start`

/** What counts as now; the machine may stand still between two looks at the clock. */
const NOW_MS = 300_000

describe('a service behind a proxy, with paths of its own', () => {
  const { service } = acmeScene('paths')

  /** The proxy: what is asked of the external URL goes to the service, with the path as `strip` says. */
  const through =
    (strip: string, headers: Record<string, string> = {}) =>
    (request: RawRequest): Promise<Answer> =>
      send({
        ...request,
        url: request.url.replace(`https://ca.example.test${strip}`, service.baseUrl),
        headers: { ...request.headers, ...headers },
      })

  function get(path: string, headers: Record<string, string> = {}): Promise<Answer> {
    return send({ method: 'GET', url: service.baseUrl + path, headers })
  }

  for (const [kind, strip] of [
    ['leaves the path of external_url', ''],
    ['strips the path of external_url', '/pki'],
  ] as const) {
    test(`a proxy that ${kind} reaches every advertised resource`, async () => {
      const proxy = through(strip)
      const client = await createAcmeClient(DIRECTORY, newAccountKey(), proxy)
      assert.equal(client.directory['newNonce'], `${EXTERNAL}/acme/v2/nonce`)
      assert.equal(client.directory['newAccount'], `${EXTERNAL}/acme/v2/join`)
      assert.equal(client.directory['revokeCert'], `${EXTERNAL}/acme/revoke-cert`)
      assert.equal((await client.newAccount()).status, 201)
      assert.ok(client.kid.startsWith(`${EXTERNAL}/acme/acct/`))
      const order = await client.newOrder(['a.test'])
      assert.equal(order.status, 201, order.text)
      for (const url of [order.json.finalize, ...order.json.authorizations])
        assert.ok(url.startsWith(`${EXTERNAL}/acme/`), url)
      assert.equal((await client.post(order.json.authorizations[0])).status, 200)
      assert.deepEqual(order.links['index'], [DIRECTORY])
    })
  }

  test('the path of external_url is in front of every URL; probes find health at the root, too', async () => {
    for (const strip of ['', '/pki'])
      for (const path of ['/pki/livez', '/pki/healthz', '/pki/readyz', '/pki/metrics', '/pki/api', '/pki/acme/crl'])
        assert.equal((await get(path.slice(strip.length))).status, 200, path.slice(strip.length))
    const { json } = await get('/pki/api/openapi.json')
    assert.deepEqual(json.servers, [{ url: `${EXTERNAL}/api` }])
    for (const path of ['/pkilivez', '/pki/pki/livez', '/pki', '/pki/', '/apix'])
      assert.equal((await get(path)).status, 404, path)
  })

  test('the default paths are gone where others are set', async () => {
    for (const path of ['/directory', '/acme/directory', '/acme/new-order', '/v2/start'])
      assert.equal((await get(path)).status, 404, path)
  })

  test('the directory describes the service (§7.1.1; draft-ietf-acme-profiles)', async () => {
    const answer = await get('/acme/v2/start')
    assert.equal(answer.status, 200)
    assert.equal(answer.headers['content-type'], 'application/json')
    assert.deepEqual(answer.json.meta, {
      externalAccountRequired: false,
      website: 'https://www.example.test/',
      caaIdentities: ['example.test'],
      profiles: { default: 'servers', short: 'a week' },
    })
  })

  // RFC 8555 §6.1
  test('a browser may use every resource: each answers a preflight, and every answer and problem may be read', async () => {
    const client = await registeredClient(DIRECTORY, newAccountKey(), through('/pki'))
    const { directory } = client
    const order = await client.newOrder(['browser.test'])
    const signed = [
      ...['newAccount', 'newOrder', 'newAuthz', 'revokeCert', 'keyChange'].map((name) => String(directory[name])),
      client.kid,
      `${client.kid}/orders`,
      order.json.finalize,
      order.json.authorizations[0],
    ]
    const resources: [url: string, methods: string][] = [
      [DIRECTORY, 'GET, HEAD, POST'],
      [String(directory['newNonce']), 'GET, HEAD, POST'],
      ...signed.map((url): [string, string] => [url, 'POST']),
    ]
    const cors = ({ headers }: Answer) => [
      headers['access-control-allow-origin'],
      headers['access-control-expose-headers'],
      headers['access-control-allow-credentials'],
    ]
    const open = ['*', 'Replay-Nonce, Location, Link, Retry-After', undefined]
    const asked = {
      Origin: 'https://elsewhere.example',
      'Access-Control-Request-Method': 'POST',
      'Access-Control-Request-Headers': 'content-type',
    }
    for (const [url, methods] of resources) {
      const preflight = await through('/pki')({ method: 'OPTIONS', url, headers: asked })
      assert.equal(preflight.status, 204, url)
      assert.equal(preflight.text, '')
      assert.deepEqual(cors(preflight), open, url)
      assert.equal(preflight.headers['access-control-allow-methods'], methods, url)
      assert.equal(preflight.headers['access-control-allow-headers'], 'Content-Type', url)
      assert.equal(preflight.headers.allow, methods, url)
      assert.deepEqual(cors(await through('/pki')({ method: 'PUT', url, headers: asked })), open, url)
    }
    const { headers } = await through('/pki')({ method: 'OPTIONS', url: DIRECTORY })
    assert.equal(headers.allow, 'GET, HEAD, POST')
    assert.deepEqual(corsHeaders(headers), [], 'this is no preflight')
    for (const path of ['/acme/v2/start', '/nowhere']) {
      const answer = await get(path, { Origin: asked.Origin })
      assert.deepEqual(cors(answer), open, path)
      assert.equal(answer.headers.vary, 'Origin', path)
    }
  })

  // getssl takes the account's URL from whatever header line has "location" in it.
  test('an answer to a client that is no browser has no CORS headers', async () => {
    const client = await registeredClient(DIRECTORY, newAccountKey(), through('/pki'))
    const order = await client.newOrder(['plain.test'])
    const answers = [
      order,
      await client.post(order.json.finalize, {}),
      await get('/acme/v2/start'),
      await get('/nowhere'),
    ]
    for (const { headers } of answers) {
      assert.deepEqual(corsHeaders(headers), [])
      assert.deepEqual(
        Object.entries(headers)
          .filter(([name, value]) => /location/i.test(`${name}: ${value}`))
          .map(([name]) => name),
        headers.location === undefined ? [] : ['location'],
      )
    }
  })

  test('a URL of more than 14,500 bytes is 414, and the log cuts its path (RFC 9110 §15.5.15)', async () => {
    for (const path of [`/${'a'.repeat(15_000)}`, `/acme/v2/start?${'a'.repeat(15_000)}`]) {
      const answer = await get(path)
      assert.equal(answer.status, 414, path)
      assert.equal(answer.json.type, 'urn:ietf:params:acme:error:malformed')
    }
    assert.equal((await get(`/acme/v2/start?${'a'.repeat(14_000)}`)).status, 200)
    const { path } = await service.untilLogged('the long path', ({ status }) => status === 414)
    assert.ok(String(path).length <= 1_000)
  })

  test('an order takes the profile it names (draft-ietf-acme-profiles)', async () => {
    const client = await registeredClient(DIRECTORY, newAccountKey(), through('/pki'))
    assert.equal((await client.newOrder(['a.test'], { profile: 'short' })).status, 201)
    const refused = await client.newOrder(['a.test'], { profile: 'long' })
    assert.equal(refused.json.type, 'urn:ietf:params:acme:error:invalidProfile')
    assert.match(refused.json.detail, /default, short/)
  })

  test('security headers are on everything, the unknown and the unwell included', async () => {
    const paths = [
      '/acme/v2/start',
      '/acme/v2/nonce',
      '/nowhere',
      '/acme/v2/buy',
      '/livez',
      '/healthz',
      '/readyz',
      '/metrics',
    ]
    for (const path of paths) {
      const { headers } = await get(path)
      assert.equal(headers['x-content-type-options'], 'nosniff', path)
      assert.equal(headers['x-frame-options'], 'DENY', path)
      assert.match(String(headers['content-security-policy']), /default-src 'none'/, path)
      assert.match(String(headers['x-request-id']), /^[0-9a-f-]{36}$/, path)
      assert.equal(headers['server'], undefined, path)
      assert.equal(headers['uwebsockets'], undefined, path)
    }
  })

  test('HSTS follows the scheme that a trusted proxy saw (RFC 6797 §7.2)', async () => {
    const https = await get('/acme/v2/start', { 'X-Forwarded-Proto': 'https' })
    assert.match(String(https.headers['strict-transport-security']), /^max-age=63072000/)
    for (const proto of ['http', 'gopher', ''])
      assert.equal(
        (await get('/livez', { 'X-Forwarded-Proto': proto })).headers['strict-transport-security'],
        undefined,
      )
  })

  async function loggedAddress(...forwarded: string[]): Promise<unknown> {
    const id = `address-${Math.random()}`
    const raw = await openRaw(service.port)
    const lines = [`X-Request-ID: ${id}`, ...forwarded.map((line) => `X-Forwarded-For: ${line}`)]
    raw.send(head('GET /acme/v2/start', ...lines))
    await raw.receives(/^HTTP\/1\.1 200 /)
    raw.socket.destroy()
    const line = await service.untilLogged('the request', (one) => one['requestId'] === id && one.message === 'request')
    return line['address']
  }

  test('the client is the last address that no trusted proxy has', async () => {
    assert.equal(await loggedAddress('203.0.113.9'), '203.0.113.9')
    assert.equal(await loggedAddress('198.51.100.1, 203.0.113.9, 192.0.2.7'), '203.0.113.9')
    assert.equal(await loggedAddress('192.0.2.7'), '192.0.2.7')
    assert.equal(await loggedAddress('2001:db8::1'), '2001:db8::1')
    assert.equal(await loggedAddress('203.0.113.9, not an address'), '127.0.0.1')
    // A proxy that adds a line of its own behind the client's: the client does not get to choose its address.
    assert.equal(await loggedAddress('198.51.100.66', '203.0.113.9'), '203.0.113.9')
    assert.equal(await loggedAddress('198.51.100.66', '203.0.113.9', '192.0.2.7'), '203.0.113.9')
  })

  test('a harmless request id comes back, any other is replaced', async () => {
    const kept = ['a', 'x'.repeat(128), 'abc-123_{}"<>']
    for (const id of kept) assert.equal((await get('/nowhere', { 'X-Request-ID': id })).headers['x-request-id'], id)
    const replaced = ['x'.repeat(129), 'two words', '']
    for (const id of replaced)
      assert.match(String((await get('/nowhere', { 'X-Request-ID': id })).headers['x-request-id']), /^[0-9a-f-]{36}$/)
  })

  test('the log names the key that refuses a client, once for its address', async () => {
    const from = through('/pki', { 'X-Forwarded-For': '203.0.113.77' })
    for (const key of [newAccountKey('ES384'), newAccountKey('ES384'), newAccountKey('EdDSA')]) {
      const refused = await (await createAcmeClient(DIRECTORY, key, from)).newAccount()
      assert.equal(refused.json.type, 'urn:ietf:params:acme:error:badSignatureAlgorithm')
      assert.match(
        refused.json.detail,
        /use one of ES256, RS256, or have (ES384|EdDSA) added to security\.allowed_algorithms/,
      )
    }
    const client = await createAcmeClient(DIRECTORY, newAccountKey(), from)
    const last = await client.post(
      String(client.directory['newAccount']),
      {},
      { withJwk: true, header: { alg: 'HS256' } },
    )
    const isAbout = ({ event }: LogLine) => event === 'account_key_not_allowed'
    const { key, address } = await service.untilLogged('the key', isAbout)
    assert.deepEqual([key, address], ['security.allowed_algorithms', '203.0.113.77'])
    await service.untilLogged('the last request', ({ requestId }) => requestId === last.headers['x-request-id'])
    assert.equal(service.log.filter(isAbout).length, 1)
  })

  test('a certificate names its list at crl.http_port; ari.path lies behind api.base_path, and without ari.revoked_window_seconds the window of a revoked certificate ends with it', async () => {
    const client = await registeredClient(DIRECTORY, newAccountKey(), through('/pki'))
    assert.equal(client.directory['renewalInfo'], `${EXTERNAL}/acme/ari/v1`)
    const infoOf = (certId: string) => get(`/acme/ari/v1/${certId}`)
    assert.match((await infoOf('AQ.AQ')).json.detail, /names no/)
    const responder = await startResponder(service.http01Port)
    const { der } = await client.obtain(['revoked-soon.test'], responder)
    await responder.close()
    const { http_port } = (parse(configOf(service).text()) as { crl: { http_port: number } }).crl
    const list = `http://ca.example.test:${http_port}/pki/acme/crl/default`
    assert.deepEqual(parseCertificate(der).tbs.crlDistributionPointUrls, [list], 'crl.http_port')
    assert.equal((await infoOf(certIdOf(der))).headers['retry-after'], '7200')

    await revoke(client, der)
    const { json, headers } = await infoOf(certIdOf(der))
    const start = Date.parse(json.suggestedWindow.start)
    assert.ok(Math.abs(start - Date.now()) < NOW_MS)
    assert.equal(Date.parse(json.suggestedWindow.end), parseCertificate(der).tbs.notAfter.getTime())
    assert.equal(json.retryAfter, 3600)
    assert.equal(headers['retry-after'], '3600')
  })

  test('every response has a nonce of its own (§6.5)', async () => {
    const answers = await Promise.all(Array.from({ length: 200 }, () => get('/acme/v2/nonce')))
    assert.equal(new Set(answers.map(({ headers }) => headers['replay-nonce'])).size, 200)
  })
})

function corsHeaders(headers: Answer['headers']): string[] {
  return Object.keys(headers).filter((name) => name === 'vary' || name.startsWith('access-control-'))
}
