/** certIDs (RFC 9773 §4.1) and RenewalInfo objects (§4.2). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { parseCertId, renderRenewalInfo } from '../../../../src/shared/protocol/renewal-info.ts'
import { renderCertId } from '../../../support/certificate-id.ts'
import { forAll, forAnyInput } from '../../../support/property-runs.ts'
import { randomOctets } from '../pki/support.ts'

describe('certID', () => {
  test('the example of §4.1 is read: AKI 69885b6b…c8d4 and serial 0087654321', () => {
    const identity = parseCertId('aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE')
    assert.equal(identity?.keyIdentifier.toString('hex'), '69885b6b87464041e1b37b847ba0ae2cde01c8d4')
    assert.equal(identity?.serialNumber.toString('hex'), '0087654321')
  })

  const AKI = 'aYhba4dGQEHhs3uEe6CuLN4ByNQ'
  const refused: Record<string, string> = {
    'an empty text': '',
    'no dot': `${AKI}AIdlQyE`,
    'two dots': `${AKI}.AIdl.QyE`,
    'no key identifier': '.AIdlQyE',
    'no serial number': `${AKI}.`,
    'padding behind the key identifier': `${AKI}=.AIdlQyE`,
    'padding behind the serial number': `${AKI}.AIdlQyE=`,
    'a second spelling of the same octets': `${AKI}.AIdlQyF`,
    'the plain base64 alphabet': `${AKI}.+/+/`,
    'a negative serial number': `${AKI}.h2VDIQ`,
    'a zero that carries no sign': `${AKI}.AAE`,
    'a serial number of zero': `${AKI}.AA`,
    'a serial number of 22 octets': `${AKI}.${Buffer.alloc(22, 1).toString('base64url')}`,
    'a key identifier of 65 octets': `${Buffer.alloc(65, 1).toString('base64url')}.AQ`,
    'an old-style hexadecimal serial number': '0087654321',
  }
  for (const [what, text] of Object.entries(refused))
    test(`${what} is refused`, () => assert.equal(parseCertId(text), undefined))

  test('what is accepted is written back to the same text, over any text', () => {
    const base64url = fc.stringMatching(/^[A-Za-z0-9_=-]{0,30}$/)
    const texts = fc.oneof(
      fc.string({ maxLength: 200 }),
      randomOctets(100).map((bytes) => bytes.toString('latin1')),
      fc.tuple(base64url, base64url).map(([a, b]) => `${a}.${b}`),
      fc
        .tuple(fc.uint8Array({ minLength: 1, maxLength: 70 }), fc.uint8Array({ maxLength: 24 }))
        .map(([a, b]) => `${Buffer.from(a).toString('base64url')}.${Buffer.from(b).toString('base64url')}`),
    )
    forAnyInput(texts, (text) => {
      const identity = parseCertId(text)
      if (identity) assert.equal(renderCertId(identity), text)
    })
  })

  test('every identity that a certificate can have is written and read', () => {
    const serial = fc
      .uint8Array({ minLength: 1, maxLength: 20 })
      .filter((octets) => octets.some((octet) => octet !== 0))
      .map((octets) => Buffer.from(octets.subarray(octets.findIndex((octet) => octet !== 0))))
      .map((octets) => ((octets[0] as number) >= 0x80 ? Buffer.concat([Buffer.alloc(1), octets]) : octets))
    const keyIdentifier = fc.uint8Array({ minLength: 1, maxLength: 64 }).map((octets) => Buffer.from(octets))
    forAll(fc.record({ keyIdentifier, serialNumber: serial }, { noNullPrototype: true }), (identity) =>
      assert.deepEqual(parseCertId(renderCertId(identity)), identity),
    )
  })
})

test('an object has whole seconds, retryAfter, and explanationURL only when there is one (§4.2)', () => {
  const window = { start: new Date('2026-01-02T04:00:00.900Z'), end: new Date('2026-01-03T04:00:00Z') }
  const suggestedWindow = { start: '2026-01-02T04:00:00Z', end: '2026-01-03T04:00:00Z' }
  assert.deepEqual(renderRenewalInfo({ window, secondsUntilWindow: 3600, explanationUrl: undefined }), {
    suggestedWindow,
    retryAfter: 3600,
  })
  assert.deepEqual(renderRenewalInfo({ window, secondsUntilWindow: 3600, explanationUrl: 'https://ca.example/why' }), {
    suggestedWindow,
    explanationURL: 'https://ca.example/why',
    retryAfter: 3600,
  })
})
