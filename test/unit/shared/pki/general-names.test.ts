import assert from 'node:assert/strict'
import { isIP, SocketAddress } from 'node:net'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { formatIpAddress, parseIpAddress } from '../../../../src/shared/lib/ip-address.ts'
import { DerError, DerReader } from '../../../../src/shared/pki/der.ts'
import { encodeDer } from '../../../../src/shared/pki/der-writer.ts'
import {
  readGeneralName,
  readGeneralNames,
  writeDnsName,
  writeIpAddress,
  writeUri,
} from '../../../../src/shared/pki/name.ts'
import { forAnyInput } from '../../../support/property-runs.ts'
import { unlessRefused } from '../../../support/refusals.ts'
import { words } from '../../../support/words.ts'
import { hex, randomOctets } from './support.ts'

const read = (text: string) => readGeneralName(new DerReader(hex(text)))

describe('IP addresses in text', () => {
  // RFC 5952 §4 and §5
  const canonical: [string, string][] = [
    ['2001:0db8:0000:0000:0001:0000:0000:0001', '2001:db8::1:0:0:1'],
    ['2001:DB8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
    ['2001:0:0:1:0:0:0:1', '2001:0:0:1::1'],
    ['0:0:0:0:0:0:0:0', '::'],
    ['::0:1', '::1'],
    ['1::', '1::'],
    ['fe80:0:0:0:0:0:0:0', 'fe80::'],
    ['::ffff:c000:0201', '::ffff:192.0.2.1'],
    ['64:ff9b::192.0.2.33', '64:ff9b::c000:221'],
    ['192.0.2.1', '192.0.2.1'],
  ]
  for (const [text, expected] of canonical)
    test(`${text} is ${expected}`, () => assert.equal(formatIpAddress(parseIpAddress(text)!), expected))

  const none = [
    '',
    '1.2.3.4 ',
    ...words`
      1.2.3 1.2.3.4.5 01.2.3.4 256.1.1.1 1.2.3.-4 : ::: 1::2::3 1:2:3:4:5:6:7 1:2:3:4:5:6:7:8:9
      1:2:3:4:5:6:7::8 ::12345 g:: fe80::1%eth0 ::1/128 ::1.2.3 1.2.3.4:: ::1.2.3.4:5 [::1]
    `,
  ]
  for (const text of none)
    test(`${JSON.stringify(text)} is no address`, () => assert.equal(parseIpAddress(text), undefined))

  test('accepts exactly what Node takes for an address', () => {
    const pieces = fc.constantFrom('0', '1', 'ffff', 'a0', ':', '::', ':', '1.2.3.4', '.', '10')
    forAnyInput(
      fc.oneof(
        fc.ipV4(),
        fc.ipV6(),
        fc.array(pieces, { maxLength: 15 }).map((list) => list.join('')),
      ),
      (text) => assert.equal(parseIpAddress(text) !== undefined, isIP(text) !== 0, text),
    )
  })

  test('16 octets survive, and their text is the one inet_ntop would give', () => {
    const zeros = fc
      .array(fc.constantFrom(0, 0, 0, 1, 255), { minLength: 16, maxLength: 16 })
      .map((list) => Buffer.from(list))
    forAnyInput(zeros, (octets) => {
      const text = formatIpAddress(octets)
      assert.deepEqual(parseIpAddress(text), octets)
      // inet_ntop also writes ::a.b.c.d for the deprecated compatible addresses.
      const compatible = octets.subarray(0, 12).every((octet) => octet === 0)
      if (!compatible) assert.equal(new SocketAddress({ address: text, family: 'ipv6' }).address, text)
    })
  })
})

describe('general names (RFC 5280 §4.2.1.6)', () => {
  test('DNS names, addresses and URIs survive', () => {
    const der = encodeDer((writer) => {
      writeDnsName(writer, '*.a.example')
      writeIpAddress(writer, '192.0.2.1')
      writeIpAddress(writer, '2001:DB8::0:1')
      writeUri(writer, 'http://a.example/x')
    })
    assert.deepEqual(readGeneralNames(new DerReader(der)), [
      { kind: 'dNSName', value: '*.a.example' },
      { kind: 'iPAddress', value: '192.0.2.1' },
      { kind: 'iPAddress', value: '2001:db8::1' },
      { kind: 'uniformResourceIdentifier', value: 'http://a.example/x' },
    ])
  })

  test('other kinds are reported with their bytes', () => {
    const otherName = 'a008 06012a a003 0c0161'
    assert.deepEqual(read(otherName), { kind: 'otherName', value: `#${otherName.replaceAll(' ', '')}` })
    assert.deepEqual(read('88 01 2a'), { kind: 'registeredID', value: '#88012a' })
  })

  const refused: [string, string][] = [
    ['a NUL in a DNS name', '82 03 61 00 62'],
    ['a line break in a DNS name', '82 03 61 0a 62'],
    ['a DNS name outside ASCII', '82 02 c3 bc'],
    ['an address of five octets', '87 05 01 02 03 04 05'],
    ['an address with a mask', '87 08 01 02 03 04 ff ff ff 00'],
    ['a constructed DNS name', 'a2 02 0c 00'],
    ['an unknown kind', '89 00'],
  ]
  for (const [what, bytes] of refused) test(`refuses ${what}`, () => assert.throws(() => read(bytes), DerError))

  test('refuses an empty list', () => assert.throws(() => readGeneralNames(new DerReader(Buffer.alloc(0))), DerError))

  test('cannot write what is no address or not ASCII', () => {
    assert.throws(() => encodeDer((writer) => writeIpAddress(writer, '1.2.3')), RangeError)
    assert.throws(() => encodeDer((writer) => writeDnsName(writer, 'bücher.example')), RangeError)
  })

  test('is total over random bytes', () =>
    forAnyInput(randomOctets(40), (bytes) => {
      unlessRefused(DerError, () => readGeneralNames(new DerReader(bytes)))
    }))
})
