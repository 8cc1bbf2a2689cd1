import assert from 'node:assert/strict'
import { isIPv6 } from 'node:net'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { formatPeerAddress, PeerAddresses } from '../../../src/http/client-address.ts'

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
      assert.equal(formatPeerAddress(bytes(hex)), text)
      const addresses = new PeerAddresses()
      assert.equal(addresses.text(bytes(hex)), text)
      assert.equal(addresses.text(bytes(hex)), text)
    })

  test('is an address again, the same one, for any IPv6 octets', () => {
    const octets = fc.array(fc.constantFrom(0, 0, 0, 1, 255), { minLength: 16, maxLength: 16 })
    fc.assert(
      fc.property(octets, (values) => {
        const text = formatPeerAddress(Uint8Array.from(values))
        if (text.includes('.')) return
        assert.ok(isIPv6(text), text)
        // WHATWG URL serialises IPv6 by RFC 5952 as well, for these forms.
        assert.equal(new URL(`http://[${text}]/`).hostname, `[${text}]`)
      }),
    )
  })

  test('is right for every IPv4 address, remembered or not', () => {
    const addresses = new PeerAddresses()
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 4, maxLength: 4 }), (octets) => {
        assert.equal(addresses.text(octets), octets.join('.'))
        assert.equal(addresses.text(octets), octets.join('.'))
      }),
    )
  })
})
