/** Keys, certificates, requests and arbitraries that the tests of this folder share. */

import 'reflect-metadata'
import { sign, webcrypto } from 'node:crypto'
import * as x509 from '@peculiar/x509'
import fc from 'fast-check'
import { SIGNATURE_ALGORITHMS } from '../../../../src/shared/pki/algorithms.ts'
import { assembleCertificate } from '../../../../src/shared/pki/certificate.ts'
import { encodeCommonName } from '../../../../src/shared/pki/name.ts'
import { buildTbsCertificate, type TbsCertificateInput } from '../../../../src/shared/pki/tbs-certificate.ts'
import { P256_KEY, type TestKey } from '../../../support/keys.ts'

export { anyCharacter } from '../../../support/any-character.ts'
export * from '../../../support/keys.ts'
export { x509 }

x509.cryptoProvider.set(webcrypto)

export async function webKeys(key: TestKey): Promise<webcrypto.CryptoKeyPair> {
  const pkcs8 = key.privateKey.export({ type: 'pkcs8', format: 'der' })
  const { subtle } = webcrypto
  return {
    privateKey: await subtle.importKey('pkcs8', pkcs8, key.webAlgorithm, true, ['sign']),
    publicKey: await subtle.importKey('spki', key.spki, key.webAlgorithm, true, ['verify']),
  }
}

/** A request made by @peculiar/x509. */
export async function aCsr(
  key: TestKey,
  options: { subject?: string | x509.JsonName; names?: x509.JsonGeneralNames; extensions?: x509.Extension[] } = {},
): Promise<Buffer> {
  const { subject = '', names = [{ type: 'dns', value: 'a.example' }], extensions = [] } = options
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    name: subject,
    keys: await webKeys(key),
    signingAlgorithm: key.webSigning,
    extensions: [...(names.length > 0 ? [new x509.SubjectAlternativeNameExtension(names)] : []), ...extensions],
  })
  return Buffer.from(request.rawData)
}

export const NOT_BEFORE = new Date('2026-01-01T00:00:00Z')
export const NOT_AFTER = new Date('2026-03-31T23:59:59Z')

export function aTbsInput(overrides: Partial<TbsCertificateInput> = {}): TbsCertificateInput {
  return {
    serialNumber: Buffer.from('8123456789abcdef0123456789abcdef', 'hex'),
    issuerNameDer: encodeCommonName('Test issuer'),
    authorityKeyIdentifier: Buffer.alloc(20, 7),
    signatureAlgorithm: 'SHA256withECDSA',
    notBefore: NOT_BEFORE,
    notAfter: NOT_AFTER,
    spki: P256_KEY.spki,
    dnsNames: ['a.example'],
    ipAddresses: [],
    keyUsages: ['digital_signature'],
    extendedKeyUsages: ['server_auth'],
    ...overrides,
  }
}

export function signTbs(tbs: Buffer, issuer: TestKey): Buffer {
  const { hash } = SIGNATURE_ALGORITHMS[issuer.signatureAlgorithm]
  return assembleCertificate(tbs, issuer.signatureAlgorithm, sign(hash, tbs, issuer.privateKey))
}

export function aCertificate(overrides: Partial<TbsCertificateInput> = {}, issuer: TestKey = P256_KEY): Buffer {
  return signTbs(
    buildTbsCertificate(aTbsInput({ signatureAlgorithm: issuer.signatureAlgorithm, ...overrides })),
    issuer,
  )
}

/** Buffers near a valid one: some octets replaced, inserted or dropped, or the end cut off. */
export function mutated(originals: readonly Buffer[]): fc.Arbitrary<Buffer> {
  const edit = fc.record({
    kind: fc.constantFrom('replace', 'replace', 'replace', 'replace', 'insert', 'drop', 'cut'),
    position: fc.nat({ max: 0xffff }),
    octet: fc.integer({ min: 0, max: 255 }),
  })
  return fc
    .tuple(fc.constantFrom(...originals), fc.array(edit, { minLength: 1, maxLength: 3 }))
    .map(([original, edits]) => edits.reduce(applyEdit, original))
}

function applyEdit(
  bytes: Buffer,
  { kind, position, octet }: { kind: string; position: number; octet: number },
): Buffer {
  const at = Math.floor((position / 0x10000) * bytes.length)
  const behind = bytes.subarray(kind === 'insert' ? at : at + 1)
  if (kind === 'cut') return Buffer.from(bytes.subarray(0, at))
  if (kind === 'drop') return Buffer.concat([bytes.subarray(0, at), behind])
  return Buffer.concat([bytes.subarray(0, at), Buffer.of(octet), behind])
}

export const randomOctets = (maxLength: number): fc.Arbitrary<Buffer> =>
  fc.uint8Array({ maxLength }).map((octets) => Buffer.from(octets))

export const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex')
