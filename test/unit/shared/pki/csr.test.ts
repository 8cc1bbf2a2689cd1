import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { CsrError, parseCsr, verifyCsrSignature } from '../../../../src/shared/pki/csr.ts'
import { valuesOfKind } from '../../../../src/shared/pki/name.ts'
import { EXTENSION } from '../../../../src/shared/pki/oids.ts'
import { address, bits, CN, dns, hex, oid, sequence, text } from '../../../corpus/der.ts'
import { attribute, attributes, csr, extensions, keyUsage, names } from '../../../corpus/requests.ts'
import { forAnyInput } from '../../../support/property-runs.ts'
import { errorOf, unlessRefused } from '../../../support/refusals.ts'
import { ALL_KEYS, aCsr, mutated, P256_KEY, randomOctets, x509 } from './support.ts'

function dnsNamesIn(request: x509.Pkcs10CertificateRequest): string[] {
  const extension = request.getExtension(EXTENSION.subjectAltName)
  const items = extension instanceof x509.SubjectAlternativeNameExtension ? extension.names.items : []
  return Array.from(items).flatMap(({ type, value }) => (type === 'dns' ? [value] : []))
}

describe('certification requests (RFC 2986)', () => {
  for (const key of ALL_KEYS)
    test(`a ${key.label} request of @peculiar/x509 reads the same in both, and its signature holds`, async () => {
      const der = await aCsr(key, {
        subject: 'CN=a.example, O=Org',
        names: [
          { type: 'dns', value: 'A.example' },
          { type: 'dns', value: '*.b.example' },
          { type: 'ip', value: '192.0.2.1' },
          { type: 'ip', value: '2001:db8::1' },
        ],
        extensions: [
          new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
          new x509.ExtendedKeyUsageExtension(['1.3.6.1.5.5.7.3.1', '1.2.3.4']),
        ],
      })
      const read = parseCsr(der)
      const other = new x509.Pkcs10CertificateRequest(der)
      assert.equal(verifyCsrSignature(read), true)
      assert.equal(await other.verify(), true)
      assert.deepEqual(read.spki.der, Buffer.from(other.publicKey.rawData))
      assert.deepEqual(read.subjectDer, Buffer.from(other.subjectName.toArrayBuffer()))
      assert.deepEqual(read.commonNames, other.subjectName.getField('CN'))
      assert.deepEqual(
        read.extensionOids,
        Array.from(other.extensions, ({ type }) => type),
      )
      assert.equal(read.signatureAlgorithm, key.signatureAlgorithm)
      assert.deepEqual(read.dnsNames, ['a.example', '*.b.example'])
      assert.deepEqual(read.ipAddresses, ['192.0.2.1', '2001:db8::1'])
      assert.deepEqual(read.keyUsages, ['digital_signature'])
      assert.deepEqual(read.extendedKeyUsages, ['server_auth', '1.2.3.4'])
      assert.equal(read.subjectText, 'O=Org,CN=a.example')
    })

  test('a request without extensions names nothing', () => {
    const read = parseCsr(csr({ attributes: [] }))
    assert.deepEqual(read.dnsNames, [])
    assert.equal(read.keyUsages, undefined)
    assert.equal(read.extendedKeyUsages, undefined)
    assert.equal(read.subjectText, '')
    assert.equal(verifyCsrSignature(read), true)
  })

  test('names of every kind are counted, dNSName and iPAddress apart from the rest', () => {
    const read = parseCsr(
      names(dns('a.example'), text(0x81, 'who@a.example'), text(0x86, 'https://a.example/'), hex('88012a')),
    )
    assert.deepEqual(read.sanTypes, ['dNSName', 'rfc822Name', 'uniformResourceIdentifier', 'registeredID'])
    assert.deepEqual(read.otherSanTypes, ['rfc822Name', 'uniformResourceIdentifier', 'registeredID'])
  })

  test('names that stand twice are reported, without regard to case', () => {
    const loopback = address(`${'0'.repeat(31)}1`)
    const read = parseCsr(names(...['a.example', 'b.example', 'A.EXAMPLE'].map(dns), loopback, loopback))
    assert.deepEqual(read.duplicateSans, ['a.example', '::1'])
    assert.deepEqual(read.dnsNames, ['a.example', 'b.example'])
    assert.equal(read.subjectAltNames.length, 5)
  })

  test('usages are read for CSR profiles, and what cannot be read is authorized by none', () => {
    const usagesOf = (value: string) => parseCsr(extensions(keyUsage(value))).keyUsages
    assert.deepEqual(usagesOf('030200a0'), ['digital_signature', 'key_encipherment'])
    assert.deepEqual(usagesOf('030100'), [])
    assert.deepEqual(usagesOf('0303068040'), ['unreadable'])
  })

  const refused: [string, Buffer, RegExp][] = [
    [
      'a thousand and one attributes',
      attributes(...Array(1001).fill(attribute(CN))),
      /Attributes has more than 1000 values/,
    ],
    ['PEM text', Buffer.from('-----BEGIN CERTIFICATE REQUEST-----'), /cannot be read/],
    ['nothing', Buffer.alloc(0), /cannot be read/],
  ]
  for (const [what, der, message] of refused)
    test(`refuses ${what}`, () => assert.throws(() => parseCsr(der), errorOf(CsrError, message)))

  describe('proof of possession', () => {
    const offCurve = Buffer.from(P256_KEY.spki)
    offCurve[offCurve.length - 1]! ^= 1
    for (const [what, spki] of [
      ['a signature by another key', ALL_KEYS[2]!.spki],
      ['an algorithm that does not fit the key', ALL_KEYS[0]!.spki],
      ['a point that is not on its curve', offCurve],
      ['an unsupported key', sequence(sequence(oid('2b6571')), bits(Buffer.alloc(57)))],
    ] as const)
      test(`fails for ${what}`, () => assert.equal(verifyCsrSignature(parseCsr(csr({ spki }))), false))

    test('fails for an algorithm that is none of ours, which is named by its OID', () => {
      const read = parseCsr(csr({ algorithm: sequence(oid('2a8648ce3d0401')) }))
      assert.equal(read.signatureAlgorithm, undefined)
      assert.equal(read.signatureAlgorithmOid, '1.2.840.10045.4.1')
      assert.equal(verifyCsrSignature(read), false)
    })
  })

  describe('on hostile bytes', () => {
    let originals: Buffer[] = []
    before(async () => {
      originals = await Promise.all(ALL_KEYS.map((key) => aCsr(key, { subject: 'CN=a.example' })))
    })

    const parsed = (bytes: Buffer) => unlessRefused(CsrError, () => parseCsr(bytes))

    test('random bytes fail only with CsrError', () =>
      forAnyInput(randomOctets(200), (bytes) => parsed(bytes) === undefined))

    test('bytes near a valid request fail only with CsrError, and what is read reads the same in @peculiar/x509', () => {
      let agreed = 0
      forAnyInput(mutated(originals), (bytes) => {
        const read = parsed(bytes)
        if (!read || read.spki.kind === 'unsupported') return
        assert.equal(typeof verifyCsrSignature(read), 'boolean')
        const other = readByOracle(read.der)
        // The oracle also decodes attributes and extensions that a certificate never takes over, and may fail at one.
        if (!other) return
        assert.deepEqual(read.extensionOids, other.extensionOids)
        assert.deepEqual(read.spki.der, other.spki)
        assert.deepEqual(valuesOfKind(read.subjectAltNames, 'dNSName'), other.dnsNames)
        agreed++
      })
      assert.ok(agreed > 20, `only ${agreed} mutated requests were read`)
    })

    test('no octet of the signed part can change without breaking the signature', () => {
      const original = originals[1]!
      const { certificationRequestInfo } = parseCsr(original)
      const start = certificationRequestInfo.byteOffset - original.byteOffset
      for (let at = start; at < start + certificationRequestInfo.length; at++) {
        const changed = Buffer.from(original)
        changed[at]! ^= 1
        const read = parsed(changed)
        assert.ok(!read || !verifyCsrSignature(read), `octet ${at}`)
      }
    })
  })
})

function readByOracle(der: Buffer): { extensionOids: string[]; spki: Buffer; dnsNames: string[] } | undefined {
  try {
    const request = new x509.Pkcs10CertificateRequest(der)
    return {
      extensionOids: Array.from(request.extensions, ({ type }) => type),
      spki: Buffer.from(request.publicKey.rawData),
      dnsNames: dnsNamesIn(request),
    }
  } catch {
    return undefined
  }
}
