/** Renewal information (RFC 9773 §3, §4) and the operator's advice to renew. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { base64url, revoke, send } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { certIdOf } from '../support/certificate-id.ts'
import { chancery } from '../support/operator.ts'

/** What counts as now, of windows of days; the machine may stand still between two looks at the clock. */
const NOW_MS = 300_000

const BROWSER = { Origin: 'https://elsewhere.example' }

describe('renewal information', () => {
  const { service, responder, client } = acmeScene('acme')
  let renewalInfo: string
  let certificate: { der: Buffer; certId: string }
  before(async () => {
    renewalInfo = client.directory['renewalInfo'] as string
    certificate = await issue('renewal.test')
  })

  async function issue(name: string) {
    const { der } = await client.obtain([name], responder)
    return { der, certId: certIdOf(der), serial: new X509Certificate(der).serialNumber }
  }

  const get = (certId: string, method = 'GET', headers = {}) =>
    send({ method, url: `${renewalInfo}/${certId}`, headers })

  async function windowOf(certId: string): Promise<{ start: Date; end: Date }> {
    const { start, end } = (await get(certId)).json.suggestedWindow
    return { start: new Date(start), end: new Date(end) }
  }

  test('the directory names the resource (§3)', () => assert.equal(renewalInfo, `${service.baseUrl}/renewalInfo`))

  test('the window opens after two thirds of the lifetime and ends with it (§4.2)', async () => {
    const { validFrom, validTo } = new X509Certificate(certificate.der)
    const [notBefore, notAfter] = [Date.parse(validFrom), Date.parse(validTo)]
    const { start, end } = await windowOf(certificate.certId)
    assert.equal(end.getTime(), notAfter)
    const share = (start.getTime() - notBefore) / (notAfter - notBefore)
    assert.ok(Math.abs(share - 0.6667) < 0.0001, String(share))
  })

  test('retryAfter in the body is the time until the window opens; the header has six hours at most (§4.3)', async () => {
    const answer = await get(certificate.certId)
    const start = Date.parse(answer.json.suggestedWindow.start)
    assert.equal(answer.headers['retry-after'], '21600')
    assert.ok(Math.abs(answer.json.retryAfter - (start - Date.now()) / 1000) < NOW_MS / 1000)
    assert.equal('explanationURL' in answer.json, false)
  })

  test('anyone may ask, and a browser may read the answer; caches do not keep it', async () => {
    const answer = await send({
      method: 'GET',
      url: `${renewalInfo}/${certificate.certId}`,
      headers: { ...BROWSER, Accept: 'application/json' },
    })
    assert.equal(answer.status, 200)
    assert.equal(answer.headers['content-type'], 'application/json')
    assert.equal(answer.headers['access-control-allow-origin'], '*')
    assert.equal(answer.headers['access-control-expose-headers'], 'Replay-Nonce, Location, Link, Retry-After')
    assert.equal(answer.headers['cache-control'], 'no-store')
  })

  test('answers the preflight of a browser', async () => {
    const answer = await get(certificate.certId, 'OPTIONS', BROWSER)
    assert.deepEqual([answer.status, answer.headers['access-control-allow-methods']], [204, 'GET, HEAD'])
  })

  test('HEAD has the headers and no body', async () => {
    const answer = await get(certificate.certId, 'HEAD')
    assert.equal(answer.status, 200)
    assert.ok(Number(answer.headers['retry-after']) >= 3600)
    assert.equal(answer.text, '')
  })

  test('POST is 405 with Allow', async () => {
    const answer = await get(certificate.certId, 'POST')
    assert.equal(answer.status, 405)
    assert.equal(answer.headers.allow, 'GET, HEAD')
  })

  const unknown: Record<string, (certId: string) => string> = {
    'an unknown serial number': (certId) => `${certId.split('.')[0]}.AQ`,
    'the key identifier of another issuer': (certId) => `${base64url(Buffer.alloc(20, 7))}.${certId.split('.')[1]}`,
  }
  for (const [what, make] of Object.entries(unknown)) {
    test(`${what} is 404 malformed, readable by a browser`, async () => {
      const answer = await get(make(certificate.certId), 'GET', BROWSER)
      assert.equal(answer.status, 404)
      assert.equal(answer.json.type, 'urn:ietf:params:acme:error:malformed')
      assert.equal(answer.headers['content-type'], 'application/problem+json')
      assert.equal(answer.headers['access-control-allow-origin'], '*')
    })
  }

  test('a text that is no certID is 400 malformed (§4.1)', async () => {
    const { certId } = certificate
    for (const text of [`${certId}=`, `${certId}.AQ`, 'x', '%2e', '', 'a/b', '00ff'.repeat(200)])
      assert.equal((await get(text)).status, 400, text)
  })

  test('of a revoked certificate the window opens now, and ends within the hour', async () => {
    const { der, certId } = await issue('revoked-renewal.test')
    await revoke(client, der)
    const { start, end } = await windowOf(certId)
    assert.ok(Math.abs(start.getTime() - Date.now()) < NOW_MS)
    assert.equal(end.getTime() - start.getTime(), 3_600_000)
    assert.equal((await get(certId)).json.retryAfter, 3600)
  })

  test('"renewal advise --serial" puts the window of that certificate in the past and says why', async () => {
    const { certId, serial } = await issue('advised.test')
    const usual = await windowOf(certId)
    const why = 'https://ca.example/incident'
    const advised = await chancery(service, 'renewals', 'advise', '--serial', serial, '--explanation', why)
    assert.equal(advised.code, 0, advised.stderr)
    assert.match(advised.stdout, /^1 certificate/m)
    const answer = await get(certId)
    assert.ok(Date.parse(answer.json.suggestedWindow.end) < Date.now())
    assert.equal(answer.json.explanationURL, why)
    assert.equal(answer.json.retryAfter, 3600)
    assert.notDeepEqual((await windowOf(certificate.certId)).end, (await windowOf(certId)).end)

    const cleared = await chancery(service, 'renewals', 'clear', '--serial', serial)
    assert.equal(cleared.code, 0, cleared.stderr)
    assert.deepEqual(await windowOf(certId), usual)
    assert.equal('explanationURL' in (await get(certId)).json, false)
  })

  test('"renewal advise --issuer --window-end" spreads the renewals of an issuer\'s certificates', async () => {
    const end = new Date(Date.now() + 2 * 86_400_000)
    const issuer = new X509Certificate(
      (await client.obtain(['issuer.test'], responder)).chain.split(/(?=-----BEGIN)/)[1] as string,
    )
    const selected = ['--issuer', issuer.fingerprint256, '--window-end', end.toISOString()]
    const advised = await chancery(service, 'renewals', 'advise', ...selected)
    assert.equal(advised.code, 0, advised.stderr)
    const window = await windowOf(certificate.certId)
    assert.ok(Math.abs(window.start.getTime() - Date.now()) < NOW_MS)
    assert.equal(Math.floor(end.getTime() / 1000), window.end.getTime() / 1000)
    assert.equal((await chancery(service, 'renewals', 'clear', '--all')).code, 0)
  })

  const wrongUsage: Record<string, string[]> = {
    'no selection': [],
    'a selection beside --all': ['--all', '--serial', '01'],
    'an empty serial number': ['--serial', ''],
    'an unknown issuer': ['--issuer', '00'.repeat(32)],
    'a time that is none': ['--issued-before', 'yesterday'],
    'a window that is over': ['--all', '--window-end', '2020-01-01'],
    'an explanation that is no URL': ['--all', '--explanation', 'because'],
  }
  for (const [what, words] of Object.entries(wrongUsage)) {
    test(`"renewal advise" with ${what} changes nothing and says so`, async () => {
      const usual = await windowOf(certificate.certId)
      const { code, stderr } = await chancery(service, 'renewals', 'advise', ...words)
      assert.notEqual(code, 0)
      assert.match(stderr, /^chancery: /m)
      assert.deepEqual(await windowOf(certificate.certId), usual)
    })
  }
})
