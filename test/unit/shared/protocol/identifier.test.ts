/** Normal forms of identifiers (RFC 8555 §7.1.3; RFC 8738). */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { formatIpAddress, parseIpAddress } from '../../../../src/shared/lib/ip-address.ts'
import { normalizeDnsName, normalizeIpAddress } from '../../../../src/shared/protocol/identifier.ts'
import { forAnyInput, propertyRuns } from '../../../support/property-runs.ts'
import { words } from '../../../support/words.ts'
import { mutated, randomOctets } from '../pki/support.ts'

const names: Record<string, string> = {
  'Example.COM': 'example.com',
  '*.Example.com': '*.example.com',
  'bücher.example': 'xn--bcher-kva.example',
  'BÜCHER.example': 'xn--bcher-kva.example',
  'xn--bcher-kva.example': 'xn--bcher-kva.example',
  '例え.テスト': 'xn--r8jz45g.xn--zckzah',
  'bu\u0308cher.example': 'xn--bcher-kva.example',
  'faß.example': 'xn--fa-hia.example',
  'xn--bcher-kva.bücher.example': 'xn--bcher-kva.xn--bcher-kva.example',
  'a-b.c1': 'a-b.c1',
  '1.2.3.4.example': '1.2.3.4.example',
  localhost: 'localhost',
}
for (const [text, value] of Object.entries(names))
  test(`${text} is ${value}`, () => assert.deepEqual(normalizeDnsName(text), { ok: true, value }))

const badNames = [
  '',
  ...words`* *. . .a.b a.b. a..b *.*.a a.* a*.b -a.b a-.b a_b.c a@b.c a/b.c https://a.b a:1 a.0x 1.2 [::1] %61.b`,
  ...['a b.c', 'a\n.b', 'a\0.b', 'a\u200d.b\u0000', '\ud800.b', 'a\u3002', `${'a'.repeat(64)}.b`],
  ...words`127.0.0.1 0x7f.1 1.2.3.0x4 ab--c.d xn--a.b xn--.b xn--bcher-kva-.example xn--a.bücher.example XN--A.b`,
  // Code points that IDNA 2008 forbids (RFC 5892): an emoji, a heart, a middle dot outside l·l.
  ...['xn--e28h.test', '\u2665.test', 'a\u00b7b.test'],
  // Decodes to plain "a", which needs no A-label; and to nothing that Punycode knows.
  ...['xn--a-.b', 'xn--zzzz9999999.b'],
  // What UTS 46 would map: dropped, folded to ASCII or to another letter, a dot of another script.
  ...['\u200bexample.com', 'bü\u00adcher.example', 'bücher.ex\u200bample'],
  ...words`ｅxample.com example。com 例え。テスト ①.example ﬁsh.example é%61.b é/b.c é:1.b`,
  ...['é\n.b', 'é\t.b', 'é .b'],
]
for (const text of badNames)
  test(`${JSON.stringify(text.slice(0, 40))} is no DNS name for a certificate`, () =>
    assert.equal(normalizeDnsName(text).ok, false))

test('a name of 253 characters fits, one of 254 does not, a wildcard counts whole', () => {
  const name = `${'a.'.repeat(125)}bcd`
  assert.equal(name.length, 253)
  assert.equal(normalizeDnsName(name).ok, true)
  assert.equal(normalizeDnsName(`${name}e`).ok, false)
  assert.equal(normalizeDnsName(`*.${name.slice(2)}`).ok, true)
  assert.equal(normalizeDnsName(`*.${name.slice(1)}`).ok, false)
})

const addresses: Record<string, string> = {
  '192.0.2.1': '192.0.2.1',
  '2001:DB8::1': '2001:db8::1',
  '2001:db8:0:0:0:0:0:1': '2001:db8::1',
  '2001:0db8::0001': '2001:db8::1',
  '::': '::',
}
for (const [text, value] of Object.entries(addresses))
  test(`${text} is ${value} (RFC 5952)`, () => assert.deepEqual(normalizeIpAddress(text), { ok: true, value }))

for (const text of [
  '',
  ' ::1',
  ...words`1.2.3 01.2.3.4 256.1.1.1 1.2.3.4/24 ::1%lo [::1] ::ffff:1.2.3.4 ::FFFF:102:304 ::1.2.3.4`,
  ...words`::102:304 ::: a.test`,
])
  test(`${JSON.stringify(text)} is no IP identifier`, () => assert.equal(normalizeIpAddress(text).ok, false))

test('an accepted address is spelled as the certificate reader spells it, or no CSR would fit its order', () =>
  fc.assert(
    fc.property(fc.ipV6(), (text) => {
      const normal = normalizeIpAddress(text)
      if (normal.ok) assert.equal(normal.value, formatIpAddress(parseIpAddress(text) as Buffer))
    }),
    { ...propertyRuns(), examples: [['::102:304'], ['::1'], ['::1:0'], ['1:0:0:2::3'], ['64:ff9b::1.2.3.4']] },
  ))

test('random bytes, and bytes near an identifier, have one normal form or a reason (RFC 8555 §7.1.4, RFC 8738 §3)', () => {
  const originals = [...Object.keys(names), ...Object.keys(addresses)].map((text) => Buffer.from(text))
  const decoded = fc
    .tuple(fc.oneof(randomOctets(80), mutated(originals)), fc.constantFrom('utf8', 'latin1', 'utf16le'))
    .map(([bytes, encoding]) => bytes.toString(encoding as BufferEncoding))
  const texts = fc.oneof(decoded, fc.domain(), fc.string({ unit: 'grapheme', maxLength: 20 }))
  let accepted = 0
  forAnyInput(texts, (text) => {
    for (const normalize of [normalizeDnsName, normalizeIpAddress]) {
      const form = normalize(text)
      if (!form.ok) {
        assert.match(form.reason, /^(is|ends|has) /)
        continue
      }
      accepted++
      assert.deepEqual(normalize(form.value), form)
      assert.match(form.value, normalize === normalizeDnsName ? /^(\*\.)?[a-z0-9.-]{1,253}$/ : /^[0-9a-f.:]+$/)
    }
  })
  assert.ok(accepted > 30, `only ${accepted} were accepted`)
})
