/** http-01 over real sockets. How servers, devices and scripts spell the right answer is in `test/corpus/http-answers.ts`. */

import assert from 'node:assert/strict'
import type { RequestListener } from 'node:http'
import type { Socket } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import type { Http01Job, ValidationVerdict } from '../../workers/job.ts'
import { validateHttp01 } from '../../workers/validate/http-01.ts'
import { each } from '../support/each.ts'
import { a, cname, type Script, SERVFAIL, zoneScript } from './scripted-dns.ts'
import {
  aJob,
  answering,
  CHALLENGE_PATH,
  KEY_AUTHORIZATION,
  type ScriptedWeb,
  serving,
  startWeb,
  TOKEN,
} from './scripted-web.ts'
import {
  assertEndsAfter,
  assertInvalid,
  assertNothingMoreOpen,
  assertValid,
  dnsOf,
  FOR_EVER_MS,
  fixed,
  keptRaw,
  keptSecureWeb,
  keptSilent,
  keptWeb,
  openResources,
  startBlackHole,
  stepsOf,
} from './verdicts.ts'

type Changes = Partial<Http01Job>

const verdictAt = ({ port }: { port: number }, changes?: Changes) => validateHttp01(aJob(port, changes))
/** The verdict on a web server that answers like this. */
const verdictOn = async (t: TestContext, listener: RequestListener, changes?: Changes) =>
  verdictAt(await keptWeb(t, listener), changes)
/** The verdict on a server that sends these bytes, or does this with the connection. */
const verdictOnBytes = async (t: TestContext, talk: string | ((socket: Socket) => void), changes?: Changes) =>
  verdictAt(await keptRaw(t, typeof talk === 'string' ? (socket) => socket.end(talk, 'latin1') : talk), changes)

/** What the client reads says nothing of `reason`, which is kept for the operator. */
function assertWithheld(verdict: ValidationVerdict, problem: string, reason: RegExp): void {
  assertInvalid(verdict, 'incorrectResponse', false, BEHIND_REDIRECT)
  const [kept, ...others] = stepsOf(verdict, 'behind-redirect')
  assert.deepEqual([kept?.['problem'], others], [problem, []], JSON.stringify(verdict))
  assert.match(String(kept?.['reason']), reason)
}
const BEHIND_REDIRECT =
  /^http:\/\/demo\.test:\d+\/\.well-known\/acme-challenge\/[\w-]+: it redirects, and no key authorization was found there; the operator of this server can see why$/
const NO_ADDRESS = /no address that this server may connect to$/

/** Goes on writing as long as the connection is there. */
function drip(socket: Pick<NodeJS.EventEmitter, 'on'>, everyMs: number, write: () => void): void {
  const timer = setInterval(write, everyMs)
  socket.on('close', () => clearInterval(timer))
}

describe('the right answer (RFC 8555 §8.3)', () => {
  test('is found at the well-known path, with our Host and User-Agent', async (t) => {
    let seen: Record<string, string | string[] | undefined> = {}
    const web = await keptWeb(t, (request, response) => {
      seen = request.headers
      answering(request, response)
    })
    assertValid(await verdictAt(web))
    assert.deepEqual(web.requests, [`GET ${CHALLENGE_PATH}`])
    assert.equal(seen['host'], `demo.test:${web.port}`)
    assert.equal(seen['user-agent'], 'chancery-test/1.0')
    assert.equal(seen['connection'], 'close')
  })
  test('leaves evidence of addresses, connection, status and duration', async (t) => {
    const web = await keptWeb(t, answering)
    const { evidence } = await verdictAt(web)
    assert.deepEqual(each(evidence, 'step'), ['resolved', 'connected', 'response', 'finished'])
    assert.deepEqual(evidence[1], { step: 'connected', address: '127.0.0.1', port: web.port })
    assert.deepEqual(evidence[2], { step: 'response', status: 200, bytes: KEY_AUTHORIZATION.length })
  })
  test('is found over IPv6, which is tried first', async (t) => {
    // In this order: a port of IPv4 can be in use by any connection that another test has closed.
    const four = await keptWeb(t, answering)
    const web = await keptWeb(t, answering, '::1', four.port)
    assertValid(await verdictAt(web, { dns: fixed('127.0.0.1', '::1') }))
    assert.deepEqual([web.requests.length, four.requests.length], [1, 0])
  })
  test('is found over IPv4 when nobody listens on IPv6', async (t) => {
    const verdict = await verdictOn(t, answering, { dns: fixed('127.0.0.1', '::1') })
    assertValid(verdict)
    assert.equal(stepsOf(verdict, 'not-connected')[0]?.['address'], '::1')
  })
  test('is found behind a dead first A record', async (t) => {
    const dns = await dnsOf(t, zoneScript({ 'demo.test': ['127.0.0.2', '127.0.0.3', '127.0.0.1'] }))
    assertValid(await verdictOn(t, answering, { dns }))
  })
  test('is found behind a first A record that swallows packets', async (t) => {
    const web = await keptWeb(t, answering)
    await startBlackHole(t, '127.0.0.2', web.port)
    const verdict = await verdictAt(web, { dns: fixed('127.0.0.2', '127.0.0.1'), timeoutMs: 6000 })
    assertValid(verdict)
    assert.equal(stepsOf(verdict, 'not-connected')[0]?.['reason'], 'timed out')
  })
  test('is found through an alias', async (t) => {
    const dns = await dnsOf(t, ({ name, type }) =>
      type === 'A' ? { answers: [cname(name, 'host.test'), a('host.test', '127.0.0.1')] } : { answers: [] },
    )
    assertValid(await verdictOn(t, answering, { dns }))
  })
  test('may come in chunks of one letter', async (t) => {
    const verdict = await verdictOn(t, (_request, response) => {
      for (const letter of KEY_AUTHORIZATION) response.write(letter)
      response.end()
    })
    assertValid(verdict)
  })
})

