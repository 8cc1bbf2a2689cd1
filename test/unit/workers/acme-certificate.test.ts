import assert from 'node:assert/strict'
import 'reflect-metadata'
import { webcrypto } from 'node:crypto'
import { describe, test } from 'node:test'
import * as x509 from '@peculiar/x509'
import fc from 'fast-check'
import { TAG } from '../../../src/shared/pki/der.ts'
import { encodeDer } from '../../../src/shared/pki/der-writer.ts'
import type { Identifier } from '../../../src/shared/protocol/identifier.ts'
import { checkAcmeCertificate } from '../../../workers/validate/tls-alpn-01.ts'
import { forAll } from '../../support/property-runs.ts'
import {
  acmeCertificate,
  acmeIdentifier,
  DIGEST,
  dns,
  ip,
  octetString,
  REFUSED,
  subjectAltName,
  type WriteName,
} from '../../workers/acme-certificate.ts'

const DEMO: Identifier = { type: 'dns', value: 'demo.test' }
const check = (der: Buffer, identifier: Identifier = DEMO) => checkAcmeCertificate(der, { identifier, digest: DIGEST })

const RSA = { hash: 'SHA-256', publicExponent: new Uint8Array([1, 0, 1]), modulusLength: 2048 }

async function byAnotherLibrary(algorithm: webcrypto.Algorithm, signing: object = {}): Promise<Buffer> {
  x509.cryptoProvider.set(webcrypto)
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: 'CN=demo.test',
    keys: (await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])) as webcrypto.CryptoKeyPair,
    signingAlgorithm: { ...algorithm, ...signing },
    serialNumber: '0a',
    extensions: [
      new x509.SubjectAlternativeNameExtension([{ type: 'dns', value: 'demo.test' }]),
      new x509.Extension('1.3.6.1.5.5.7.1.31', true, octetString(DIGEST)),
    ],
  })
  return Buffer.from(certificate.rawData)
}

describe('the right certificate (RFC 8737 §3)', () => {
  test('is self-signed, for the name alone, with the digest in a critical extension', () =>
    assert.equal(check(acmeCertificate().der), undefined))
  test('may write the name in another case', () =>
    assert.equal(
      check(acmeCertificate({ extensions: [subjectAltName(dns('DEMO.Test')), acmeIdentifier()] }).der),
      undefined,
    ))
  test('may have expired: the RFC asks nothing about its dates', () =>
    assert.equal(check(acmeCertificate({ notAfter: new Date('2020-01-02T00:00:00Z') }).der), undefined))
  test('may have no dates that mean anything: Go writes the year 1 where nobody gave one', () => {
    const undated = (tbs: Buffer) => {
      const text = tbs.toString('hex')
      const dates = /301e170d[0-9a-f]{26}170d[0-9a-f]{26}/
      assert.match(text, dates)
      const zero = Buffer.from('00010101000000Z').toString('hex')
      const longer = text.replace(dates, `3022180f${zero}180f${zero}`)
      // Four octets more, and the outer length says so.
      assert.ok(longer.startsWith('3082') || longer.startsWith('3081'))
      const content = Buffer.from(longer, 'hex').subarray(longer.startsWith('3082') ? 4 : 3)
      return encodeDer((writer) => writer.primitive(TAG.sequence, content))
    }
    assert.equal(check(acmeCertificate({ tamper: undated }).der), undefined)
  })
  test('may have other extensions, in any order', () => {
    const unknown = { oid: '1.2.3.4', critical: true, value: octetString(Buffer.alloc(3)) }
    const extensions = [acmeIdentifier(), unknown, subjectAltName(dns('demo.test'))]
    assert.equal(check(acmeCertificate({ extensions }).der), undefined)
  })
  test('of another library reads the same', async () => {
    for (const algorithm of [
      { name: 'ECDSA', namedCurve: 'P-384', hash: 'SHA-384' },
      { name: 'RSASSA-PKCS1-v1_5', ...RSA },
    ]) {
      const certificate = await byAnotherLibrary(algorithm)
      assert.equal(check(certificate), undefined)
      assert.match(check(certificate, { type: 'dns', value: 'other.test' }) ?? '', /is not for/)
    }
  })
})

describe('IP identifiers (RFC 8738 §6)', () => {
  const of = (...names: readonly WriteName[]) =>
    acmeCertificate({ extensions: [subjectAltName(...names), acmeIdentifier()] }).der
  for (const value of ['192.0.2.1', '2001:db8::1']) {
    test(`${value} stands as an iPAddress`, () => assert.equal(check(of(ip(value)), { type: 'ip', value }), undefined))
    test(`${value} as a dNSName is not enough`, () =>
      assert.match(check(of(dns(value)), { type: 'ip', value }) ?? '', /is not for/))
  }
  test('the name of the reverse mapping in place of the address is not enough', () =>
    assert.match(check(of(dns('1.2.0.192.in-addr.arpa')), { type: 'ip', value: '192.0.2.1' }) ?? '', /is not for/))
  test('the name of the reverse mapping beside the address is one too many', () =>
    assert.match(
      check(of(ip('192.0.2.1'), dns('1.2.0.192.in-addr.arpa')), { type: 'ip', value: '192.0.2.1' }) ?? '',
      /has other names/,
    ))
  test('an IPv4 address mapped into IPv6 is another address', () =>
    assert.match(check(of(ip('::ffff:192.0.2.1')), { type: 'ip', value: '192.0.2.1' }) ?? '', /is not for/))
})

describe('refused is a certificate', () => {
  for (const [what, make] of Object.entries(REFUSED))
    test(what, () => {
      const [{ der }, reason] = make()
      assert.match(check(der) ?? 'accepted', reason)
    })
  test('with a signature of an algorithm that is none of ours', async () => {
    const certificate = await byAnotherLibrary({ name: 'RSA-PSS', ...RSA }, { saltLength: 32 })
    assert.match(check(certificate) ?? 'accepted', /signed with an algorithm that is not known here$/)
  })
})

describe('any bytes', () => {
  test('are judged without an exception and without being quoted', () =>
    forAll(fc.uint8Array({ maxLength: 400 }), (bytes) =>
      assert.match(check(Buffer.from(bytes)) ?? 'accepted', /malformed/),
    ))
  test('a certificate with one octet changed is never the right one', () => {
    const { der } = acmeCertificate()
    forAll(fc.nat(der.length - 1), fc.integer({ min: 1, max: 255 }), (at, flip) => {
      const changed = Buffer.from(der)
      changed[at]! ^= flip
      assert.equal(typeof check(changed), 'string', `octet ${at} ^ ${flip}`)
    })
  })
})
