import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import type { TlsAlpn01Job } from '../../workers/job.ts'
import { serverNameOf, validateTlsAlpn01 } from '../../workers/validate/tls-alpn-01.ts'
import { each } from '../support/each.ts'
import { acmeCertificate, acmeIdentifier, DIGEST, dns, ip, REFUSED, subjectAltName } from './acme-certificate.ts'
import { zoneScript } from './scripted-dns.ts'
import { anAlpnJob, keptTls, startTls, type TlsScript } from './scripted-tls.ts'
import {
  assertEndsAfter,
  assertInvalid,
  assertNothingMoreOpen,
  assertValid,
  dnsOf,
  fixed,
  keptRaw,
  keptSilent,
  openResources,
  startBlackHole,
  stepsOf,
} from './verdicts.ts'

const NO_ADDRESS = /no address that this server may connect to$/
const verdictOn = async (t: TestContext, script: TlsScript, changes?: Partial<TlsAlpn01Job>) =>
  validateTlsAlpn01(anAlpnJob((await keptTls(t, script)).port, changes))

describe('the right answer (RFC 8737 §3)', () => {
  test('is asked for with this protocol and this server name alone', async (t) => {
    const server = await keptTls(t)
    assertValid(await validateTlsAlpn01(anAlpnJob(server.port)))
    assert.deepEqual(server.hellos, [{ serverName: 'demo.test', protocols: ['acme-tls/1'] }])
  })
  test('ends the connection without a word (RFC 8737 §4)', async (t) => {
    const server = await keptTls(t)
    assertValid(await validateTlsAlpn01(anAlpnJob(server.port)))
    await sleep(20)
    assert.equal(server.received(), 0)
  })
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    test(`may come over ${version}`, async (t) => {
      const verdict = await verdictOn(t, { options: { minVersion: version, maxVersion: version } })
      assertValid(verdict)
      assert.equal(stepsOf(verdict, 'handshake')[0]?.['version'], version)
    })
  }
  test('leaves evidence of addresses, connection, handshake, certificate and duration', async (t) => {
    const server = await keptTls(t)
    const { evidence } = await validateTlsAlpn01(anAlpnJob(server.port))
    assert.deepEqual(each(evidence, 'step'), ['resolved', 'connected', 'handshake', 'finished'])
    assert.deepEqual(evidence[1], { step: 'connected', address: '127.0.0.1', port: server.port })
    assert.match(String(evidence[2]?.['certificateSha256']), /^[0-9a-f]{64}$/)
    assert.equal(evidence[2]?.['protocol'], 'acme-tls/1')
  })
  test('may be an expired certificate: the RFC asks nothing about its dates', async (t) => {
    const certificate = acmeCertificate({ notAfter: new Date('2020-01-02T00:00:00Z') })
    assertValid(await verdictOn(t, { certificate }))
  })
  test('may come from a server that asks for a certificate of ours', async (t) => {
    assertValid(await verdictOn(t, { options: { requestCert: true, rejectUnauthorized: false } }))
  })
  test('may have a short chain behind it', async (t) => {
    const certificate = acmeCertificate()
    const pem = { ...certificate.pem, cert: certificate.pem.cert + acmeCertificate().pem.cert }
    assertValid(await verdictOn(t, { certificate: { ...certificate, pem } }))
  })
  test('is found over IPv6, which is tried first', async (t) => {
    // In this order: a port of IPv4 can be in use by any connection that another test has closed.
    const four = await keptTls(t)
    const six = await keptTls(t, { host: '::1', port: four.port })
    assertValid(await validateTlsAlpn01(anAlpnJob(six.port, { dns: fixed('127.0.0.1', '::1') })))
    assert.deepEqual([six.hellos.length, four.hellos.length], [1, 0])
  })
  test('is found over IPv4 when nobody listens on IPv6', async (t) => {
    const verdict = await verdictOn(t, {}, { dns: fixed('127.0.0.1', '::1') })
    assertValid(verdict)
    assert.equal(stepsOf(verdict, 'not-connected')[0]?.['address'], '::1')
  })
  test('is found behind a first address that swallows packets', async (t) => {
    const server = await keptTls(t)
    await startBlackHole(t, '127.0.0.2', server.port)
    const job = anAlpnJob(server.port, { dns: fixed('127.0.0.2', '127.0.0.1'), timeoutMs: 6000 })
    assertValid(await validateTlsAlpn01(job))
  })
  test('is found behind a first address where nobody shakes hands', async (t) => {
    const server = await keptTls(t)
    await keptSilent(t, '::1', server.port)
    const job = anAlpnJob(server.port, { dns: fixed('::1', '127.0.0.1'), timeoutMs: 6000 })
    assertValid(await validateTlsAlpn01(job))
  })
})