describe('IP identifiers (RFC 8738 §4)', () => {
  for (const value of ['127.0.0.1', '::1']) {
    test(`${value} is connected to without a look-up`, async (t) => {
      let host: string | undefined
      const listener: RequestListener = (request, response) => {
        host = request.headers.host
        answering(request, response)
      }
      const web = await keptWeb(t, listener, value)
      const verdict = await verdictAt(web, { identifier: { type: 'ip', value } })
      assertValid(verdict)
      assert.equal(host, `${value === '::1' ? '[::1]' : value}:${web.port}`)
      assert.equal(stepsOf(verdict, 'resolved').length, 0)
    })
  }
  test('a blocked address is refused', async () => {
    const job = aJob(80, { identifier: { type: 'ip', value: '127.0.0.1' }, blockedNetworks: ['127.0.0.0/8'] })
    assertInvalid(await validateHttp01(job), 'connection', false, NO_ADDRESS)
  })
  test('a DNS name that reads as an address is not connected to', async (t) => {
    const web = await keptWeb(t, answering)
    for (const value of ['127.0.0.0x1', '127.1', '0x7f000001', '2130706433'])
      assertInvalid(await verdictAt(web, { identifier: { type: 'dns', value } }), 'dns', false, /not a host name/)
    assert.equal(web.requests.length, 0)
  })
})

