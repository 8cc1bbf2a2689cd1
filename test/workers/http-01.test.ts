import assert from 'node:assert/strict'
import type { RequestListener } from 'node:http'
import { createServer } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import type { Http01Job, ValidationVerdict } from '../../workers/job.ts'
import { validateHttp01 } from '../../workers/validate/http-01.ts'
import { a, cname, SERVFAIL, zoneScript } from './scripted-dns.ts'
import {
  aJob,
  answering,
  CHALLENGE_PATH,
  KEY_AUTHORIZATION,
  type ScriptedWeb,
  serving,
  startRaw,
  startSecureWeb,
  startWeb,
  TOKEN,
} from './scripted-web.ts'
import {
  assertInvalid,
  assertNothingMoreOpen,
  assertValid,
  dnsOf,
  fixed,
  kept,
  openResources,
  startBlackHole,
  stepsOf,
  timed as timedVerdict,
} from './verdicts.ts'

/** What the client reads says nothing of `reason`, which is kept for the operator. */
function assertWithheld(verdict: ValidationVerdict, problem: string, reason: RegExp): void {
  assertInvalid(verdict, 'incorrectResponse', false, BEHIND_REDIRECT)
  const [kept, ...others] = stepsOf(verdict, 'behind-redirect')
  assert.deepEqual([kept?.['problem'], others], [problem, []], JSON.stringify(verdict))
  assert.match(String(kept?.['reason']), reason)
}
const BEHIND_REDIRECT =
  /^http:\/\/demo\.test:\d+\/\.well-known\/acme-challenge\/[\w-]+: it redirects, and no key authorization was found there; the operator of this server can see why$/

const timed = (job: Http01Job) => timedVerdict(() => validateHttp01(job))

describe('the right answer (RFC 8555 §8.3)', () => {
  test('is found at the well-known path, with our Host and User-Agent', async (t) => {
    let seen: Record<string, string | string[] | undefined> = {}
    const web = await kept(
      t,
      startWeb((request, response) => {
        seen = request.headers
        answering(request, response)
      }),
    )
    const verdict = await validateHttp01(aJob(web.port))
    assertValid(verdict)
    assert.deepEqual(web.requests, [`GET ${CHALLENGE_PATH}`])
    assert.equal(seen['host'], `demo.test:${web.port}`)
    assert.equal(seen['user-agent'], 'chancery-test/1.0')
    assert.equal(seen['connection'], 'close')
  })
  test('leaves evidence of addresses, connection, status and duration', async (t) => {
    const web = await kept(t, startWeb(answering))
    const { evidence } = await validateHttp01(aJob(web.port))
    assert.deepEqual(
      evidence.map(({ step }) => step),
      ['resolved', 'connected', 'response', 'finished'],
    )
    assert.deepEqual(evidence[1], { step: 'connected', address: '127.0.0.1', port: web.port })
    assert.deepEqual(evidence[2], { step: 'response', status: 200, bytes: KEY_AUTHORIZATION.length })
  })
  test('is found over IPv6, which is tried first', async (t) => {
    // In this order: a port of IPv4 can be in use by any connection that another test has closed.
    const four = await kept(t, startWeb(answering))
    const web = await kept(t, startWeb(answering, '::1', four.port))
    const verdict = await validateHttp01(aJob(web.port, { dns: fixed('127.0.0.1', '::1') }))
    assertValid(verdict)
    assert.deepEqual([web.requests.length, four.requests.length], [1, 0])
  })
  test('is found over IPv4 when nobody listens on IPv6', async (t) => {
    const web = await kept(t, startWeb(answering))
    const verdict = await validateHttp01(aJob(web.port, { dns: fixed('127.0.0.1', '::1') }))
    assertValid(verdict)
    assert.equal(stepsOf(verdict, 'not-connected')[0]?.['address'], '::1')
  })
  test('is found behind a dead first A record', async (t) => {
    const web = await kept(t, startWeb(answering))
    const dns = await dnsOf(t, zoneScript({ 'demo.test': ['127.0.0.2', '127.0.0.3', '127.0.0.1'] }))
    assertValid(await validateHttp01(aJob(web.port, { dns })))
  })
  test('is found behind a first A record that swallows packets', async (t) => {
    const web = await kept(t, startWeb(answering))
    await startBlackHole(t, '127.0.0.2', web.port)
    const [verdict, ms] = await timed(aJob(web.port, { dns: fixed('127.0.0.2', '127.0.0.1'), timeoutMs: 6000 }))
    assertValid(verdict)
    assert.equal(stepsOf(verdict, 'not-connected')[0]?.['reason'], 'timed out')
    assert.ok(ms < 60_000, `${ms} ms`)
  })
  test('is found through an alias', async (t) => {
    const web = await kept(t, startWeb(answering))
    const dns = await dnsOf(t, ({ name, type }) =>
      type === 'A' ? { answers: [cname(name, 'host.test'), a('host.test', '127.0.0.1')] } : { answers: [] },
    )
    assertValid(await validateHttp01(aJob(web.port, { dns })))
  })
  test('may come in chunks', async (t) => {
    const web = await kept(
      t,
      startWeb((_request, response) => {
        for (const letter of KEY_AUTHORIZATION) response.write(letter)
        response.end()
      }),
    )
    assertValid(await validateHttp01(aJob(web.port)))
  })
  test('may end with the connection', async (t) => {
    const web = await kept(
      t,
      startRaw((socket) => socket.end(`HTTP/1.0 200 OK\r\n\r\n${KEY_AUTHORIZATION}`)),
    )
    assertValid(await validateHttp01(aJob(web.port)))
  })
  test('may come after informational responses', async (t) => {
    const web = await kept(
      t,
      startRaw((socket) =>
        socket.end(
          `HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: ${KEY_AUTHORIZATION.length}\r\n\r\n${KEY_AUTHORIZATION}`,
        ),
      ),
    )
    assertValid(await validateHttp01(aJob(web.port)))
  })
  test('may have any content type', async (t) => {
    const web = await kept(
      t,
      startWeb((_request, response) => {
        response.setHeader('content-type', 'image/png').end(KEY_AUTHORIZATION)
      }),
    )
    assertValid(await validateHttp01(aJob(web.port)))
  })
})