describe('IP identifiers (RFC 8738 §6)', () => {
  const names: Record<string, string> = {
    '127.0.0.1': '1.0.0.127.in-addr.arpa',
    '192.0.2.65': '65.2.0.192.in-addr.arpa',
    '::1': `1.${'0.'.repeat(31)}ip6.arpa`,
    '2001:db8::567:89ab': 'b.a.9.8.7.6.5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa',
  }
  for (const [value, name] of Object.entries(names)) {
    test(`${value} goes by the server name ${name}`, () => assert.equal(serverNameOf({ type: 'ip', value }), name))
  }
  for (const value of ['127.0.0.1', '::1']) {
    test(`${value} is asked at the address itself`, async (t) => {
      const certificate = acmeCertificate({ extensions: [subjectAltName(ip(value)), acmeIdentifier()] })
      const server = await keptTls(t, { certificate, host: value })
      const verdict = await validateTlsAlpn01(anAlpnJob(server.port, { identifier: { type: 'ip', value } }))
      assertValid(verdict)
      assert.deepEqual(server.hellos, [{ serverName: names[value], protocols: ['acme-tls/1'] }])
      assert.equal(stepsOf(verdict, 'resolved').length, 0)
    })
    test(`${value} as a dNSName is refused`, async (t) => {
      const certificate = acmeCertificate({ extensions: [subjectAltName(dns(value)), acmeIdentifier()] })
      const verdict = await verdictOn(t, { certificate, host: value }, { identifier: { type: 'ip', value } })
      assertInvalid(verdict, 'incorrectResponse', false, /the certificate is not for /)
    })
  }
  test('an address as a DNS name is not connected to', async (t) => {
    const server = await keptTls(t)
    const verdict = await validateTlsAlpn01(anAlpnJob(server.port, { identifier: { type: 'dns', value: '127.0.0.1' } }))
    assertInvalid(verdict, 'dns', false, /not a host name/)
    assert.equal(server.hellos.length, 0)
  })
})

test('a wildcard name is never validated (RFC 8737 §3)', async (t) => {
  const certificate = acmeCertificate({ extensions: [subjectAltName(dns('*.demo.test')), acmeIdentifier()] })
  const server = await keptTls(t, { certificate })
  const verdict = await validateTlsAlpn01(anAlpnJob(server.port, { identifier: { type: 'dns', value: '*.demo.test' } }))
  assertInvalid(verdict, 'unauthorized', false, /wildcard/)
  assert.equal(server.hellos.length, 0)
})

describe('a certificate is incorrect, for good,', () => {
  // The others, and what is said of each, are in `test/unit/workers/acme-certificate.test.ts`.
  for (const what of ['of another name', 'without acmeIdentifier', 'signed by another key']) {
    test(what, async (t) => {
      const [certificate, reason] = REFUSED[what]!()
      assertInvalid(await verdictOn(t, { certificate }), 'incorrectResponse', false, reason)
    })
  }
  test('when another key authorization is expected, and is not quoted', async (t) => {
    const certificate = acmeCertificate({ subject: 'SECRET' })
    const keyAuthorizationDigest = Buffer.alloc(32, 1).toString('base64url')
    const verdict = await verdictOn(t, { certificate }, { keyAuthorizationDigest })
    assertInvalid(verdict, 'incorrectResponse', false, /^demo\.test port \d+: .* holds another digest$/)
    assert.ok(!JSON.stringify(verdict).includes('SECRET'))
    assert.ok(!JSON.stringify(verdict).includes(DIGEST.toString('hex')))
  })
})

