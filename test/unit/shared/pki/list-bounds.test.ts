/** Every list that a certificate, a request or a CRL can hold has an end, and reading one takes a number of steps in proportion to it. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { DerError, DerReader, MAX_LIST_LENGTH } from '../../../../src/shared/pki/der.ts'
import { encodeDer } from '../../../../src/shared/pki/der-writer.ts'
import {
  parseAuthorityInfoAccess,
  parseAuthorityKeyIdentifier,
  parseCertificatePolicies,
  parseCrlDistributionPoints,
  parseExtendedKeyUsage,
  parseSubjectAltName,
  readExtensions,
  writeCertificatePolicies,
} from '../../../../src/shared/pki/extensions.ts'
import { MAX_RDN_ATTRIBUTES, MAX_RDNS, parseName } from '../../../../src/shared/pki/name.ts'
import { EXTENSION } from '../../../../src/shared/pki/oids.ts'
import { checkAcmeCertificate } from '../../../../workers/validate/tls-alpn-01.ts'
import { der, dns, extension, NULL, oid, sequence, set, text } from '../../../corpus/der.ts'
import { errorOf } from '../../../support/refusals.ts'
import { acmeCertificate, acmeIdentifier, dns as dnsName, subjectAltName } from '../../../workers/acme-certificate.ts'

const type = (index: number) => oid(`2a${Buffer.of(0x81 + (index >> 7), index & 0x7f).toString('hex')}`)
const uri = text(0x86, 'http://a.test/')
const value = (index: number) => sequence(type(index), text(0x0c, 'x'))
const point = (...names: readonly Buffer[]) => sequence(der(0xa0, der(0xa0, ...names)))
const list = (count: number, item: (index: number) => Buffer) =>
  Array.from({ length: count }, (_, index) => item(index))

/** What reads a list, with so many values. */
const LISTS: Record<string, (count: number) => unknown> = {
  'certificate policies': (count) => parseCertificatePolicies(sequence(...list(count, (at) => sequence(type(at))))),
  'extended key usages': (count) => parseExtendedKeyUsage(sequence(...list(count, type))),
  'subject alternative names': (count) => parseSubjectAltName(sequence(...list(count, (at) => dns(`a${at}.test`)))),
  'CRL distribution points': (count) => parseCrlDistributionPoints(sequence(...list(count, () => point(uri)))),
  'names of a CRL distribution point': (count) =>
    parseCrlDistributionPoints(sequence(point(...list(count, () => uri)))),
  'access descriptions': (count) =>
    parseAuthorityInfoAccess(sequence(...list(count, () => sequence(oid('2b06010505073001'), uri)))),
  'names of an authority key identifier': (count) =>
    parseAuthorityKeyIdentifier(sequence(der(0xa1, ...list(count, () => uri)))),
  extensions: (count) => readExtensions(new DerReader(Buffer.concat(list(count, (at) => extension(type(at), NULL))))),
  'relative distinguished names': (count) => parseName(sequence(...list(count, (at) => set(value(at))))),
  'attributes of a relative distinguished name': (count) => parseName(sequence(set(...list(count, value)))),
}
const BOUNDS: Record<string, number> = {
  'relative distinguished names': MAX_RDNS,
  'attributes of a relative distinguished name': MAX_RDN_ATTRIBUTES,
}

describe('a list', () => {
  for (const [what, read] of Object.entries(LISTS)) {
    const most = BOUNDS[what] ?? MAX_LIST_LENGTH
    test(`of ${what} is read up to ${most} values and refused beyond`, () => {
      assert.doesNotThrow(() => read(most))
      assert.throws(() => read(most + 1), errorOf(DerError, new RegExp(`has more than ${most} values`)))
    })
  }

  test('is not read further than it may be: what comes behind the bound is never looked at', () => {
    const good = list(MAX_LIST_LENGTH, (at) => sequence(type(at)))
    const bytes = sequence(...good, Buffer.alloc(344 * 1024))
    assert.throws(() => parseCertificatePolicies(bytes), /has more than 1000 values \(at byte \d+\)$/)
  })
})

test('a certificate of 96 kB full of policies is malformed for tls-alpn-01 (RFC 8737 §3)', () => {
  const oids = Array.from({ length: 11_950 }, (_, index) => `1.3.${100_000 + index}`)
  const policiesDer = encodeDer((writer) => writeCertificatePolicies(writer, oids))
  const value = readExtensions(new DerReader(policiesDer))[0]?.value
  assert.ok(value)
  const policies = { oid: EXTENSION.certificatePolicies, value }
  const { der: certificate } = acmeCertificate({
    extensions: [subjectAltName(dnsName('demo.test')), acmeIdentifier(), policies],
  })
  assert.ok(certificate.length > 95_000, String(certificate.length))
  const identifier = { type: 'dns', value: 'demo.test' } as const
  assert.match(checkAcmeCertificate(certificate, { identifier, digest: Buffer.alloc(32) }) ?? 'accepted', /malformed/)
})