describe('IP identifiers (RFC 8738 §4)', () => {
  for (const value of ['127.0.0.1', '::1']) {
    test(`${value} is connected to without a look-up`, async (t) => {
      let host: string | undefined
      const web = await kept(
        t,
        startWeb((request, response) => {
          host = request.headers.host
          answering(request, response)
        }, value),
      )
      const verdict = await validateHttp01(aJob(web.port, { identifier: { type: 'ip', value } }))
      assertValid(verdict)
      assert.equal(host, `${value === '::1' ? '[::1]' : value}:${web.port}`)
      assert.equal(stepsOf(verdict, 'resolved').length, 0)
    })
  }
  test('a blocked address is refused', async () => {
    const job = aJob(80, { identifier: { type: 'ip', value: '127.0.0.1' }, blockedNetworks: ['127.0.0.0/8'] })
    assertInvalid(await validateHttp01(job), 'connection', false, /no address that this server may connect to/)
  })
  test('a DNS name that reads as an address is not connected to', async (t) => {
    const web = await kept(t, startWeb(answering))
    for (const value of ['127.0.0.0x1', '127.1', '0x7f000001', '2130706433']) {
      const verdict = await validateHttp01(aJob(web.port, { identifier: { type: 'dns', value } }))
      assertInvalid(verdict, 'dns', false, /not a host name/)
    }
    assert.equal(web.requests.length, 0)
  })
})

describe('the body', () => {
  const good: Record<string, string> = {
    'a line feed': `${KEY_AUTHORIZATION}\n`,
    'carriage return and line feed': `${KEY_AUTHORIZATION}\r\n`,
    'blanks, tabs and lines': `${KEY_AUTHORIZATION} \t\r\n\n \v\f`,
    'a thousand blanks': `${KEY_AUTHORIZATION}${' '.repeat(1000)}`,
  }
  for (const [what, body] of Object.entries(good)) {
    test(`may end with ${what}`, async (t) => {
      const web = await kept(t, startWeb(serving(body)))
      assertValid(await validateHttp01(aJob(web.port)))
    })
  }
  const bad: Record<string, string | Buffer> = {
    'another key authorization': `${TOKEN}.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA`,
    nothing: '',
    'the token alone': TOKEN,
    'white space alone': ' \n',
    'white space in front': ` ${KEY_AUTHORIZATION}`,
    'a byte order mark in front': `\ufeff${KEY_AUTHORIZATION}`,
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
      const web = await kept(t, startWeb(serving(body)))
      const verdict = await validateHttp01(aJob(web.port))
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
      const web = await kept(t, startWeb(serving(body)))
      assertInvalid(await validateHttp01(aJob(web.port)), 'incorrectResponse', false, detail)
    })
  test('is not uncompressed', async (t) => {
    const web = await kept(
      t,
      startWeb((_request, response) => {
        response.setHeader('content-encoding', 'gzip').end(gzipSync(KEY_AUTHORIZATION))
      }),
    )
    assertInvalid(await validateHttp01(aJob(web.port)), 'incorrectResponse', false, /not the key authorization/)
  })
  test('that would unpack to a gigabyte stays packed and is cut off at the limit', async (t) => {
    const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024))
    const web = await kept(
      t,
      startWeb((_request, response) => {
        response.setHeader('content-encoding', 'gzip').end(Buffer.concat(Array.from({ length: 16 }, () => bomb)))
      }),
    )
    const before = process.memoryUsage().rss
    const [verdict, ms] = await timed(aJob(web.port))
    assertInvalid(verdict, 'incorrectResponse', false, /longer than the key authorization/)
    const grown = process.memoryUsage().rss - before
    assert.ok(ms < 60_000 && grown < 64 * 1024 * 1024, `${ms} ms, ${grown} bytes`)
  })
  test('that never ends is cut off at the limit', async (t) => {
    let sent = 0
    const web = await kept(
      t,
      startWeb((_request, response) => {
        const timer = setInterval(() => {
          sent += 16384
          response.write(Buffer.alloc(16384, ' '))
        }, 1)
        response.on('close', () => clearInterval(timer))
      }),
    )
    const [verdict, ms] = await timed(aJob(web.port))
    assertInvalid(verdict, 'incorrectResponse', false, /longer than the key authorization/)
    assert.ok(ms < 60_000 && sent < 1_000_000, `${ms} ms, ${sent} bytes`)
  })
  test('that comes in drips ends with the deadline', async (t) => {
    const web = await kept(
      t,
      startWeb((_request, response) => {
        let index = 0
        const timer = setInterval(() => response.write(KEY_AUTHORIZATION[index++ % 80]!), 20)
        response.on('close', () => clearInterval(timer))
      }),
    )
    const [verdict, ms] = await timed(aJob(web.port, { timeoutMs: 500 }))
    assertInvalid(verdict, 'connection', true, /no complete response: timed out/)
    assert.ok(ms >= 480 && ms < 60_000, `${ms} ms`)
  })
  test('that breaks off is no answer, even when enough of it came', async (t) => {
    const web = await kept(
      t,
      startRaw((socket) => socket.end(`HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n${KEY_AUTHORIZATION}`)),
    )
    assertInvalid(await validateHttp01(aJob(web.port)), 'connection', true, /no complete response/)
  })
})