describe('ALPN', () => {
  test('that the server ignores is an incorrect response', async (t) => {
    const verdict = await verdictOn(t, { choose: undefined })
    assertInvalid(verdict, 'incorrectResponse', false, /did not choose acme-tls\/1 \(ALPN\)$/)
    assert.equal(stepsOf(verdict, 'handshake')[0]?.['protocol'], null)
  })
  test('that the server refuses is a tls problem, to be tried again', async (t) => {
    assertInvalid(await verdictOn(t, { choose: 'none' }), 'tls', true, /the server does not speak what ALPN offers$/)
  })
  test('of a web server is a tls problem', async (t) => {
    const options = { ALPNProtocols: ['h2', 'http/1.1'] }
    assertInvalid(await verdictOn(t, { choose: undefined, options }), 'tls', true, /ALPN|handshake failed/)
  })
})

describe('the TLS handshake', () => {
  for (const version of ['TLSv1', 'TLSv1.1'] as const) {
    test(`of a server that ends at ${version} is a tls problem (RFC 8737 §4)`, async (t) => {
      const options = { minVersion: 'TLSv1', maxVersion: version, ciphers: 'DEFAULT@SECLEVEL=0' } as const
      const verdict = await verdictOn(t, { options })
      assertInvalid(verdict, 'tls', true, /no TLS connection: the server does not speak TLS 1\.2 or later$/)
    })
  }
  const noise: Record<string, Buffer> = {
    'another protocol': Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\nSECRET'),
    'random bytes': Buffer.from('16030300ff02000000fb0303deadbeef', 'hex'),
    'a fatal alert': Buffer.from('15030300020228', 'hex'),
    'an alert that says nothing is wrong': Buffer.from('15030300020100', 'hex'),
    'a record that is too long': Buffer.concat([Buffer.from('160303ffff', 'hex'), Buffer.alloc(70_000, 0x41)]),
    'a hello cut off': Buffer.from('160303004a02000046', 'hex'),
    nothing: Buffer.alloc(0),
  }
  for (const [what, bytes] of Object.entries(noise)) {
    test(`with ${what} is a tls problem and is not quoted`, async (t) => {
      const server = await keptRaw(t, (socket) => socket.end(bytes))
      const verdict = await validateTlsAlpn01(anAlpnJob(server.port))
      assertInvalid(verdict, 'tls', true, /^demo\.test port \d+: no TLS connection: [a-zA-Z0-9 .]+$/)
      assert.ok(!JSON.stringify(verdict).includes('SECRET'))
    })
  }
  test('with any bytes neither throws, hangs nor succeeds', async (t) => {
    let next: Uint8Array = Buffer.alloc(0)
    const server = await keptRaw(t, (socket) => void socket.end(next))
    const start = fc.constantFrom('', '160303', '16030300', '1603030010020000', '15030300', '140303000101')
    await fc.assert(
      fc.asyncProperty(start, fc.uint8Array({ maxLength: 200 }), async (prefix, bytes) => {
        next = Buffer.concat([Buffer.from(prefix, 'hex'), bytes])
        const verdict = await validateTlsAlpn01(anAlpnJob(server.port, { timeoutMs: 1000 }))
        assert.ok(!verdict.ok && verdict.problem === 'tls' && /^[ -~]+$/.test(verdict.detail), JSON.stringify(verdict))
      }),
      { numRuns: 150 },
    )
  })
  const endless: Record<string, (socket: Socket) => void> = {
    'never begins': () => {},
    'comes in drips': (socket) => {
      const record = Buffer.from('1603030100020000fc0303', 'hex')
      let index = 0
      const timer = setInterval(() => socket.write(Buffer.of(record[index++] ?? 0)), 20)
      socket.on('close', () => clearInterval(timer))
    },
  }
  for (const [what, talk] of Object.entries(endless))
    test(`that ${what} ends with the deadline`, async (t) => {
      const server = await keptRaw(t, talk)
      await assertEndsAfter(
        400,
        () => validateTlsAlpn01(anAlpnJob(server.port, { timeoutMs: 400 })),
        (verdict) => assertInvalid(verdict, 'tls', true, /no TLS connection: timed out$/),
      )
    })
  test('with a chain of 150 KiB is a tls problem', async (t) => {
    const certificate = acmeCertificate()
    const chain = Array.from({ length: 330 }, () => acmeCertificate().pem.cert).join('')
    const pem = { ...certificate.pem, cert: certificate.pem.cert + chain }
    const verdict = await verdictOn(t, { certificate: { ...certificate, pem } })
    assertInvalid(verdict, 'tls', true, /no TLS connection: TLS handshake failed$/)
  })
  test('with a certificate of 200 KiB is a tls problem', async (t) => {
    const padding = { oid: '1.2.3.4', value: Buffer.alloc(200_000) }
    const extensions = [subjectAltName(dns('demo.test')), acmeIdentifier(), padding]
    assertInvalid(
      await verdictOn(t, { certificate: acmeCertificate({ extensions }) }),
      'tls',
      true,
      /no TLS connection/,
    )
  })
  test('nothing stays open after an attempt, however it ends', async (t) => {
    const good = await keptTls(t)
    const bad = await keptTls(t, { choose: undefined })
    const silent = await keptSilent(t)
    const gone = await startTls()
    await gone.close()
    await sleep(100)
    const before = openResources()
    for (const { port } of [good, bad, silent, gone]) {
      await validateTlsAlpn01(anAlpnJob(port, { timeoutMs: 200, dns: fixed('::1', '127.0.0.1') }))
    }
    await assertNothingMoreOpen(before)
  })
})

