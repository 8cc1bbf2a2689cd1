import assert from 'node:assert/strict'
import { sign } from 'node:crypto'
import { before, describe, test } from 'node:test'
import fc from 'fast-check'
import { KEY_ALGORITHM, SIGNATURE_ALGORITHMS } from '../../../../src/shared/pki/algorithms.ts'
import { type Csr, CsrError, parseCsr, verifyCsrSignature } from '../../../../src/shared/pki/csr.ts'
import { contextConstructedTag, TAG } from '../../../../src/shared/pki/der.ts'
import { type DerWriter, encodeDer } from '../../../../src/shared/pki/der-writer.ts'
import { writeExtension } from '../../../../src/shared/pki/extensions.ts'
import { valuesOfKind, writeDnsName, writeIpAddress } from '../../../../src/shared/pki/general-names.ts'
import { EMPTY_NAME } from '../../../../src/shared/pki/name.ts'
import { EXTENSION, EXTENSION_REQUEST } from '../../../../src/shared/pki/oids.ts'
import { propertyRuns } from '../../../support/property-runs.ts'
import { errorOf } from '../../../support/refusals.ts'
import { ALL_KEYS, aCsr, hex, mutated, P256_KEY, randomOctets, x509 } from './support.ts'

type Write = (writer: DerWriter) => void

/** A P-256 request written by hand, signed whatever it says. */
function csrOf(
  parts: { version?: Buffer; subject?: Buffer; spki?: Buffer; attributes?: Write; extra?: Buffer } = {},
): Buffer {
  const info = encodeDer((writer) =>
    writer.sequence(() => {
      writer.raw(parts.version ?? hex('020100'))
      writer.raw(parts.subject ?? EMPTY_NAME)
      writer.raw(parts.spki ?? P256_KEY.spki)
      if (parts.attributes) writer.constructed(contextConstructedTag(0), () => parts.attributes?.(writer))
      if (parts.extra) writer.raw(parts.extra)
    }),
  )
  return encodeDer((writer) =>
    writer.sequence(() => {
      writer.raw(info)
      writer.raw(SIGNATURE_ALGORITHMS.SHA256withECDSA.identifierDer)
      writer.bitStringOctets(sign('sha256', info, P256_KEY.privateKey))
    }),
  )
}

const attribute =
  (oid: string, writeValues: Write): Write =>
  (writer) =>
    writer.sequence(() => {
      writer.oid(oid)
      writer.constructed(TAG.set, () => writeValues(writer))
    })

const extensionRequest = (...extensions: Write[]): Write =>
  attribute(EXTENSION_REQUEST, (writer) =>
    writer.sequence(() => {
      for (const write of extensions) write(writer)
    }),
  )

const san =
  (writeNames: Write): Write =>
  (writer) =>
    writeExtension(writer, EXTENSION.subjectAltName, false, () => writer.sequence(() => writeNames(writer)))

const dns =
  (...names: string[]): Write =>
  (writer) => {
    for (const name of names) writeDnsName(writer, name)
  }

function dnsNamesIn(request: x509.Pkcs10CertificateRequest): string[] {
  const extension = request.getExtension(EXTENSION.subjectAltName)
  const items = extension instanceof x509.SubjectAlternativeNameExtension ? extension.names.items : []
  return Array.from(items).flatMap(({ type, value }) => (type === 'dns' ? [value] : []))
}