describe('status', () => {
  for (const status of [201, 204, 206, 304, 400, 401, 403, 404, 429, 500, 503]) {
    test(`${status} with the right body is not enough`, async (t) => {
      const web = await kept(
        t,
        startWeb((_request, response) => {
          response.writeHead(status).end(status === 204 || status === 304 ? undefined : KEY_AUTHORIZATION)
        }),
      )
      assertInvalid(await validateHttp01(aJob(web.port)), 'unauthorized', true, new RegExp(`status ${status} instead`))
    })
  }
})

describe('redirects', () => {
  const to =
    (status: number, location: string | undefined): RequestListener =>
    (request, response) => {
      if (request.url !== CHALLENGE_PATH) response.end(KEY_AUTHORIZATION)
      else response.writeHead(status, location === undefined ? {} : { location }).end('moved')
    }

  for (const status of [301, 302, 307, 308]) {
    test(`${status} is followed`, async (t) => {
      const web = await kept(t, startWeb(to(status, '/elsewhere?x=1#fragment')))
      const verdict = await validateHttp01(aJob(web.port))
      assertValid(verdict)
      assert.deepEqual(web.requests, [`GET ${CHALLENGE_PATH}`, 'GET /elsewhere?x=1'])
      assert.equal(stepsOf(verdict, 'redirect')[0]?.['to'], `http://demo.test:${web.port}/elsewhere?x=1`)
    })
  }
  for (const status of [300, 303, 304, 305, 306, 309, 399]) {
    test(`${status} is not followed`, async (t) => {
      const web = await kept(t, startWeb(to(status, '/elsewhere')))
      assertInvalid(await validateHttp01(aJob(web.port)), 'unauthorized', true, new RegExp(`status ${status} instead`))
      assert.equal(web.requests.length, 1)
    })
  }
  for (const location of ['elsewhere', '../other', '?q', '//demo.test:PORT/x', 'http://user:secret@demo.test:PORT/x']) {
    test(`a Location of ${location} is resolved against the URL`, async (t) => {
      let port = 0
      const web = await kept(
        t,
        startWeb((request, response) => {
          assert.equal(request.headers.authorization, undefined)
          to(302, location.replace('PORT', String(port)))(request, response)
        }),
      )
      port = web.port
      assertValid(await validateHttp01(aJob(web.port)))
    })
  }
  test('the first of two Locations counts, cookies and referrers are not sent', async (t) => {
    const seen: (string | undefined)[] = []
    const web = await kept(
      t,
      startWeb((request, response) => {
        seen.push(request.url, request.headers.cookie, request.headers.referer)
        if (request.url === '/first') return void response.end(KEY_AUTHORIZATION)
        const headers = ['Location', '/first', 'Location', '/second', 'Set-Cookie', 'a=b']
        response.writeHead(302, headers).end()
      }),
    )
    assertValid(await validateHttp01(aJob(web.port)))
    assert.deepEqual(seen, [CHALLENGE_PATH, undefined, undefined, '/first', undefined, undefined])
  })
  test('the body of a redirect is not read', async (t) => {
    let sent = 0
    const web = await kept(
      t,
      startWeb((request, response) => {
        if (request.url !== CHALLENGE_PATH) return void response.end(KEY_AUTHORIZATION)
        response.writeHead(302, { location: '/x' })
        const timer = setInterval(() => {
          sent += 65536
          response.write(Buffer.alloc(65536))
        }, 1)
        response.on('close', () => clearInterval(timer))
      }),
    )
    const [verdict, ms] = await timed(aJob(web.port))
    assertValid(verdict)
    assert.ok(ms < 60_000 && sent < 5_000_000, `${ms} ms, ${sent} bytes`)
  })
  test('another host is looked up, checked and told so in Host', async (t) => {
    let host: string | undefined
    const web: ScriptedWeb = await kept(
      t,
      startWeb((request, response) => {
        host = request.headers.host
        to(302, `http://other.test:${request.socket.localPort}/x`)(request, response)
      }),
    )
    assertValid(await validateHttp01(aJob(web.port)))
    assert.equal(host, `other.test:${web.port}`)
  })
  test('https is followed to its port, whatever its certificate says', async (t) => {
    const secure = await kept(
      t,
      startSecureWeb((_request, response) => void response.end(KEY_AUTHORIZATION)),
    )
    const web = await kept(t, startWeb(to(301, `https://demo.test:${secure.port}/x`)))
    assertValid(await validateHttp01(aJob(web.port, { httpsPort: secure.port })))
    assert.deepEqual(secure.requests, ['GET /x'])
  })
  test('https to an address is followed, without a server name', async (t) => {
    const secure = await kept(
      t,
      startSecureWeb((_request, response) => void response.end(KEY_AUTHORIZATION)),
    )
    const web = await kept(t, startWeb(to(301, `https://127.0.0.1:${secure.port}/x`)))
    assertValid(await validateHttp01(aJob(web.port, { httpsPort: secure.port })))
  })
  test('https that is not TLS is a tls problem', async (t) => {
    const secure = await kept(
      t,
      startRaw((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')),
    )
    const web = await kept(t, startWeb(to(301, `https://demo.test:${secure.port}/x`)))
    const verdict = await validateHttp01(aJob(web.port, { httpsPort: secure.port }))
    assertWithheld(verdict, 'tls', /^no TLS connection: /)
  })
  test('a TLS handshake that never ends is bounded', async (t) => {
    const secure = await kept(
      t,
      startRaw(() => {}),
    )
    const web = await kept(t, startWeb(to(301, `https://demo.test:${secure.port}/x`)))
    const [verdict, ms] = await timed(aJob(web.port, { httpsPort: secure.port, timeoutMs: 400 }))
    assertWithheld(verdict, 'tls', /timed out$/)
    assert.ok(ms < 60_000, `${ms} ms`)
  })
  test('ten are followed, eleven are not', async (t) => {
    let hops = 0
    const counting: RequestListener = (request, response) => {
      const index = Number(/\/(\d+)$/.exec(request.url ?? '')?.[1] ?? 0)
      if (index === hops) response.end(KEY_AUTHORIZATION)
      else response.writeHead(302, { location: `/${index + 1}` }).end()
    }
    const web = await kept(t, startWeb(counting))
    hops = 10
    assertValid(await validateHttp01(aJob(web.port)))
    hops = 11
    web.requests.length = 0
    // Final, so that further attempts do not begin the chain anew.
    assertWithheld(await validateHttp01(aJob(web.port)), 'incorrectResponse', /more than 10 redirects/)
    assert.equal(web.requests.length, 11)
  })
  test('a loop is seen at once', async (t) => {
    const web = await kept(
      t,
      startWeb((request, response) => {
        response.writeHead(302, { location: request.url === '/b' ? CHALLENGE_PATH : '/b' }).end()
      }),
    )
    assertWithheld(await validateHttp01(aJob(web.port)), 'incorrectResponse', /loop/)
    assert.equal(web.requests.length, 2)
  })
  for (const location of [
    'ftp://demo.test/x',
    'file:///etc/passwd',
    'gopher://127.0.0.1:6379/_x',
    'javascript:1',
    'data:,x',
  ]) {
    test(`${location} is refused for good and not quoted`, async (t) => {
      const web = await kept(t, startWeb(to(302, location)))
      const verdict = await validateHttp01(aJob(web.port))
      assertInvalid(verdict, 'incorrectResponse', false, /scheme other than http and https/)
      assert.ok(!verdict.ok && !verdict.detail.includes(location))
    })
  }
  for (const location of [
    'http://demo.test:6379/',
    'https://demo.test:22/',
    'http://demo.test:443/',
    'https://demo.test:80/',
  ]) {
    test(`${location} is a port that is not used`, async (t) => {
      const web = await kept(t, startWeb(to(302, location)))
      assertInvalid(
        await validateHttp01(aJob(web.port)),
        'incorrectResponse',
        false,
        /port that validation does not use/,
      )
    })
  }
  for (const location of [
    'http://',
    'http://[::1',
    'http://[fe80::1%25eth0]/',
    'http://a b/',
    'http://demo.test:99999/',
  ]) {
    test(`${JSON.stringify(location)} is not a URL`, async (t) => {
      const web = await kept(t, startWeb(to(302, location)))
      assertInvalid(await validateHttp01(aJob(web.port)), 'incorrectResponse', false, /not a URL/)
    })
  }
  // Full-width digits and full stops in UTF-8, which IDNA turns into an address.
  for (const location of ['http://\uff11\uff12\uff17.0.0.2/', 'http://127\u30020\u30020\u30022/']) {
    test(`${location} is the address 127.0.0.2, and blocked as such`, async (t) => {
      const web = await kept(t, startWeb(to(302, Buffer.from(location).toString('latin1'))))
      const verdict = await validateHttp01(aJob(web.port, { blockedNetworks: ['127.0.0.2/32'] }))
      assertWithheld(verdict, 'connection', /address/)
      assert.deepEqual(stepsOf(verdict, 'redirect'), [{ step: 'redirect', to: 'http://127.0.0.2/' }])
    })
  }
  test('without a Location there is nowhere to go', async (t) => {
    const web = await kept(t, startWeb(to(302, undefined)))
    assertInvalid(await validateHttp01(aJob(web.port)), 'incorrectResponse', true, /without a Location/)
  })
  for (const host of [
    '127.0.0.2',
    '127.2',
    '127.0.2',
    '0177.0.0.2',
    '0177.0.0.02',
    '0x7f.0.0.2',
    '0x7f000002',
    '0x7F.00.0.0x2',
    '017700000002',
    '2130706434',
    '%31%32%37.0.0.2',
    '127.0.0.2.',
    '[::ffff:127.0.0.2]',
    '[::ffff:7f00:2]',
    '[::ffff:0:7f00:2]',
    '[::127.0.0.2]',
    '[0:0:0:0:0:ffff:7f00:0002]',
    '[64:ff9b::7f00:2]',
    '[64:ff9b:1::7f00:2]',
    '[2002:7f00:2::]',
    '0.0.0.0',
    '0',
    '[::]',
    '255.255.255.255',
    '[ff02::1]',
    'blocked.test',
    'BLOCKED.test.',
  ]) {
    test(`a redirect to ${host} meets the address policy`, async (t) => {
      const web = await kept(t, startWeb(to(302, `http://${host}/x`)))
      const dns = await dnsOf(t, zoneScript({ 'demo.test': ['127.0.0.1'], 'blocked.test': ['127.0.0.2'] }))
      const verdict = await validateHttp01(aJob(web.port, { dns, blockedNetworks: ['127.0.0.2/32'] }))
      assertWithheld(verdict, 'connection', /may connect to$/)
      assert.ok(!verdict.ok && !verdict.detail.includes('127.0.0.2'))
    })
  }
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
      const web: ScriptedWeb = await kept(
        t,
        startWeb((request, response) => {
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
        }, '127.0.0.1'),
      )
      const dns = await dnsOf(t, zoneScript({ 'demo.test': ['127.0.0.1'] }))
      const job = aJob(web.port, { dns, httpsPort: web.port, blockedNetworks: ['127.0.0.4'] })
      const verdict = await validateHttp01(job)
      assertWithheld(verdict, problem, reason)
      assert.ok(!JSON.stringify(verdict).includes('SECRET'))
    })
})