describe('addresses', () => {
  // What else is loopback is in `http-01.test.ts` and `test/unit/workers/address-policy.test.ts`.
  for (const address of ['127.0.0.1', '::ffff:127.0.0.1']) {
    test(`a name that resolves to ${address} is not connected to when loopback is blocked`, async (t) => {
      const server = await keptTls(t)
      const job = anAlpnJob(server.port, { dns: fixed(address), blockedNetworks: ['127.0.0.0/8', '::1/128'] })
      assertInvalid(await validateTlsAlpn01(job), 'connection', false, NO_ADDRESS)
      assert.equal(server.hellos.length, 0)
    })
  }
  test('a blocked IP identifier is refused', async () => {
    const identifier = { type: 'ip', value: '169.254.169.254' } as const
    const job = anAlpnJob(443, { identifier, blockedNetworks: ['169.254.0.0/16'] })
    assertInvalid(await validateTlsAlpn01(job), 'connection', false, NO_ADDRESS)
  })
  test('that are left after the policy are used', async (t) => {
    assertValid(await verdictOn(t, {}, { dns: fixed('::1', '127.0.0.1'), blockedNetworks: ['::1'] }))
  })
  test('at a closed port are a connection problem', async () => {
    const server = await startTls()
    await server.close()
    const verdict = await validateTlsAlpn01(anAlpnJob(server.port))
    assertInvalid(verdict, 'connection', true, /could not connect: connection refused$/)
  })
  test('that do not exist are a dns problem', async (t) => {
    const job = anAlpnJob(443, { dns: await dnsOf(t, zoneScript({})) })
    assertInvalid(await validateTlsAlpn01(job), 'dns', true, /NXDOMAIN/)
  })
})