describe('the body', () => {
  const good: Record<string, string> = {
    'blanks, tabs and lines': `${KEY_AUTHORIZATION} \t\r\n\n \v\f`,
    'a thousand blanks': `${KEY_AUTHORIZATION}${' '.repeat(1000)}`,
  }
  for (const [what, body] of Object.entries(good))
    test(`may end with ${what}`, async (t) => assertValid(await verdictOn(t, serving(body))))

  const bad: Record<string, string | Buffer> = {
    'another key authorization': `${TOKEN}.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA`,
    nothing: '',
    'the token alone': TOKEN,
    'white space alone': ' \n',
    'one letter less': KEY_AUTHORIZATION.slice(0, -1),
    'one letter more': `${KEY_AUTHORIZATION}A`,
    'another case': KEY_AUTHORIZATION.toLowerCase(),
    padding: `${KEY_AUTHORIZATION}=`,
    'a NUL at the end': `${KEY_AUTHORIZATION}\0`,
    'a no-break space at the end': `${KEY_AUTHORIZATION}\u00a0`,
    'more after white space': `${KEY_AUTHORIZATION}\n${KEY_AUTHORIZATION}`,
    'bytes that are not text': Buffer.from([0xff, 0xfe, 0x00, 0x80]),
    'a web page': '<!doctype html><title>SECRET-OF-THE-TARGET</title>',
  }
  for (const [what, body] of Object.entries(bad)) {
    test(`with ${what} is incorrect, for good, and is not quoted`, async (t) => {
      const verdict = await verdictOn(t, serving(body))
      assertInvalid(verdict, 'incorrectResponse', false, /the body is not the key authorization(?:; it has .*)?$/)
      assert.ok(!JSON.stringify(verdict).includes('SECRET'))
    })
  }
  const slips: [string, string | Buffer, RegExp][] = [
    ['a byte order mark', `\ufeff${KEY_AUTHORIZATION}`, /authorization; it has a byte order mark in front$/],
    ['quotes', `"${KEY_AUTHORIZATION}"`, /authorization; it has quotes inside the value$/],
    ['a blank in front', ` ${KEY_AUTHORIZATION}`, /authorization; it has white space around it$/],
    ['compression', gzipSync(KEY_AUTHORIZATION), /compressed with gzip, which was not asked for$/],
  ]
  for (const [what, body, detail] of slips)
    test(`with ${what} is told so`, async (t) => {
      assertInvalid(await verdictOn(t, serving(body)), 'incorrectResponse', false, detail)
    })
  test('that would unpack to a gigabyte stays packed and is cut off at the limit', async (t) => {
    const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024))
    const bombs = Buffer.concat(Array.from({ length: 16 }, () => bomb))
    const before = process.memoryUsage().rss
    const verdict = await verdictOn(t, (_request, response) => {
      response.setHeader('content-encoding', 'gzip').end(bombs)
    })
    assertInvalid(verdict, 'incorrectResponse', false, /longer than the key authorization/)
    const grown = process.memoryUsage().rss - before
    assert.ok(grown < 64 * 1024 * 1024, `${grown} bytes`)
  })
  test('that never ends is cut off at the limit', async (t) => {
    let sent = 0
    const verdict = await verdictOn(t, (_request, response) =>
      drip(response, 1, () => {
        sent += 16384
        response.write(Buffer.alloc(16384, ' '))
      }),
    )
    assertInvalid(verdict, 'incorrectResponse', false, /longer than the key authorization/)
    assert.ok(sent < 1_000_000, `${sent} bytes`)
  })
  // RFC 9110 §8.6 lets a reader refuse it.
  test('with the same length twice is no answer', async (t) => {
    const length = `content-length: ${KEY_AUTHORIZATION.length}\r\n`
    const verdict = await verdictOnBytes(t, `HTTP/1.1 200 OK\r\n${length}${length}\r\n${KEY_AUTHORIZATION}`)
    assertInvalid(verdict, 'connection', true, /not an HTTP response/)
  })
  test('that breaks off is no answer, even when enough of it came', async (t) => {
    const verdict = await verdictOnBytes(t, `HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n${KEY_AUTHORIZATION}`)
    assertInvalid(verdict, 'connection', true, /no complete response/)
  })
})

for (const status of [201, 204, 206, 304, 400, 401, 403, 404, 429, 500, 503])
  test(`status ${status} with the right body is not enough`, async (t) => {
    const verdict = await verdictOn(t, (_request, response) => {
      response.writeHead(status).end(status === 204 || status === 304 ? undefined : KEY_AUTHORIZATION)
    })
    assertInvalid(verdict, 'unauthorized', true, new RegExp(`status ${status} instead`))
  })

const to =
  (status: number, location: string | undefined): RequestListener =>
  (request, response) => {
    if (request.url !== CHALLENGE_PATH) response.end(KEY_AUTHORIZATION)
    else response.writeHead(status, location === undefined ? {} : { location }).end('moved')
  }