describe('behind the step to https, under the same name and path', () => {
  /** Of a site whose plain part does nothing but send everybody to its secure one. */
  async function jobOf(t: TestContext, httpsPort: number): Promise<Http01Job> {
    const upgrade: RequestListener = (request, response) => {
      response.writeHead(301, { location: `https://demo.test:${httpsPort}${request.url}` }).end()
    }
    const web = await kept(t, startWeb(upgrade))
    return aJob(web.port, { httpsPort })
  }

  test('the client reads what failed', async (t) => {
    const secure = await kept(
      t,
      startSecureWeb((_request, response) => void response.writeHead(404).end()),
    )
    const verdict = await validateHttp01(await jobOf(t, secure.port))
    assertInvalid(verdict, 'unauthorized', true, /: status 404 instead of 200 \(after a redirect within the site\)$/)
  })
  test('the client reads nothing of a further redirect', async (t) => {
    const secure = await kept(
      t,
      startSecureWeb((request, response) => {
        if (request.url === '/other') response.writeHead(404).end()
        else response.writeHead(302, { location: '/other' }).end()
      }),
    )
    assertWithheld(await validateHttp01(await jobOf(t, secure.port)), 'unauthorized', /^status 404 instead of 200$/)
  })
})

describe('metadata of a cloud machine behind a redirect, with the networks blocked by default', () => {
  const blockedNetworks = ['127.0.0.0/8', '::1/128', '169.254.0.0/16', 'fe80::/10']
  for (const host of [
    '169.254.169.254',
    '2852039166',
    '0xa9fea9fe',
    '0251.0376.0251.0376',
    '169.16689662',
    '[::ffff:169.254.169.254]',
    '[64:ff9b::a9fe:a9fe]',
    '[fe80::a9fe:a9fe]',
    'metadata.test',
  ]) {
    test(`is out of reach as ${host}`, async (t) => {
      const redirect: RequestListener = (_request, response) => {
        response.writeHead(302, { location: `http://${host}/latest/meta-data/` }).end()
      }
      const web = await kept(t, startWeb(redirect, '127.0.0.1'))
      const dns = await dnsOf(t, zoneScript({ 'demo.test': ['127.0.0.1'], 'metadata.test': ['169.254.169.254'] }))
      // The first hop is on loopback, as everything here; of the defaults only that is left out.
      const job = aJob(web.port, { dns, blockedNetworks: blockedNetworks.slice(1) })
      const [verdict, ms] = await timed(job)
      assertWithheld(verdict, 'connection', /no address that this server may connect to$/)
      assert.ok(!verdict.ok && !verdict.detail.includes('169.254') && ms < 60_000, `${ms} ms`)
    })
  }
})