const nothing: Write = () => {}
const times =
  (count: number, write: Write): Write =>
  (writer) => {
    for (let n = 0; n < count; n++) write(writer)
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
      const csr = parseCsr(der)
      const other = new x509.Pkcs10CertificateRequest(der)
      assert.equal(verifyCsrSignature(csr), true)
      assert.equal(await other.verify(), true)
      assert.deepEqual(csr.spki.der, Buffer.from(other.publicKey.rawData))
      assert.deepEqual(csr.subjectDer, Buffer.from(other.subjectName.toArrayBuffer()))
      assert.deepEqual(csr.commonNames, other.subjectName.getField('CN'))
      assert.deepEqual(
        csr.extensionOids,
        Array.from(other.extensions, ({ type }) => type),
      )
      assert.equal(csr.signatureAlgorithm, key.signatureAlgorithm)
      assert.deepEqual(csr.dnsNames, ['a.example', '*.b.example'])
      assert.deepEqual(csr.ipAddresses, ['192.0.2.1', '2001:db8::1'])
      assert.deepEqual(csr.keyUsages, ['digital_signature'])
      assert.deepEqual(csr.extendedKeyUsages, ['server_auth', '1.2.3.4'])
      assert.equal(csr.subjectText, 'O=Org,CN=a.example')
    })

  test('a request without extensions names nothing', () => {
    const csr = parseCsr(csrOf({ attributes: nothing }))
    assert.deepEqual(csr.dnsNames, [])
    assert.equal(csr.keyUsages, undefined)
    assert.equal(csr.extendedKeyUsages, undefined)
    assert.equal(csr.subjectText, '')
    assert.equal(verifyCsrSignature(csr), true)
  })

  test('names of every kind are counted, dNSName and iPAddress apart from the rest', () => {
    const csr = parseCsr(
      csrOf({
        attributes: extensionRequest(
          san((writer) => {
            writeDnsName(writer, 'a.example')
            writer.ascii(0x81, 'who@a.example')
            writer.ascii(0x86, 'https://a.example/')
            writer.raw(hex('88 01 2a'))
          }),
        ),
      }),
    )
    assert.deepEqual(csr.sanTypes, ['dNSName', 'rfc822Name', 'uniformResourceIdentifier', 'registeredID'])
    assert.deepEqual(csr.otherSanTypes, ['rfc822Name', 'uniformResourceIdentifier', 'registeredID'])
  })

  test('names that stand twice are reported, without regard to case', () => {
    const names: Write = (writer) => {
      dns('a.example', 'b.example', 'A.EXAMPLE')(writer)
      writeIpAddress(writer, '::1')
      writeIpAddress(writer, '0::1')
    }
    const csr = parseCsr(csrOf({ attributes: extensionRequest(san(names)) }))
    assert.deepEqual(csr.duplicateSans, ['a.example', '::1'])
    assert.deepEqual(csr.dnsNames, ['a.example', 'b.example'])
    assert.equal(csr.subjectAltNames.length, 5)
  })

  const keyUsage =
    (value: string): Write =>
    (writer) =>
      writeExtension(writer, EXTENSION.keyUsage, true, () => writer.raw(hex(value)))
  test('usages are read for CSR profiles, and what cannot be read is authorized by none', () => {
    const usagesOf = (value: string) => parseCsr(csrOf({ attributes: extensionRequest(keyUsage(value)) })).keyUsages
    assert.deepEqual(usagesOf('030200a0'), ['digital_signature', 'key_encipherment'])
    assert.deepEqual(usagesOf('030100'), [])
    assert.deepEqual(usagesOf('0303068040'), ['unreadable'])
  })

  const refused: [string, Buffer, RegExp][] = [
    [
      'a thousand and one attributes',
      csrOf({ attributes: times(1001, attribute('1.2.3.4', nothing)) }),
      /Attributes has more than 1000 values/,
    ],
    ['PEM text', Buffer.from('-----BEGIN CERTIFICATE REQUEST-----'), /cannot be read/],
    ['nothing', Buffer.alloc(0), /cannot be read/],
  ]
  for (const [what, der, message] of refused)
    test(`refuses ${what}`, () => assert.throws(() => parseCsr(der), errorOf(CsrError, message)))

  describe('proof of possession', () => {
    test('fails for a signature by another key', () => {
      const csr = parseCsr(csrOf({ spki: ALL_KEYS[2]!.spki, attributes: nothing }))
      assert.equal(verifyCsrSignature(csr), false)
    })

    test('fails when the algorithm does not fit the key', () => {
      const csr = parseCsr(csrOf({ spki: ALL_KEYS[0]!.spki, attributes: nothing }))
      assert.equal(verifyCsrSignature(csr), false)
    })

    test('fails for a point that is not on its curve', () => {
      const spki = Buffer.from(P256_KEY.spki)
      spki[spki.length - 1]! ^= 1
      assert.equal(verifyCsrSignature(parseCsr(csrOf({ spki, attributes: nothing }))), false)
    })

    test('fails for an algorithm that is none of ours, which is named by its OID', () => {
      const der = csrOf({ attributes: nothing })
      const sha1 = hex('2a8648ce3d0401')
      const identifier = SIGNATURE_ALGORITHMS.SHA256withECDSA.identifierDer
      const at = der.indexOf(identifier)
      const changed = encodeDer((writer) =>
        writer.sequence(() => {
          writer.raw(parseCsr(der).certificationRequestInfo)
          writer.sequence(() => writer.primitive(TAG.oid, sha1))
          writer.raw(der.subarray(at + identifier.length))
        }),
      )
      const csr = parseCsr(changed)
      assert.equal(csr.signatureAlgorithm, undefined)
      assert.equal(csr.signatureAlgorithmOid, '1.2.840.10045.4.1')
      assert.equal(verifyCsrSignature(csr), false)
    })

    test('an unsupported key verifies nothing', () => {
      const spki = encodeDer((w) =>
        w.sequence(() => {
          w.sequence(() => w.oid('1.3.101.113'))
          w.bitStringOctets(Buffer.alloc(57))
        }),
      )
      assert.equal(verifyCsrSignature(parseCsr(csrOf({ spki, attributes: nothing }))), false)
      assert.notEqual(KEY_ALGORITHM.ed25519, '1.3.101.113')
    })
  })

  describe('on hostile bytes', () => {
    let originals: Buffer[] = []
    before(async () => {
      originals = await Promise.all(ALL_KEYS.map((key) => aCsr(key, { subject: 'CN=a.example' })))
    })

    const parsed = (bytes: Buffer): Csr | undefined => {
      try {
        return parseCsr(bytes)
      } catch (error) {
        assert.ok(error instanceof CsrError, String(error))
        return undefined
      }
    }

    test('random bytes fail only with CsrError', () =>
      fc.assert(
        fc.property(randomOctets(200), (bytes) => parsed(bytes) === undefined),
        propertyRuns(),
      ))

    test('bytes near a valid request fail only with CsrError, and what is read reads the same in @peculiar/x509', () => {
      let agreed = 0
      fc.assert(
        fc.property(mutated(originals), (bytes) => {
          const csr = parsed(bytes)
          if (!csr || csr.spki.kind === 'unsupported') return
          assert.equal(typeof verifyCsrSignature(csr), 'boolean')
          const other = readByOracle(csr.der)
          // The oracle also decodes attributes and extensions that a certificate never takes over, and may fail at one.
          if (!other) return
          assert.deepEqual(csr.extensionOids, other.extensionOids)
          assert.deepEqual(csr.spki.der, other.spki)
          assert.deepEqual(valuesOfKind(csr.subjectAltNames, 'dNSName'), other.dnsNames)
          agreed++
        }),
        propertyRuns(),
      )
      assert.ok(agreed > 20, `only ${agreed} mutated requests were read`)
    })

    test('no octet of the signed part can change without breaking the signature', () => {
      const original = originals[1]!
      const { certificationRequestInfo } = parseCsr(original)
      const start = certificationRequestInfo.byteOffset - original.byteOffset
      for (let at = start; at < start + certificationRequestInfo.length; at++) {
        const changed = Buffer.from(original)
        changed[at]! ^= 1
        const csr = parsed(changed)
        assert.ok(!csr || !verifyCsrSignature(csr), `octet ${at}`)
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
