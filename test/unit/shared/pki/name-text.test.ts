import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { encodeCommonName, encodeNameText, formatName, parseName } from '../../../../src/shared/pki/name.ts'
import { anyCharacter } from '../../../support/any-character.ts'

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
    fc.assert(
      fc.property(value, value, (cn, o) => {
        const escaped = (text: string) => text.replace(/[\\,]/g, '\\$&')
        const name = parseName(encodeNameText(`CN=${escaped(cn)},O=${escaped(o)}`))
        const found = name.map(([attribute]) => attribute!.value)
        assert.deepEqual(found, [o, cn])
      }),
    )
  })

  for (const text of ['', 'Example', 'CN=', 'XX=1', 'C=DEU', 'C=de', `CN=${'a'.repeat(65)}`, 'DC=ä', 'CN=a,,O=b,Q'])
    test(`${JSON.stringify(text)} is refused`, () => assert.throws(() => encodeNameText(text), RangeError))
})