describe('blocked networks', () => {
  for (const address of ['127.0.0.1', '::1', '::ffff:127.0.0.1', '64:ff9b::7f00:1', '2002:7f00:1::', '0.0.0.0', '::']) {
    test(`a name that resolves to ${address} is not connected to`, async (t) => {
      const web = await kept(t, startWeb(answering))
      const job = aJob(web.port, { dns: fixed(address), blockedNetworks: ['127.0.0.0/8', '::1/128'] })
      const verdict = await validateHttp01(job)
      assertInvalid(verdict, 'connection', false, /no address that this server may connect to$/)
      assert.equal(stepsOf(verdict, 'blocked').length, 1)
      assert.equal(web.requests.length, 0)
    })
  }
  test('the addresses that are left are used', async (t) => {
    const web = await kept(t, startWeb(answering))
    const job = aJob(web.port, { dns: fixed('::1', '127.0.0.2', '127.0.0.1'), blockedNetworks: ['::1', '127.0.0.2'] })
    const verdict = await validateHttp01(job)
    assertValid(verdict)
    assert.deepEqual(stepsOf(verdict, 'blocked')[0]?.['addresses'], ['::1', '127.0.0.2'])
    assert.equal(stepsOf(verdict, 'not-connected').length, 0)
  })
  test('a name that changes its address after the check is not looked up again', async (t) => {
    const web = await kept(t, startWeb(answering))
    let queries = 0
    const dns = await dnsOf(t, ({ name, type }) => {
      if (type !== 'A') return { answers: [] }
      return { answers: [a(name, queries++ === 0 ? '127.0.0.1' : '127.0.0.2')] }
    })
    assertValid(await validateHttp01(aJob(web.port, { dns, blockedNetworks: ['127.0.0.2'] })))
    assert.equal(queries, 1)
  })
  test('a name that has moved to a blocked address by the time of a redirect is refused there', async (t) => {
    const web = await kept(
      t,
      startWeb((_request, response) => void response.writeHead(302, { location: '/x' }).end()),
    )
    let queries = 0
    const dns = await dnsOf(t, ({ name, type }) => {
      if (type !== 'A') return { answers: [] }
      return { answers: [a(name, queries++ === 0 ? '127.0.0.1' : '127.0.0.2')] }
    })
    const verdict = await validateHttp01(aJob(web.port, { dns, blockedNetworks: ['127.0.0.2'] }))
    assertWithheld(verdict, 'connection', /may connect to$/)
    assert.equal(web.requests.length, 1)
  })
  test('a proxy in the environment is not used', async (t) => {
    const proxy = await kept(
      t,
      startRaw((socket) => socket.end()),
    )
    const web = await kept(t, startWeb(answering))
    const names = ['http_proxy', 'HTTP_PROXY', 'all_proxy', 'NODE_USE_ENV_PROXY'] as const
    for (const name of names) process.env[name] = name.startsWith('NODE') ? '1' : `http://127.0.0.1:${proxy.port}`
    t.after(() => {
      for (const name of names) delete process.env[name]
    })
    assertValid(await validateHttp01(aJob(web.port)))
    assert.equal(proxy.requests.length, 0)
  })
})

