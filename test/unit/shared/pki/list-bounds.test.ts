/** Every list that a certificate, a request or a CRL can hold has an end, and reading one takes a number of steps in proportion to it. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  contextConstructedTag,
  contextTag,
  DerError,
  DerReader,
  MAX_LIST_LENGTH,
  TAG,
} from '../../../../src/shared/pki/der.ts'
import { type DerWriter, encodeDer } from '../../../../src/shared/pki/der-writer.ts'
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
import { checkAcmeCertificate } from '../../../../workers/validate/acme-certificate.ts'
import { acmeCertificate, acmeIdentifier, dns, subjectAltName } from '../../../workers/acme-certificate.ts'

type WriteItem = (writer: DerWriter, index: number) => void

const sequenceOf = (count: number, write: WriteItem): Buffer =>
  encodeDer((writer) => writer.sequence(() => items(writer, count, write)))

function items(writer: DerWriter, count: number, write: WriteItem): void {
  for (let index = 0; index < count; index++) write(writer, index)
}

const oid = (index: number) => `1.3.${100_000 + index}`
const uri = (writer: DerWriter) => writer.ascii(contextTag(6), 'http://a.test/')
const writeOid: WriteItem = (writer, index) => writer.oid(oid(index))
const attribute: WriteItem = (writer, index) =>
  writer.sequence(() => {
    writer.oid(oid(index))
    writer.primitive(TAG.utf8String, Buffer.from('x'))
  })

/** The bound, and what is read with a list of so many values. */
const LISTS: Record<string, [most: number, read: (count: number) => unknown]> = {
  'certificate policies': [
    MAX_LIST_LENGTH,
    (count) =>
      parseCertificatePolicies(sequenceOf(count, (writer, index) => writer.sequence(() => writeOid(writer, index)))),
  ],
  'extended key usages': [MAX_LIST_LENGTH, (count) => parseExtendedKeyUsage(sequenceOf(count, writeOid))],
  'subject alternative names': [
    MAX_LIST_LENGTH,
    (count) => parseSubjectAltName(sequenceOf(count, (writer, index) => writer.ascii(contextTag(2), `a${index}.test`))),
  ],
  'CRL distribution points': [
    MAX_LIST_LENGTH,
    (count) =>
      parseCrlDistributionPoints(
        sequenceOf(count, (writer) =>
          writer.sequence(() =>
            writer.constructed(contextConstructedTag(0), () =>
              writer.constructed(contextConstructedTag(0), () => uri(writer)),
            ),
          ),
        ),
      ),
  ],
  'names of a CRL distribution point': [
    MAX_LIST_LENGTH,
    (count) =>
      parseCrlDistributionPoints(
        sequenceOf(1, (writer) =>
          writer.sequence(() =>
            writer.constructed(contextConstructedTag(0), () =>
              writer.constructed(contextConstructedTag(0), () => items(writer, count, uri)),
            ),
          ),
        ),
      ),
  ],
  'access descriptions': [
    MAX_LIST_LENGTH,
    (count) =>
      parseAuthorityInfoAccess(
        sequenceOf(count, (writer) =>
          writer.sequence(() => {
            writer.oid('1.3.6.1.5.5.7.48.1')
            uri(writer)
          }),
        ),
      ),
  ],
  'names of an authority key identifier': [
    MAX_LIST_LENGTH,
    (count) =>
      parseAuthorityKeyIdentifier(
        sequenceOf(1, (writer) => writer.constructed(contextConstructedTag(1), () => items(writer, count, uri))),
      ),
  ],
  extensions: [
    MAX_LIST_LENGTH,
    (count) =>
      readExtensions(
        new DerReader(
          encodeDer((writer) =>
            items(writer, count, (_, index) =>
              writer.sequence(() => {
                writer.oid(oid(index))
                writer.octetString(Buffer.of(5, 0))
              }),
            ),
          ),
        ),
      ),
  ],
  'relative distinguished names': [
    MAX_RDNS,
    (count) =>
      parseName(sequenceOf(count, (writer, index) => writer.constructed(TAG.set, () => attribute(writer, index)))),
  ],
  'attributes of a relative distinguished name': [
    MAX_RDN_ATTRIBUTES,
    (count) => parseName(sequenceOf(1, (writer) => writer.constructed(TAG.set, () => items(writer, count, attribute)))),
  ],
}

describe('a list', () => {
  for (const [what, [most, read]] of Object.entries(LISTS))
    test(`of ${what} is read up to ${most} values and refused beyond`, () => {
      assert.doesNotThrow(() => read(most))
      assert.throws(
        () => read(most + 1),
        (error: Error) => error instanceof DerError && error.message.includes(`has more than ${most} values`),
      )
    })

  test('is not read further than it may be: what comes behind the bound is never looked at', () => {
    const good = sequenceOf(MAX_LIST_LENGTH, (writer, index) => writer.sequence(() => writeOid(writer, index)))
    const endless = Buffer.alloc(344 * 1024)
    const bytes = encodeDer((writer) =>
      writer.sequence(() => {
        writer.raw(good.subarray(4))
        writer.raw(endless)
      }),
    )
    assert.throws(() => parseCertificatePolicies(bytes), /has more than 1000 values \(at byte \d+\)$/)
  })
})

test('a certificate of 96 kB full of policies is malformed for tls-alpn-01 (RFC 8737 §3)', () => {
  const oids = Array.from({ length: 11_950 }, (_, index) => oid(index))
  const extension = encodeDer((writer) => writeCertificatePolicies(writer, oids))
  const value = readExtensions(new DerReader(extension))[0]?.value
  assert.ok(value)
  const policies = { oid: EXTENSION.certificatePolicies, value }
  const { der } = acmeCertificate({ extensions: [subjectAltName(dns('demo.test')), acmeIdentifier(), policies] })
  assert.ok(der.length > 95_000, String(der.length))
  const identifier = { type: 'dns', value: 'demo.test' } as const
  assert.match(checkAcmeCertificate(der, { identifier, digest: Buffer.alloc(32) }) ?? 'accepted', /malformed/)
})
