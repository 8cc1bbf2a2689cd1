/** Distinguished names, read, written and as text (RFC 4514). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { DerError, TAG } from '../../../../src/shared/pki/der.ts'
import { encodeDer } from '../../../../src/shared/pki/der-writer.ts'
import {
  commonNamesOf,
  EMPTY_NAME,
  encodeCommonName,
  encodeNameText,
  formatName,
  parseName,
} from '../../../../src/shared/pki/name.ts'
import { anyCharacter } from '../../../support/any-character.ts'
import { forAll, forAnyInput } from '../../../support/property-runs.ts'
import { unlessRefused } from '../../../support/refusals.ts'
import { hex, randomOctets, x509 } from './support.ts'

type Attribute = [oid: string, tag: number, content: Buffer]

function nameOf(...rdns: Attribute[][]): Buffer {
  return encodeDer((writer) =>
    writer.sequence(() => {
      for (const rdn of rdns)
        writer.constructed(TAG.set, () => {
          for (const [oid, tag, content] of rdn)
            writer.sequence(() => {
              writer.oid(oid)
              writer.primitive(tag, content)
            })
        })
    }),
  )
}

const CN = '2.5.4.3'
const utf8 = (oid: string, text: string): Attribute => [oid, TAG.utf8String, Buffer.from(text)]
const textOf = (...rdns: Attribute[][]) => formatName(parseName(nameOf(...rdns)))

describe('distinguished names', () => {
  test('an empty name is an empty sequence', () => {
    assert.deepEqual(parseName(EMPTY_NAME), [])
    assert.equal(formatName([]), '')
  })

  test('a commonName survives, whatever its characters', () =>
    forAll(fc.string({ unit: anyCharacter, minLength: 1, maxLength: 64 }), (text) =>
      assert.deepEqual(commonNamesOf(parseName(encodeCommonName(text))), [text]),
    ))

  test('a commonName has 1 to 64 characters, counted as code points', () => {
    assert.throws(() => encodeCommonName(''), RangeError)
    assert.throws(() => encodeCommonName('a'.repeat(65)), RangeError)
    assert.ok(encodeCommonName('😀'.repeat(64)))
  })

  // RFC 4514 §4 and §2.4
  const texts: [string, Attribute[][], string][] = [
    [
      'the last RDN comes first',
      [[utf8('2.5.4.6', 'DE')], [utf8('2.5.4.10', 'Org')], [utf8(CN, 'x')]],
      'CN=x,O=Org,C=DE',
    ],
    [
      'attributes of one RDN are joined by a plus',
      [[utf8('2.5.4.11', 'Sales'), utf8(CN, 'J.  Smith')]],
      'OU=Sales+CN=J.  Smith',
    ],
    ['specials are escaped', [[utf8(CN, 'a,b+c"d\\e<f>g;h')]], 'CN=a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h'],
    ['a leading number sign is escaped', [[utf8(CN, '#1#')]], 'CN=\\#1#'],
    ['leading and trailing spaces are escaped', [[utf8(CN, '  a  ')]], 'CN=\\  a \\ '],
    ['a single space is escaped once', [[utf8(CN, ' ')]], 'CN=\\ '],
    ['a backslash before a trailing space stays apart from it', [[utf8(CN, '\\ ')]], 'CN=\\\\\\ '],
    ['NUL is escaped', [[utf8(CN, 'a\0b')]], 'CN=a\\00b'],
    [
      'a type without a short name is hexadecimal',
      [[utf8('1.3.6.1.4.1.1466.0', 'Hi')]],
      '1.3.6.1.4.1.1466.0=#0c024869',
    ],
    ['a value of no string type is hexadecimal', [[[CN, TAG.octetString, Buffer.from('Hi')]]], 'CN=#04024869'],
  ]
  for (const [what, rdns, text] of texts) test(what, () => assert.equal(textOf(...rdns), text))

  const strings: [string, number, string, string | undefined][] = [
    ['BMPString', TAG.bmpString, '00610416', 'aЖ'],
    ['BMPString with a surrogate', TAG.bmpString, 'd83dde00', undefined],
    ['BMPString of odd length', TAG.bmpString, '006100', undefined],
    ['UniversalString', TAG.universalString, '0001f600', '😀'],
    ['UniversalString beyond Unicode', TAG.universalString, '00110000', undefined],
    ['TeletexString', TAG.teletexString, 'fc', 'ü'],
    ['PrintableString outside ASCII', TAG.printableString, 'fc', undefined],
    ['NumericString', TAG.numericString, '313220', '12 '],
    ['NumericString with a letter', TAG.numericString, '61', undefined],
    ['ill-formed UTF-8', TAG.utf8String, 'c080', undefined],
    ['a UTF-8 surrogate', TAG.utf8String, 'eda080', undefined],
  ]
  for (const [what, tag, octets, text] of strings)
    test(`${what} is ${text === undefined ? 'refused' : 'read'}`, () => {
      const der = nameOf([[CN, tag, hex(octets)]])
      if (text === undefined) assert.throws(() => parseName(der), DerError)
      else assert.deepEqual(commonNamesOf(parseName(der)), [text])
    })

  test('an empty RDN and an RDN out of order are refused', () => {
    assert.throws(() => parseName(nameOf([])), DerError)
    // X.690 §11.6
    assert.throws(() => parseName(nameOf([utf8('2.5.4.11', 'b'), utf8(CN, 'a')])), DerError)
    assert.throws(() => parseName(nameOf([utf8(CN, 'a'), utf8(CN, 'a')])), DerError)
  })

  test('parsing is total over random bytes', () =>
    forAnyInput(randomOctets(60), (content) => {
      unlessRefused(DerError, () => parseName(encodeDer((writer) => writer.primitive(TAG.sequence, content))))
    }))

  test('agrees with @peculiar/x509 on the commonName of generated names', () =>
    forAll(fc.string({ unit: anyCharacter, minLength: 1, maxLength: 20 }), (text) => {
      const other = new x509.Name(encodeCommonName(text))
      assert.deepEqual(other.getField('CN'), commonNamesOf(parseName(encodeCommonName(text))))
    }))
})

describe('a name from its text', () => {
  test('of one common name is the same as that', () =>
    assert.deepEqual(encodeNameText('CN=Example Root CA'), encodeCommonName('Example Root CA')))

  test('begins with its last part, and keeps escaped characters', () => {
    const name = parseName(encodeNameText('CN=a\\,b, O=Example \\\\ Co , C=DE'))
    assert.equal(formatName(name), 'CN=a\\,b,O=Example \\\\ Co,C=DE')
    const found = name.map(([attribute]) => attribute!.oid)
    assert.deepEqual(found, ['2.5.4.6', '2.5.4.10', '2.5.4.3'])
    // RFC 5280 §A.1: countryName is a PrintableString.
    assert.equal(name[0]![0]!.valueDer[0], 0x13)
  })

  test('is the inverse of RFC 4514 text', () => {
    const value = fc.string({ minLength: 1, maxLength: 30, unit: anyCharacter }).filter((text) => text.trim() === text)
    forAll(value, value, (cn, o) => {
      const escaped = (text: string) => text.replace(/[\\,]/g, '\\$&')
      const name = parseName(encodeNameText(`CN=${escaped(cn)},O=${escaped(o)}`))
      const found = name.map(([attribute]) => attribute!.value)
      assert.deepEqual(found, [o, cn])
    })
  })

  for (const text of ['', 'Example', 'CN=', 'XX=1', 'C=DEU', 'C=de', `CN=${'a'.repeat(65)}`, 'DC=ä', 'CN=a,,O=b,Q'])
    test(`${JSON.stringify(text)} is refused`, () => assert.throws(() => encodeNameText(text), RangeError))
})