describe('failures of DNS', () => {
  test('NXDOMAIN is a dns problem, to be tried again', async (t) => {
    const dns = await dnsOf(t, zoneScript({}))
    assertInvalid(await validateHttp01(aJob(80, { dns })), 'dns', true, /the name does not exist \(NXDOMAIN\)$/)
  })
  test('no address is a dns problem', async (t) => {
    const dns = await dnsOf(t, zoneScript({ 'demo.test': [] }))
    assertInvalid(await validateHttp01(aJob(80, { dns })), 'dns', true, /no A or AAAA record$/)
  })
  test('SERVFAIL is a dns problem', async (t) => {
    const dns = await dnsOf(t, () => ({ rcode: SERVFAIL }))
    assertInvalid(await validateHttp01(aJob(80, { dns })), 'dns', true, /SERVFAIL$/)
  })
  test('silence is a dns problem within the time of the look-up', async (t) => {
    const dns = { ...(await dnsOf(t, () => 'drop')), timeoutMs: 300 }
    const [verdict, ms] = await timed(aJob(80, { dns }))
    assertInvalid(verdict, 'dns', true, /no answer in time$/)
    assert.ok(ms < 60_000, `${ms} ms`)
  })
  test('a look-up cannot outlive the attempt', async (t) => {
    const dns = { ...(await dnsOf(t, () => 'drop')), timeoutMs: 30_000 }
    const [verdict, ms] = await timed(aJob(80, { dns, timeoutMs: 300 }))
    assertInvalid(verdict, 'dns', true, /no answer in time$/)
    assert.ok(ms >= 280 && ms < 60_000, `${ms} ms`)
  })
})

