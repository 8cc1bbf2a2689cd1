/** The address of a client: of its connection, or as trusted proxies name it. */

import assert from 'node:assert/strict'
import { isIP, isIPv6 } from 'node:net'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { createForwarding, type HttpRequest, type ProxySettings } from '../../../src/http/http-message.ts'
import { PeerAddresses } from '../../../src/http/live-request.ts'
import { forAll, forAnyInput } from '../../support/property-runs.ts'
import { words } from '../../support/words.ts'

const PROXY = '10.0.0.5'
const SETTINGS: ProxySettings = {
  enabled: true,
  trustedProxies: [PROXY, '10.0.1.0/24', '2001:db8:ffff::/48'],
  forwardedForHeader: 'x-forwarded-for',
  forwardedProtoHeader: 'x-forwarded-proto',
}

function addressOf(forwardedFor: string | undefined, peerAddress = PROXY, settings = SETTINGS): string {
  const http: HttpRequest = {
    method: 'GET',
    path: '/',
    query: '',
    body: Buffer.alloc(0),
    isOver: false,
    peerAddress,
    header: (name) => (name === 'x-forwarded-for' ? forwardedFor : undefined),
    dropBody: () => {},
  }
  return createForwarding(settings, 'http')(http).address
}

describe('the address of a client behind a trusted proxy', () => {
  const cases: [header: string | undefined, address: string][] = [
    ['203.0.113.9', '203.0.113.9'],
    ['2001:db8::1', '2001:db8::1'],
    [' 203.0.113.9\t', '203.0.113.9'],
    ['203.0.113.9:51234', '203.0.113.9'],
    ['[2001:db8::1]:443', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['[::ffff:203.0.113.9]:1', '::ffff:203.0.113.9'],
    ['192.0.2.1, 203.0.113.9', '203.0.113.9'],
    ['192.0.2.1, 203.0.113.9:51234', '203.0.113.9'],
    ['203.0.113.9, 10.0.1.7', '203.0.113.9'],
    ['203.0.113.9:51234, 10.0.1.7:80, [2001:db8:ffff::1]:80', '203.0.113.9'],
    ['2001:db8::1:443', '2001:db8::1:443'],
  ]
  for (const [header, address] of cases)
    test(`is ${address} for "${header}"`, () => assert.equal(addressOf(header), address))

  const unknown: (string | undefined)[] = [
    ...[undefined, '', '203.0.113.9 192.0.2.1', '203.0.113.9, unknown'],
    ...words`, unknown _hidden 203.0.113.9: 203.0.113.9:x 203.0.113.9:123456 203.0.113:80 203.0.113.256:80`,
    ...words`203.0.113.9:80:80 [203.0.113.9] [203.0.113.9]:80 http://203.0.113.9 203.0.113.9/32 "203.0.113.9"`,
    ...words`[2001:db8::1 2001:db8::1] [2001:db8::1]443 [2001:db8::1]: [2001:db8::1]]:80 [[2001:db8::1]]:80`,
    ...words`[2001:db8::1]:80]:80 []:80`,
  ]
  for (const header of unknown)
    test(`is the proxy's own for ${JSON.stringify(header)}`, () => assert.equal(addressOf(header), PROXY))

  test('is the last trusted proxy where the chain names nothing beyond it', () => {
    for (const header of ['10.0.1.7', 'unknown, 10.0.1.7', 'unknown, 10.0.1.7, [2001:db8:ffff::1]:80'])
      assert.equal(addressOf(header), '10.0.1.7')
  })

  test('is that of the connection where the peer is no trusted proxy, or none is trusted', () => {
    assert.equal(addressOf('203.0.113.9', '10.0.0.6'), '10.0.0.6')
    assert.equal(addressOf('203.0.113.9', PROXY, { ...SETTINGS, enabled: false }), PROXY)
  })

  test('is an address, whatever the header says', () => {
    const octet = fc.constantFrom('0', '10', '203', '255', '256', '01', '')
    const ipv4 = fc.array(octet, { minLength: 3, maxLength: 5 }).map((octets) => octets.join('.'))
    const piece = fc.oneof(fc.ipV4(), fc.ipV6(), ipv4, fc.constantFrom(...'[]:.,"% ', ':80', 'unknown'), fc.string())
    const header = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(''))
    forAnyInput(header, (text) => {
      const address = addressOf(text)
      assert.notEqual(isIP(address), 0, JSON.stringify(address))
      assert.ok(address === PROXY || text.includes(address))
    })
  })

  test('is the same with a port and without, for any address', () =>
    forAnyInput(fc.ipV4(), fc.ipV6(), fc.integer({ min: 0, max: 65535 }), (ipv4, ipv6, port) => {
      assert.equal(addressOf(`${ipv4}:${port}`), addressOf(ipv4))
      assert.equal(addressOf(`[${ipv6}]:${port}`), addressOf(ipv6))
      assert.equal(addressOf(`[${ipv6}]`), addressOf(ipv6))
    }))
})

const bytes = (hex: string) => new Uint8Array(Buffer.from(hex.replaceAll(' ', ''), 'hex'))

describe('the text of a peer address', () => {
  // RFC 5952 §4
  const CASES: Record<string, string> = {
    '7f000001': '127.0.0.1',
    ffffffff: '255.255.255.255',
    '00000000 00000000 0000ffff c0000201': '192.0.2.1',
    '00000000 00000000 00000000 00000001': '::1',
    '00000000 00000000 00000000 00000000': '::',
    '20010db8 00000000 00000000 00000001': '2001:db8::1',
    '20010db8 00000001 00010001 00010001': '2001:db8:0:1:1:1:1:1',
    '20010db8 00000000 00010000 00000001': '2001:db8::1:0:0:1',
    '20010000 00000001 00000000 00000001': '2001:0:0:1::1',
    '00010000 00000000 00000000 00000000': '1::',
    '': '',
  }
  for (const [hex, text] of Object.entries(CASES))
    test(`of ${hex || 'no octets'} is ${text || 'empty'}`, () => {
      const addresses = new PeerAddresses()
      assert.equal(addresses.text(bytes(hex)), text)
      assert.equal(addresses.text(bytes(hex)), text)
    })

  test('is an address again, the same one, for any IPv6 octets', () => {
    const octets = fc.array(fc.constantFrom(0, 0, 0, 1, 255), { minLength: 16, maxLength: 16 })
    forAll(octets, (values) => {
      const text = new PeerAddresses().text(Uint8Array.from(values))
      if (text.includes('.')) return
      assert.ok(isIPv6(text), text)
      // WHATWG URL serialises IPv6 by RFC 5952 as well, for these forms.
      assert.equal(new URL(`http://[${text}]/`).hostname, `[${text}]`)
    })
  })

  test('is right for every IPv4 address, remembered or not', () => {
    const addresses = new PeerAddresses()
    forAll(fc.uint8Array({ minLength: 4, maxLength: 4 }), (octets) => {
      assert.equal(addresses.text(octets), octets.join('.'))
      assert.equal(addresses.text(octets), octets.join('.'))
    })
  })
})