describe('redirects', () => {
  for (const status of [301, 302, 307, 308]) {
    test(`${status} is followed`, async (t) => {
      const web = await keptWeb(t, to(status, '/elsewhere?x=1#fragment'))
      const verdict = await verdictAt(web)
      assertValid(verdict)
      assert.deepEqual(web.requests, [`GET ${CHALLENGE_PATH}`, 'GET /elsewhere?x=1'])
      assert.equal(stepsOf(verdict, 'redirect')[0]?.['to'], `http://demo.test:${web.port}/elsewhere?x=1`)
    })
  }
  for (const status of [300, 303, 304, 305, 306, 309, 399]) {
    test(`${status} is not followed`, async (t) => {
      const web = await keptWeb(t, to(status, '/elsewhere'))
      assertInvalid(await verdictAt(web), 'unauthorized', true, new RegExp(`status ${status} instead`))
      assert.equal(web.requests.length, 1)
    })
  }
  for (const location of ['elsewhere', '../other', '?q', '//demo.test:PORT/x', 'http://user:secret@demo.test:PORT/x']) {
    test(`a Location of ${location} is resolved against the URL`, async (t) => {
      const verdict = await verdictOn(t, (request, response) => {
        assert.equal(request.headers.authorization, undefined)
        to(302, location.replace('PORT', String(request.socket.localPort)))(request, response)
      })
      assertValid(verdict)
    })
  }
  test('the first of two Locations counts, cookies and referrers are not sent', async (t) => {
    const seen: (string | undefined)[] = []
    const verdict = await verdictOn(t, (request, response) => {
      seen.push(request.url, request.headers.cookie, request.headers.referer)
      if (request.url === '/first') return void response.end(KEY_AUTHORIZATION)
      const headers = ['Location', '/first', 'Location', '/second', 'Set-Cookie', 'a=b']
      response.writeHead(302, headers).end()
    })
    assertValid(verdict)
    assert.deepEqual(seen, [CHALLENGE_PATH, undefined, undefined, '/first', undefined, undefined])
  })
  test('the body of a redirect is not read', async (t) => {
    let sent = 0
    const verdict = await verdictOn(t, (request, response) => {
      if (request.url !== CHALLENGE_PATH) return void response.end(KEY_AUTHORIZATION)
      response.writeHead(302, { location: '/x' })
      drip(response, 1, () => {
        sent += 65536
        response.write(Buffer.alloc(65536))
      })
    })
    assertValid(verdict)
    assert.ok(sent < 5_000_000, `${sent} bytes`)
  })
  test('another host is looked up, checked and told so in Host', async (t) => {
    let host: string | undefined
    const web = await keptWeb(t, (request, response) => {
      host = request.headers.host
      to(302, `http://other.test:${request.socket.localPort}/x`)(request, response)
    })
    assertValid(await verdictAt(web))
    assert.equal(host, `other.test:${web.port}`)
  })
  for (const host of ['demo.test', '127.0.0.1'])
    test(`https to ${host} is followed to its port, whatever its certificate says`, async (t) => {
      const secure = await keptSecureWeb(t, (_request, response) => void response.end(KEY_AUTHORIZATION))
      const listener = to(301, `https://${host}:${secure.port}/x`)
      assertValid(await verdictOn(t, listener, { httpsPort: secure.port }))
      assert.deepEqual(secure.requests, ['GET /x'])
    })
  test('https that is not TLS is a tls problem', async (t) => {
    const { port } = await keptRaw(t, (socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'))
    const verdict = await verdictOn(t, to(301, `https://demo.test:${port}/x`), { httpsPort: port })
    assertWithheld(verdict, 'tls', /^no TLS connection: /)
  })
  test('a TLS handshake that never ends is bounded', async (t) => {
    const { port } = await keptSilent(t)
    const verdict = await verdictOn(t, to(301, `https://demo.test:${port}/x`), { httpsPort: port, timeoutMs: 400 })
    assertWithheld(verdict, 'tls', /timed out$/)
  })
  test('ten are followed, eleven are not', async (t) => {
    let hops = 10
    const web = await keptWeb(t, (request, response) => {
      const index = Number(/\/(\d+)$/.exec(request.url ?? '')?.[1] ?? 0)
      if (index === hops) response.end(KEY_AUTHORIZATION)
      else response.writeHead(302, { location: `/${index + 1}` }).end()
    })
    assertValid(await verdictAt(web))
    hops = 11
    web.requests.length = 0
    // Final, so that further attempts do not begin the chain anew.
    assertWithheld(await verdictAt(web), 'incorrectResponse', /more than 10 redirects/)
    assert.equal(web.requests.length, 11)
  })
  test('a loop is seen at once', async (t) => {
    const web = await keptWeb(t, (request, response) => {
      response.writeHead(302, { location: request.url === '/b' ? CHALLENGE_PATH : '/b' }).end()
    })
    assertWithheld(await verdictAt(web), 'incorrectResponse', /loop/)
    assert.equal(web.requests.length, 2)
  })
  const SCHEME = /scheme other than http and https/
  const PORT = /port that validation does not use/
  const NO_URL = /not a URL/
  const refused: Record<string, RegExp> = {
    'ftp://demo.test/x': SCHEME,
    'file:///etc/passwd': SCHEME,
    'gopher://127.0.0.1:6379/_x': SCHEME,
    'javascript:1': SCHEME,
    'data:,x': SCHEME,
    'http://demo.test:6379/': PORT,
    'https://demo.test:22/': PORT,
    'http://demo.test:443/': PORT,
    'https://demo.test:80/': PORT,
    'http://': NO_URL,
    'http://[::1': NO_URL,
    'http://[fe80::1%25eth0]/': NO_URL,
    'http://a b/': NO_URL,
    'http://demo.test:99999/': NO_URL,
  }
  for (const [location, reason] of Object.entries(refused))
    test(`${location} is refused for good and not quoted`, async (t) => {
      const verdict = await verdictOn(t, to(302, location))
      assertInvalid(verdict, 'incorrectResponse', false, reason)
      if (reason === SCHEME) assert.ok(!verdict.ok && !verdict.detail.includes(location))
    })
  // Full-width digits and full stops in UTF-8, which IDNA turns into an address.
  for (const location of ['http://\uff11\uff12\uff17.0.0.2/', 'http://127\u30020\u30020\u30022/']) {
    test(`${location} is the address 127.0.0.2, and blocked as such`, async (t) => {
      const listener = to(302, Buffer.from(location).toString('latin1'))
      const verdict = await verdictOn(t, listener, { blockedNetworks: ['127.0.0.2/32'] })
      assertWithheld(verdict, 'connection', /address/)
      assert.deepEqual(stepsOf(verdict, 'redirect'), [{ step: 'redirect', to: 'http://127.0.0.2/' }])
    })
  }
  test('without a Location there is nowhere to go', async (t) => {
    assertInvalid(await verdictOn(t, to(302, undefined)), 'incorrectResponse', true, /without a Location/)
  })

  const inside: Record<string, [blocked: string, hosts: string]> = {
    'the address policy': [
      '127.0.0.2/32',
      `127.0.0.2 127.2 127.0.2 0177.0.0.2 0177.0.0.02 0x7f.0.0.2 0x7f000002 0x7F.00.0.0x2 017700000002 2130706434
       %31%32%37.0.0.2 127.0.0.2. [::ffff:127.0.0.2] [::ffff:7f00:2] [::ffff:0:7f00:2] [::127.0.0.2]
       [0:0:0:0:0:ffff:7f00:0002] [64:ff9b::7f00:2] [64:ff9b:1::7f00:2] [2002:7f00:2::] 0.0.0.0 0 [::] 255.255.255.255
       [ff02::1] blocked.test BLOCKED.test.`,
    ],
    // The first hop is on loopback, as everything here; of the networks blocked by default only that is left out.
    'the default that keeps metadata of a cloud machine out of reach': [
      '::1/128 169.254.0.0/16 fe80::/10',
      `169.254.169.254 2852039166 0xa9fea9fe 0251.0376.0251.0376 169.16689662 [::ffff:169.254.169.254]
       [64:ff9b::a9fe:a9fe] [fe80::a9fe:a9fe] metadata.test`,
    ],
  }
  const zone = { 'demo.test': ['127.0.0.1'], 'blocked.test': ['127.0.0.2'], 'metadata.test': ['169.254.169.254'] }
  for (const [what, [blocked, hosts]] of Object.entries(inside))
    for (const host of hosts.split(/\s+/))
      test(`a redirect to ${host} meets ${what}`, async (t) => {
        const changes = { dns: await dnsOf(t, zoneScript(zone)), blockedNetworks: blocked.split(' ') }
        const verdict = await verdictOn(t, to(302, `http://${host}/x`), changes)
        assertWithheld(verdict, 'connection', NO_ADDRESS)
        assert.ok(!verdict.ok && !/127\.0\.0\.2|169\.254/.test(verdict.detail))
      })
})

/** What somebody who redirects into the network of this server would like to tell apart. */
describe('behind a redirect the client reads the same, and the operator what it was', () => {
  const KEPT: Record<string, [problem: string, reason: RegExp]> = {
    '/404': ['unauthorized', /^status 404 instead of 200$/],
    '/401': ['unauthorized', /^status 401 instead of 200$/],
    '/page': ['incorrectResponse', /^the body is not the key authorization$/],
    '/long': ['incorrectResponse', /^the body is longer than the key authorization$/],
    '/broken': ['connection', /^no complete response: /],
    '/onward': ['incorrectResponse', /^redirect to a port that validation does not use$/],
    '/back': ['incorrectResponse', /^redirects form a loop$/],
    'http://127.0.0.3:PORT/': ['connection', /^could not connect: connection refused$/],
    'http://127.0.0.4:PORT/': ['connection', /^no address that this server may connect to$/],
    'http://nowhere.test:PORT/': ['dns', /NXDOMAIN/],
    'https://demo.test:PORT/': ['tls', /^no TLS connection: /],
  }
  for (const [location, [problem, reason]] of Object.entries(KEPT))
    test(location, async (t) => {
      const web: ScriptedWeb = await keptWeb(t, (request, response) => {
        const location302 = (to: string) => void response.writeHead(302, { location: to }).end()
        switch (request.url) {
          case CHALLENGE_PATH:
            return location302(location.replace('PORT', String(web.port)))
          case '/page':
            return void response.end('SECRET-OF-THE-TARGET')
          case '/long':
            return void response.end('SECRET'.repeat(1000))
          case '/broken':
            return void request.socket.end()
          case '/onward':
            return location302('http://10.0.0.5:6379/')
          case '/back':
            return location302(CHALLENGE_PATH)
          default:
            return void response.writeHead(Number(request.url?.slice(1))).end()
        }
      })
      const dns = await dnsOf(t, zoneScript({ 'demo.test': ['127.0.0.1'] }))
      const verdict = await verdictAt(web, { dns, httpsPort: web.port, blockedNetworks: ['127.0.0.4'] })
      assertWithheld(verdict, problem, reason)
      assert.ok(!JSON.stringify(verdict).includes('SECRET'))
    })
})

describe('behind the step to https, under the same name and path', () => {
  /** Of a site whose plain part does nothing but send everybody to its secure one. */
  async function verdictOnSecure(t: TestContext, listener: RequestListener): Promise<ValidationVerdict> {
    const { port: httpsPort } = await keptSecureWeb(t, listener)
    const upgrade: RequestListener = (request, response) => {
      response.writeHead(301, { location: `https://demo.test:${httpsPort}${request.url}` }).end()
    }
    return verdictOn(t, upgrade, { httpsPort })
  }

  test('the client reads what failed', async (t) => {
    const verdict = await verdictOnSecure(t, (_request, response) => void response.writeHead(404).end())
    assertInvalid(verdict, 'unauthorized', true, /: status 404 instead of 200 \(after a redirect within the site\)$/)
  })
  test('the client reads nothing of a further redirect', async (t) => {
    const verdict = await verdictOnSecure(t, (request, response) => {
      if (request.url === '/other') response.writeHead(404).end()
      else response.writeHead(302, { location: '/other' }).end()
    })
    assertWithheld(verdict, 'unauthorized', /^status 404 instead of 200$/)
  })
})

describe('blocked networks', () => {
  for (const address of ['127.0.0.1', '::1', '::ffff:127.0.0.1', '64:ff9b::7f00:1', '2002:7f00:1::', '0.0.0.0', '::']) {
    test(`a name that resolves to ${address} is not connected to`, async (t) => {
      const web = await keptWeb(t, answering)
      const verdict = await verdictAt(web, { dns: fixed(address), blockedNetworks: ['127.0.0.0/8', '::1/128'] })
      assertInvalid(verdict, 'connection', false, NO_ADDRESS)
      assert.equal(stepsOf(verdict, 'blocked').length, 1)
      assert.equal(web.requests.length, 0)
    })
  }
  test('the addresses that are left are used', async (t) => {
    const dns = fixed('::1', '127.0.0.2', '127.0.0.1')
    const verdict = await verdictOn(t, answering, { dns, blockedNetworks: ['::1', '127.0.0.2'] })
    assertValid(verdict)
    assert.deepEqual(stepsOf(verdict, 'blocked')[0]?.['addresses'], ['::1', '127.0.0.2'])
    assert.equal(stepsOf(verdict, 'not-connected').length, 0)
  })
  /** 127.0.0.1 for the first question, and then 127.0.0.2. */
  function moving(): { script: Script; queries(): number } {
    let queries = 0
    const addressNow = () => (queries++ === 0 ? '127.0.0.1' : '127.0.0.2')
    return {
      script: ({ name, type }) => ({ answers: type === 'A' ? [a(name, addressNow())] : [] }),
      queries: () => queries,
    }
  }
  test('a name that changes its address after the check is not looked up again', async (t) => {
    const { script, queries } = moving()
    assertValid(await verdictOn(t, answering, { dns: await dnsOf(t, script), blockedNetworks: ['127.0.0.2'] }))
    assert.equal(queries(), 1)
  })
  test('a name that has moved to a blocked address by the time of a redirect is refused there', async (t) => {
    const web = await keptWeb(t, to(302, '/x'))
    const verdict = await verdictAt(web, { dns: await dnsOf(t, moving().script), blockedNetworks: ['127.0.0.2'] })
    assertWithheld(verdict, 'connection', NO_ADDRESS)
    assert.equal(web.requests.length, 1)
  })
  test('a proxy in the environment is not used', async (t) => {
    const proxy = await keptRaw(t, (socket) => socket.end())
    const names = ['http_proxy', 'HTTP_PROXY', 'all_proxy', 'NODE_USE_ENV_PROXY'] as const
    for (const name of names) process.env[name] = name.startsWith('NODE') ? '1' : `http://127.0.0.1:${proxy.port}`
    t.after(() => {
      for (const name of names) delete process.env[name]
    })
    assertValid(await verdictOn(t, answering))
    assert.equal(proxy.requests.length, 0)
  })
})

describe('a failure of DNS is a dns problem, to be tried again', () => {
  const failures: [string, Script, RegExp][] = [
    ['NXDOMAIN', zoneScript({}), /the name does not exist \(NXDOMAIN\)$/],
    ['no address', zoneScript({ 'demo.test': [] }), /no A or AAAA record$/],
    ['SERVFAIL', () => ({ rcode: SERVFAIL }), /SERVFAIL$/],
  ]
  for (const [what, script, detail] of failures)
    test(what, async (t) => {
      assertInvalid(await validateHttp01(aJob(80, { dns: await dnsOf(t, script) })), 'dns', true, detail)
    })
  test('silence within the time of the look-up', async (t) => {
    const dns = { ...(await dnsOf(t, () => 'drop')), timeoutMs: 300 }
    const verdict = await validateHttp01(aJob(80, { dns, timeoutMs: FOR_EVER_MS }))
    assertInvalid(verdict, 'dns', true, /no answer in time$/)
  })
  test('silence within the time of the attempt, which no look-up outlives', async (t) => {
    const dns = { ...(await dnsOf(t, () => 'drop')), timeoutMs: FOR_EVER_MS }
    await assertEndsAfter(
      300,
      () => validateHttp01(aJob(80, { dns, timeoutMs: 300 })),
      (verdict) => assertInvalid(verdict, 'dns', true, /no answer in time$/),
    )
  })
})

describe('failures of the connection', () => {
  test('a closed port is a connection problem', async () => {
    const web = await startWeb(answering)
    await web.close()
    assertInvalid(
      await verdictAt(web),
      'connection',
      true,
      /demo\.test:\d+\/\S+: could not connect: connection refused$/,
    )
  })
  test('all addresses together share the time of the attempt', async (t) => {
    const web = await keptWeb(t, answering, '127.0.0.9')
    for (const host of ['127.0.0.2', '127.0.0.3']) await startBlackHole(t, host, web.port)
    await assertEndsAfter(
      500,
      () => verdictAt(web, { dns: fixed('127.0.0.2', '127.0.0.3'), timeoutMs: 500 }),
      (verdict) => {
        assertInvalid(verdict, 'connection', true, /could not connect: timed out$/)
        assert.equal(stepsOf(verdict, 'not-connected').length, 2)
      },
    )
  })

  const endless: Record<string, (socket: Socket) => void> = {
    'a server that says nothing': () => {},
    'headers in drips': (socket) => {
      socket.write('HTTP/1.1 200 OK\r\nx-header: ')
      drip(socket, 20, () => socket.write('x'))
    },
    'a body in drips': (socket) => {
      let index = 0
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 800\r\n\r\n')
      drip(socket, 20, () => socket.write(KEY_AUTHORIZATION[index++ % 80]!))
    },
    'informational responses without end': (socket) =>
      drip(socket, 5, () => socket.write('HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n')),
  }
  for (const [what, talk] of Object.entries(endless))
    test(`the deadline ends ${what}`, async (t) => {
      const server = await keptRaw(t, talk)
      await assertEndsAfter(
        400,
        () => verdictAt(server, { timeoutMs: 400 }),
        (verdict) => assertInvalid(verdict, 'connection', true, /no complete response: timed out$/),
      )
    })
  test('redirects share the deadline', async (t) => {
    const web = await keptWeb(t, async (request, response) => {
      await sleep(200)
      const index = Number(/\/(\d+)$/.exec(request.url ?? '')?.[1] ?? 0)
      response.writeHead(302, { location: `/${index + 1}` }).end()
    })
    await assertEndsAfter(
      1000,
      () => verdictAt(web, { timeoutMs: 1000 }),
      (verdict) => assertWithheld(verdict, 'connection', /timed out$/),
    )
  })

  const CHUNKED = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'
  const noise: Record<string, string> = {
    'another protocol': 'SSH-2.0-OpenSSH_9.2p1 SECRET\r\n',
    binary: '\x00\x01\x02\xff\xfe',
    'a status line with a broken code': 'HTTP/1.1 SECRET OK\r\n\r\n',
    'headers without end': `HTTP/1.1 200 OK\r\n${'x-header: SECRET\r\n'.repeat(4000)}`,
    'a broken header': 'HTTP/1.1 200 OK\r\nSECRET header\r\n\r\n',
    'length and chunks': `HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n${KEY_AUTHORIZATION}`,
    'a broken chunk': 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nSECRET\r\n',
    'a header of a mebibyte': `HTTP/1.1 200 OK\r\nx-header: ${'SECRET'.repeat(175_000)}\r\n\r\n${KEY_AUTHORIZATION}`,
    'a version that does not exist': `HTTP/x.y 200 OK\r\n\r\n${KEY_AUTHORIZATION}`,
    'a chunk whose size overflows': `${CHUNKED}ffffffffffffffffff\r\n${KEY_AUTHORIZATION}\r\n0\r\n\r\n`,
    'a chunk of negative size': `${CHUNKED}-57\r\n${KEY_AUTHORIZATION}\r\n0\r\n\r\n`,
    'a chunk size in decimal with a prefix': `${CHUNKED}0x57\r\n${KEY_AUTHORIZATION}\r\n0\r\n\r\n`,
    'a chunk longer than its size': `${CHUNKED}10\r\n${KEY_AUTHORIZATION}\r\n0\r\n\r\n`,
    'a chunk extension of a mebibyte': `${CHUNKED}57;${'SECRET'.repeat(175_000)}\r\n${KEY_AUTHORIZATION}\r\n0\r\n\r\n`,
    'trailers of a mebibyte': `${CHUNKED}57\r\n${KEY_AUTHORIZATION}\r\n0\r\n${'x-trailer: SECRET\r\n'.repeat(60_000)}`,
    'a switch of protocols': 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: SECRET\r\n\r\n',
    'a close at once': '',
  }
  for (const [what, bytes] of Object.entries(noise)) {
    test(`${what} instead of a response is a connection problem and is not quoted`, async (t) => {
      const verdict = await verdictOnBytes(t, bytes)
      assertInvalid(verdict, 'connection', true, /no complete response/)
      assert.ok(!JSON.stringify(verdict).includes('SECRET'), JSON.stringify(verdict))
    })
  }
  test('a hundred dead addresses cost no more than a few attempts', async (t) => {
    const web = await startWeb(answering)
    await web.close()
    const many = Array.from({ length: 100 }, (_, index) => `127.1.0.${index + 1}`)
    const verdict = await verdictAt(web, { dns: await dnsOf(t, zoneScript({ 'demo.test': many })) })
    assertInvalid(verdict, 'connection', true, /connection refused$/)
    assert.ok(stepsOf(verdict, 'not-connected').length <= 4)
  })
  test('sixteen addresses of which the last is allowed lead to that one', async (t) => {
    const addresses = [...Array.from({ length: 15 }, (_, index) => `127.1.0.${index + 1}`), '127.0.0.1']
    assertValid(await verdictOn(t, answering, { dns: fixed(...addresses), blockedNetworks: ['127.1.0.0/16'] }))
  })
  test('no bytes make the attempt throw, hang or succeed', async (t) => {
    let next: Uint8Array = Buffer.alloc(0)
    const server = await keptRaw(t, (socket) => void socket.end(next))
    const OK = 'HTTP/1.1 200 OK\r\n'
    const prefix = fc.constantFrom('', 'HTTP/1.1 ', OK, `${OK}\r\n`, 'HTTP/1.1 302 Found\r\nlocation: ')
    await fc.assert(
      fc.asyncProperty(prefix, fc.uint8Array({ maxLength: 200 }), fc.boolean(), async (start, bytes, ended) => {
        next = Buffer.concat([Buffer.from(start), bytes, Buffer.from(ended ? '\r\n\r\n' : '')])
        const verdict = await verdictAt(server, { timeoutMs: 1000 })
        assert.ok(!verdict.ok && /^[ -~]+$/.test(verdict.detail), JSON.stringify(verdict))
      }),
      { numRuns: 200 },
    )
  })
  test('nothing stays open after an attempt, however it ends', async (t) => {
    const secure = await keptSilent(t)
    const gone = await startWeb(answering)
    await gone.close()
    const webs = [
      await keptWeb(t, answering),
      await keptWeb(t, (_request, response) => void response.write('x'.repeat(100_000))),
      await keptWeb(t, to(302, `https://demo.test:${secure.port}/`)),
      await keptSilent(t),
      gone,
    ]
    await sleep(100)
    const before = openResources()
    for (const web of webs)
      await verdictAt(web, { timeoutMs: 200, httpsPort: secure.port, dns: fixed('::1', '127.0.0.1') })
    await assertNothingMoreOpen(before)
  })
  test('a reset in the middle is a connection problem', async (t) => {
    const verdict = await verdictOnBytes(t, (socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc')
      setTimeout(() => socket.resetAndDestroy(), 20)
    })
    assertInvalid(verdict, 'connection', true, /no complete response: connection reset$/)
  })
})