describe('failures of the connection', () => {
  test('a closed port is a connection problem', async () => {
    const web = await startWeb(answering)
    await web.close()
    const verdict = await validateHttp01(aJob(web.port))
    assertInvalid(verdict, 'connection', true, /demo\.test:\d+\/\S+: could not connect: connection refused$/)
  })
  test('all addresses together share the time of the attempt', async (t) => {
    const web = await kept(t, startWeb(answering, '127.0.0.9'))
    for (const host of ['127.0.0.2', '127.0.0.3']) await startBlackHole(t, host, web.port)
    const [verdict, ms] = await timed(aJob(web.port, { dns: fixed('127.0.0.2', '127.0.0.3'), timeoutMs: 500 }))
    assertInvalid(verdict, 'connection', true, /could not connect: timed out$/)
    assert.equal(stepsOf(verdict, 'not-connected').length, 2)
    assert.ok(ms >= 480 && ms < 60_000, `${ms} ms`)
  })
  test('a server that says nothing ends with the deadline', async (t) => {
    const web = await kept(
      t,
      startRaw(() => {}),
    )
    const [verdict, ms] = await timed(aJob(web.port, { timeoutMs: 400 }))
    assertInvalid(verdict, 'connection', true, /no complete response: timed out$/)
    assert.ok(ms >= 380 && ms < 60_000, `${ms} ms`)
  })
  test('redirects share the deadline', async (t) => {
    const web = await kept(
      t,
      startWeb(async (request, response) => {
        await sleep(300)
        const index = Number(/\/(\d+)$/.exec(request.url ?? '')?.[1] ?? 0)
        response.writeHead(302, { location: `/${index + 1}` }).end()
      }),
    )
    const [verdict, ms] = await timed(aJob(web.port, { timeoutMs: 2000 }))
    assertWithheld(verdict, 'connection', /timed out$/)
    assert.ok(ms >= 1980 && ms < 60_000, `${ms} ms`)
  })

  const CHUNKED = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'
  const noise: Record<string, string> = {
    'another protocol': 'SSH-2.0-OpenSSH_9.2p1 SECRET\r\n',
    binary: '\x00\x01\x02\xff\xfe',
    'a status line with a broken code': 'HTTP/1.1 SECRET OK\r\n\r\n',
    'headers without end': `HTTP/1.1 200 OK\r\n${'x-header: SECRET\r\n'.repeat(4000)}`,
    'a broken header': 'HTTP/1.1 200 OK\r\nSECRET header\r\n\r\n',
    'two lengths': `HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n${KEY_AUTHORIZATION}`,
    'length and chunks': `HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n${KEY_AUTHORIZATION}`,
    'a broken chunk': 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nSECRET\r\n',
    'a header of a mebibyte': `HTTP/1.1 200 OK\r\nx-header: ${'SECRET'.repeat(175_000)}\r\n\r\n${KEY_AUTHORIZATION}`,
    'a body without a status line (HTTP/0.9)': KEY_AUTHORIZATION,
    'a version that does not exist': `HTTP/x.y 200 OK\r\n\r\n${KEY_AUTHORIZATION}`,
    'a chunk whose size overflows': `${CHUNKED}ffffffffffffffffff\r\n${KEY_AUTHORIZATION}\r\n0\r\n\r\n`,
    'a chunk of negative size': `${CHUNKED}-57\r\n${KEY_AUTHORIZATION}\r\n0\r\n\r\n`,
    'a chunk size in decimal with a prefix': `${CHUNKED}0x57\r\n${KEY_AUTHORIZATION}\r\n0\r\n\r\n`,
    'a chunk longer than its size': `${CHUNKED}10\r\n${KEY_AUTHORIZATION}\r\n0\r\n\r\n`,
    'a chunk extension of a mebibyte': `${CHUNKED}57;${'SECRET'.repeat(175_000)}\r\n${KEY_AUTHORIZATION}\r\n0\r\n\r\n`,
    'chunks without an end': `${CHUNKED}57\r\n${KEY_AUTHORIZATION}\r\n`,
    'trailers of a mebibyte': `${CHUNKED}57\r\n${KEY_AUTHORIZATION}\r\n0\r\n${'x-trailer: SECRET\r\n'.repeat(60_000)}`,
    'a switch of protocols': 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: SECRET\r\n\r\n',
    'a close at once': '',
  }
  for (const [what, bytes] of Object.entries(noise)) {
    test(`${what} instead of a response is a connection problem and is not quoted`, async (t) => {
      const web = await kept(
        t,
        startRaw((socket) => socket.end(bytes, 'latin1')),
      )
      const verdict = await validateHttp01(aJob(web.port, { timeoutMs: 1000 }))
      assertInvalid(verdict, 'connection', true, /no complete response/)
      assert.ok(!JSON.stringify(verdict).includes('SECRET'), JSON.stringify(verdict))
    })
  }
  test('headers in drips end with the deadline', async (t) => {
    const web = await kept(
      t,
      startRaw((socket) => {
        socket.write('HTTP/1.1 200 OK\r\nx-header: ')
        const timer = setInterval(() => socket.write('x'), 20)
        socket.on('close', () => clearInterval(timer))
      }),
    )
    const [verdict, ms] = await timed(aJob(web.port, { timeoutMs: 500 }))
    assertInvalid(verdict, 'connection', true, /no complete response: timed out/)
    assert.ok(ms >= 480 && ms < 60_000, `${ms} ms`)
  })
  test('informational responses without end finish with the deadline', async (t) => {
    const web = await kept(
      t,
      startRaw((socket) => {
        const timer = setInterval(() => socket.write('HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n'), 5)
        socket.on('close', () => clearInterval(timer))
      }),
    )
    const [verdict, ms] = await timed(aJob(web.port, { timeoutMs: 500 }))
    assertInvalid(verdict, 'connection', true, /no complete response: timed out/)
    assert.ok(ms >= 480 && ms < 60_000, `${ms} ms`)
  })
  test('a hundred dead addresses cost no more than a few attempts', async (t) => {
    const web = await startWeb(answering)
    await web.close()
    const many = Array.from({ length: 100 }, (_, index) => `127.1.0.${index + 1}`)
    const dns = await dnsOf(t, zoneScript({ 'demo.test': many }))
    const [verdict, ms] = await timed(aJob(web.port, { dns }))
    assertInvalid(verdict, 'connection', true, /connection refused$/)
    assert.ok(stepsOf(verdict, 'not-connected').length <= 4 && ms < 60_000, `${ms} ms`)
  })
  test('sixteen addresses of which the last is allowed lead to that one', async (t) => {
    const web = await kept(t, startWeb(answering))
    const addresses = [...Array.from({ length: 15 }, (_, index) => `127.1.0.${index + 1}`), '127.0.0.1']
    assertValid(await validateHttp01(aJob(web.port, { dns: fixed(...addresses), blockedNetworks: ['127.1.0.0/16'] })))
  })
  test('no bytes make the attempt throw, hang or succeed', async (t) => {
    let next: Uint8Array = Buffer.alloc(0)
    const web = await kept(
      t,
      startRaw((socket) => void socket.end(next)),
    )
    const prefix = fc.constantFrom(
      '',
      'HTTP/1.1 ',
      'HTTP/1.1 200 OK\r\n',
      'HTTP/1.1 200 OK\r\n\r\n',
      'HTTP/1.1 302 Found\r\nlocation: ',
    )
    await fc.assert(
      fc.asyncProperty(prefix, fc.uint8Array({ maxLength: 200 }), fc.boolean(), async (start, bytes, ended) => {
        next = Buffer.concat([Buffer.from(start), bytes, Buffer.from(ended ? '\r\n\r\n' : '')])
        const verdict = await validateHttp01(aJob(web.port, { timeoutMs: 1000 }))
        assert.ok(!verdict.ok && /^[ -~]+$/.test(verdict.detail), JSON.stringify(verdict))
      }),
      { numRuns: 200 },
    )
  })
  test('nothing stays open after an attempt, however it ends', async (t) => {
    const secure = await kept(
      t,
      startRaw(() => {}),
    )
    const gone = await startWeb(answering)
    await gone.close()
    const webs = await Promise.all([
      kept(t, startWeb(answering)),
      kept(
        t,
        startWeb((_request, response) => void response.write('x'.repeat(100_000))),
      ),
      kept(
        t,
        startWeb(
          (_request, response) => void response.writeHead(302, { location: `https://demo.test:${secure.port}/` }).end(),
        ),
      ),
      kept(
        t,
        startRaw(() => {}),
      ),
    ])
    await sleep(100)
    const before = openResources()
    for (const port of [...webs.map((web) => web.port), gone.port]) {
      await validateHttp01(aJob(port, { timeoutMs: 200, httpsPort: secure.port, dns: fixed('::1', '127.0.0.1') }))
    }
    await assertNothingMoreOpen(before)
  })
  test('a reset in the middle is a connection problem', async (t) => {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc')
        setTimeout(() => socket.resetAndDestroy(), 20)
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.after(() => server.close())
    const address = server.address()
    const verdict = await validateHttp01(aJob(typeof address === 'object' ? address!.port : 0))
    assertInvalid(verdict, 'connection', true, /no complete response: connection reset$/)
  })
})
