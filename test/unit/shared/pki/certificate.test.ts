import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createPublicKey, X509Certificate } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  findSignatureAlgorithm,
  readAlgorithmIdentifier,
  SIGNATURE_ALGORITHMS,
} from '../../../../src/shared/pki/algorithms.ts'
import {
  assembleCertificate,
  fingerprintSha256,
  parseCertificate,
  parseTbsCertificate,
  verifyCertificateSignature,
} from '../../../../src/shared/pki/certificate.ts'
import { DerError, DerReader } from '../../../../src/shared/pki/der.ts'
import { encodePem } from '../../../../src/shared/pki/pem.ts'
import { forAnyInput } from '../../../support/property-runs.ts'
import { unlessRefused } from '../../../support/refusals.ts'
import { requireCommand } from '../../../support/requirements.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'
import { words } from '../../../support/words.ts'
import {
  ALL_KEYS,
  aCertificate,
  aTbsInput,
  hex,
  mutated,
  P256_KEY,
  randomOctets,
  type TestKey,
  webKeys,
  x509,
} from './support.ts'

describe('certificates', () => {
  for (const issuer of ALL_KEYS)
    test(`a certificate signed by ${issuer.label} verifies with its key and with no other`, () => {
      const certificate = parseCertificate(aCertificate({}, issuer))
      assert.equal(certificate.signatureAlgorithm, issuer.signatureAlgorithm)
      assert.equal(verifyCertificateSignature(certificate, issuer.spki), true)
      assert.equal(
        verifyCertificateSignature(certificate, createPublicKey({ key: issuer.spki, format: 'der', type: 'spki' })),
        true,
      )
      for (const other of ALL_KEYS)
        if (other !== issuer) assert.equal(verifyCertificateSignature(certificate, other.spki), false)
      assert.throws(() => verifyCertificateSignature(certificate, hex('3000')), DerError)
    })

  test('taking a certificate apart and assembling it gives the same bytes', () => {
    const der = aCertificate()
    const { tbsDer, signatureAlgorithm, signature } = parseCertificate(der)
    assert.deepEqual(assembleCertificate(tbsDer, signatureAlgorithm!, signature), der)
    assert.deepEqual(parseTbsCertificate(tbsDer).extensions, parseCertificate(der).tbs.extensions)
  })

  test('the fingerprint is the one of node:crypto', () => {
    const der = aCertificate()
    assert.equal(fingerprintSha256(der), new X509Certificate(der).fingerprint256.replaceAll(':', '').toLowerCase())
  })

  test('refuses an outer algorithm that differs from the signed one (RFC 5280 §4.1.1.2)', () => {
    const { tbsDer, signature } = parseCertificate(aCertificate())
    assert.throws(() => parseCertificate(assembleCertificate(tbsDer, 'SHA384withECDSA', signature)), DerError)
  })

  test('refuses trailing bytes, inside and outside', () => {
    const der = aCertificate()
    assert.throws(() => parseCertificate(Buffer.concat([der, hex('00')])), DerError)
  })

  test('fails only with DerError on hostile bytes', () =>
    forAnyInput(fc.oneof(randomOctets(100), mutated([aCertificate()])), (bytes) => {
      unlessRefused(DerError, () =>
        assert.equal(typeof verifyCertificateSignature(parseCertificate(bytes), P256_KEY.spki), 'boolean'),
      )
    }))

  test('no changed octet leaves a certificate that still verifies', () => {
    const der = aCertificate()
    for (let at = 0; at < der.length; at++) {
      const changed = Buffer.from(der)
      changed[at]! ^= 0x01
      const verify = () => verifyCertificateSignature(parseCertificate(changed), P256_KEY.spki)
      assert.notEqual(unlessRefused(DerError, verify), true, `octet ${at}`)
    }
  })
})

describe('signature algorithms', () => {
  for (const [name, facts] of Object.entries(SIGNATURE_ALGORITHMS))
    test(`${name} is found by its identifier`, () => {
      assert.equal(findSignatureAlgorithm(facts.identifierDer), name)
      assert.equal(readAlgorithmIdentifier(new DerReader(facts.identifierDer)).oid, facts.oid)
    })

  // RFC 4055 §5, RFC 5758 §3.2
  for (const [what, identifier] of [
    ['RSA without NULL', '300b 0609 2a864886f70d01010b'],
    ['ECDSA with NULL', '300c 0608 2a8648ce3d040302 0500'],
    ['SHA-1 with RSA', '300d 0609 2a864886f70d010105 0500'],
  ] as const)
    test(`${what} is not one of them`, () =>
      assert.equal(readAlgorithmIdentifier(new DerReader(hex(identifier))).algorithm, undefined))
})

async function aRoot(key: TestKey): Promise<x509.X509Certificate> {
  return x509.X509CertificateGenerator.createSelfSigned({
    name: 'CN=Test root',
    keys: await webKeys(key),
    signingAlgorithm: key.webSigning,
    notBefore: new Date('2020-01-01T00:00:00Z'),
    notAfter: new Date('2049-01-01T00:00:00Z'),
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      new x509.SubjectKeyIdentifierExtension('0707070707070707070707070707070707070707'),
    ],
  })
}

describe('what openssl makes of a built certificate', requireCommand('openssl'), () => {
  const folder = temporaryFolder()
  for (const issuer of ALL_KEYS)
    test(`openssl verify -x509_strict accepts it under a root with a ${issuer.label} key`, async () => {
      const root = await aRoot(issuer)
      const { tbs } = parseCertificate(Buffer.from(root.rawData))
      const leaf = aCertificate(
        {
          ...aTbsInput(),
          signatureAlgorithm: issuer.signatureAlgorithm,
          issuerNameDer: tbs.subjectDer,
          authorityKeyIdentifier: tbs.subjectKeyIdentifier!,
        },
        issuer,
      )
      const [rootFile, leafFile] = [join(folder, 'root.pem'), join(folder, 'leaf.pem')]
      writeFileSync(rootFile, encodePem('CERTIFICATE', Buffer.from(root.rawData)))
      writeFileSync(leafFile, encodePem('CERTIFICATE', leaf))
      const options = words`-x509_strict -check_ss_sig -purpose sslserver -verify_hostname a.example -attime`
      const at = String(Date.UTC(2026, 1, 1) / 1000)
      const args = ['verify', ...options, at, '-CAfile', rootFile, leafFile]
      assert.match(execFileSync('openssl', args, { encoding: 'utf8' }), /leaf\.pem: OK/)
    })
})
