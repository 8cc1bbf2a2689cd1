import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { decodePem, encodePem, PemError } from '../../../../src/shared/pki/pem.ts'
import { P256_KEY, randomOctets } from './support.ts'

const BLOCK = encodePem('CERTIFICATE', Buffer.alloc(100, 1))

describe('PEM (RFC 7468)', () => {
  test('blocks survive, in order', () => {
    const octets = randomOctets(300).filter((bytes) => bytes.length > 0)
    fc.assert(
      fc.property(fc.array(octets, { maxLength: 4 }), fc.constantFrom('', '\n', '\r\n\n'), (list, between) => {
        const text = list.map((der) => encodePem('CERTIFICATE', der)).join(between)
        assert.deepEqual(
          decodePem(text),
          list.map((der) => ({ label: 'CERTIFICATE', der })),
        )
      }),
    )
  })

  test('is written as OpenSSL writes it', () => {
    assert.equal(encodePem('PUBLIC KEY', P256_KEY.spki), P256_KEY.publicKey.export({ type: 'spki', format: 'pem' }))
  })

  test('CRLF line ends are read', () => {
    assert.deepEqual(decodePem(BLOCK.replaceAll('\n', '\r\n')), decodePem(BLOCK))
  })

  const lines = BLOCK.split('\n')
  const refused: [string, string, RegExp][] = [
    ['text before a block', `hello\n${BLOCK}`, /expected -----BEGIN.*line 1/],
    ['text after a block', `${BLOCK}hello`, /expected -----BEGIN/],
    ['a missing END', lines.slice(0, -2).join('\n'), /no END/],
    ['another END label', BLOCK.replace('END CERTIFICATE', 'END X'), /no END/],
    ['a lower-case label', BLOCK.replaceAll('CERTIFICATE', 'certificate'), /expected -----BEGIN/],
    ['headers inside', BLOCK.replace('\n', '\nProc-Type: 4,ENCRYPTED\n'), /64 characters \(line 2\)/],
    ['an empty line inside', BLOCK.replace('\n', '\n\n'), /64 characters/],
    ['a short line before the last', BLOCK.replace(/^(\w{60})(\w+)$/m, '$1\n$2'), /64 characters/],
    ['a longer line', BLOCK.replace(/^(\w{64})\n/m, '$1'), /64 characters/],
    ['a space in the base64', BLOCK.replace(/^AQ/m, 'A '), /not canonical/],
    [
      'base64url characters',
      encodePem('X', Buffer.of(0xfb, 0xff, 0xfe))
        .replace('+', '-')
        .replace('/', '_'),
      /not canonical/,
    ],
    ['missing padding', encodePem('X', Buffer.of(1)).replace('==', ''), /not canonical/],
    ['stray bits at the end', encodePem('X', Buffer.of(1)).replace('AQ==', 'AR=='), /not canonical/],
    ['an empty block', '-----BEGIN X-----\n-----END X-----\n', /not canonical/],
  ]
  for (const [what, text, message] of refused) {
    test(`refuses ${what}`, () => {
      assert.throws(
        () => decodePem(text),
        (error) => error instanceof PemError && message.test(error.message),
      )
    })
  }
})
