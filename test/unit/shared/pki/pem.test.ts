import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { decodePem, encodePem, PemError } from '../../../../src/shared/pki/pem.ts'
import { forAll } from '../../../support/property-runs.ts'
import { errorOf, unlessRefused } from '../../../support/refusals.ts'
import { P256_KEY, randomOctets } from './support.ts'

const BLOCK = encodePem('CERTIFICATE', Buffer.alloc(100, 1))

describe('PEM (RFC 7468)', () => {
  test('blocks survive, in order', () => {
    const octets = randomOctets(300).filter((bytes) => bytes.length > 0)
    forAll(fc.array(octets, { maxLength: 4 }), fc.constantFrom('', '\n', '\r\n\n'), (list, between) => {
      const text = list.map((der) => encodePem('CERTIFICATE', der)).join(between)
      assert.deepEqual(
        decodePem(text),
        list.map((der) => ({ label: 'CERTIFICATE', der })),
      )
    })
  })

  test('is written as OpenSSL writes it', () =>
    assert.equal(encodePem('PUBLIC KEY', P256_KEY.spki), P256_KEY.publicKey.export({ type: 'spki', format: 'pem' })))

  test('CRLF line ends are read', () => assert.deepEqual(decodePem(BLOCK.replaceAll('\n', '\r\n')), decodePem(BLOCK)))

  const refused: [string, string, RegExp][] = [
    ['a missing END', BLOCK.split('\n').slice(0, -2).join('\n'), /block 1, CERTIFICATE, has no END/],
    ['another END label', BLOCK.replace('END CERTIFICATE', 'END X'), /no END/],
    [
      'base64url',
      encodePem('X', Buffer.of(0xfb, 0xff, 0xfe))
        .replace('+', '-')
        .replace('/', '_'),
      /X, is not base64/,
    ],
    ['missing padding', encodePem('X', Buffer.of(1)).replace('==', ''), /not base64/],
    ['an empty block', '-----BEGIN X-----\n-----END X-----\n', /not base64/],
    ['a NUL in the base64', BLOCK.replace('AQ', '\0Q'), /not base64/],
  ]
  for (const [what, text, message] of refused)
    test(`refuses ${what}`, () => assert.throws(() => decodePem(text), errorOf(PemError, message)))

  test('a text that is made to be slow takes no longer than another', () => {
    for (const text of ['\n', ' ', '-----BEGIN X-----', '-----END X', '-----END X-----', 'a:'])
      unlessRefused(PemError, () => decodePem(text.repeat(200_000)))
  })
})
