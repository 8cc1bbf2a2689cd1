/** Certificates for tls-alpn-01 (RFC 8737 §3), right and wrong in every way that DER can spell. */

import { generateKeyPairSync, hash, type KeyObject, sign } from 'node:crypto'
import { SIGNATURE_ALGORITHMS } from '../../src/shared/pki/algorithms.ts'
import { assembleCertificate } from '../../src/shared/pki/certificate.ts'
import { contextConstructedTag, contextTag, TAG } from '../../src/shared/pki/der.ts'
import { type DerWriter, encodeDer } from '../../src/shared/pki/der-writer.ts'
import { encodeCommonName, writeDnsName, writeIpAddress } from '../../src/shared/pki/name.ts'
import { writeTime } from '../../src/shared/pki/time.ts'
import { KEY_AUTHORIZATION } from './scripted-web.ts'

export const DIGEST = hash('sha256', KEY_AUTHORIZATION, 'buffer')

export const ACME_IDENTIFIER = '1.3.6.1.5.5.7.1.31'
const SUBJECT_ALT_NAME = '2.5.29.17'

export interface TestExtension {
  oid: string
  critical?: boolean
  value: Buffer
}

export interface AcmeCertificate {
  der: Buffer
  key: KeyObject
  /** As a TLS server takes them. */
  pem: { cert: string; key: string }
}

interface Choices {
  extensions: readonly TestExtension[]
  subject: string
  issuer: string
  signedBy: KeyObject
  notAfter: Date
  /** Last word over the bytes that are signed. */
  tamper(tbs: Buffer): Buffer
}

export function acmeCertificate(choices: Partial<Choices> = {}): AcmeCertificate {
  const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const {
    extensions = [subjectAltName(dns('demo.test')), acmeIdentifier()],
    subject = 'ACME challenge',
    issuer = subject,
    signedBy = keys.privateKey,
    notAfter = new Date(Date.now() + 86_400_000),
    tamper = (tbs: Buffer) => tbs,
  } = choices
  const tbs = tamper(
    encodeDer((writer) =>
      writer.sequence(() => {
        writer.constructed(contextConstructedTag(0), () => writer.smallInteger(2))
        writer.unsignedInteger(Buffer.from('0102030405', 'hex'))
        writer.raw(SIGNATURE_ALGORITHMS.SHA256withECDSA.identifierDer)
        writer.raw(encodeCommonName(issuer))
        writer.sequence(() => {
          writeTime(writer, new Date('2020-01-01T00:00:00Z'))
          writeTime(writer, notAfter)
        })
        writer.raw(encodeCommonName(subject))
        writer.raw(keys.publicKey.export({ format: 'der', type: 'spki' }))
        if (extensions.length === 0) return
        writer.constructed(contextConstructedTag(3), () =>
          writer.sequence(() => {
            for (const extension of extensions) writeTestExtension(writer, extension)
          }),
        )
      }),
    ),
  )
  const der = assembleCertificate(tbs, 'SHA256withECDSA', sign('sha256', tbs, signedBy))
  const lines = der.toString('base64').match(/.{1,64}/g) ?? []
  const cert = `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
  return {
    der,
    key: keys.privateKey,
    pem: { cert, key: keys.privateKey.export({ format: 'pem', type: 'pkcs8' }).toString() },
  }
}

function writeTestExtension(writer: DerWriter, { oid, critical = false, value }: TestExtension): void {
  writer.sequence(() => {
    writer.oid(oid)
    if (critical) writer.boolean(true)
    writer.octetString(value)
  })
}

export type WriteName = (writer: DerWriter) => void
export const dns =
  (name: string): WriteName =>
  (writer) =>
    writeDnsName(writer, name)
export const ip =
  (address: string): WriteName =>
  (writer) =>
    writeIpAddress(writer, address)
export const email =
  (address: string): WriteName =>
  (writer) =>
    writer.ascii(contextTag(1), address)

export function subjectAltName(...names: readonly WriteName[]): TestExtension {
  return {
    oid: SUBJECT_ALT_NAME,
    value: encodeDer((writer) =>
      writer.sequence(() => {
        for (const write of names) write(writer)
      }),
    ),
  }
}

export const octetString = (content: Buffer): Buffer =>
  encodeDer((writer) => writer.primitive(TAG.octetString, content))

export function acmeIdentifier(changes: Partial<TestExtension> = {}): TestExtension {
  return { oid: ACME_IDENTIFIER, critical: true, value: octetString(DIGEST), ...changes }
}

export const otherKey = (): KeyObject => generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey

/** The rows of what RFC 8737 §3 refuses for the name demo.test: what it is → the certificate and the reason given. */
export const REFUSED: Record<string, () => readonly [AcmeCertificate, RegExp]> = {
  'of another name': () => [withNames(dns('other.test')), /is not for demo\.test$/],
  'of a name below': () => [withNames(dns('www.demo.test')), /is not for demo\.test$/],
  'of a wildcard that covers it': () => [withNames(dns('*.test')), /is not for demo\.test$/],
  'of the name with a final dot': () => [withNames(dns('demo.test.')), /is not for demo\.test$/],
  'of an address': () => [withNames(ip('127.0.0.1')), /is not for demo\.test$/],
  'of the name as an e-mail address': () => [withNames(email('demo.test')), /is not for demo\.test$/],
  'of two names': () => [withNames(dns('demo.test'), dns('other.test')), /has other names beside demo\.test$/],
  'of two names, ours last': () => [withNames(dns('other.test'), dns('demo.test')), /has other names beside/],
  'of the name twice': () => [withNames(dns('demo.test'), dns('demo.test')), /has other names beside demo\.test$/],
  'of the name and an address': () => [withNames(dns('demo.test'), ip('127.0.0.1')), /has other names beside/],
  'of the name and a mailbox': () => [withNames(dns('demo.test'), email('a@demo.test')), /has other names beside/],
  'with an empty list of names': () => [withNames(), /malformed/],
  'with the name as commonName only': () => [
    acmeCertificate({ extensions: [acmeIdentifier()], subject: 'demo.test' }),
    /has no subject alternative name$/,
  ],
  'without extensions': () => [acmeCertificate({ extensions: [] }), /has no subject alternative name$/],
  'without acmeIdentifier': () => [withIdentifiers(), /has no acmeIdentifier extension$/],
  'with the OID of an old draft': () => [
    withIdentifiers(acmeIdentifier({ oid: '1.3.6.1.5.5.7.1.30.1' })),
    /has no acmeIdentifier extension$/,
  ],
  'with an acmeIdentifier that is not critical': () => [
    withIdentifiers(acmeIdentifier({ critical: false })),
    /acmeIdentifier extension is not critical$/,
  ],
  'with acmeIdentifier twice': () => [withIdentifiers(acmeIdentifier(), acmeIdentifier()), /malformed/],
  'with a second acmeIdentifier that is wrong': () => [
    withIdentifiers(acmeIdentifier(), acmeIdentifier({ value: octetString(Buffer.alloc(32)) })),
    /malformed/,
  ],
  'with two lists of names': () => [
    acmeCertificate({
      extensions: [subjectAltName(dns('demo.test')), subjectAltName(dns('other.test')), acmeIdentifier()],
    }),
    /malformed/,
  ],
  'with another digest': () => [
    withValue(octetString(hash('sha256', 'another key authorization', 'buffer'))),
    /holds another digest$/,
  ],
  'with the digest cut by one octet': () => [withValue(octetString(DIGEST.subarray(1))), /does not hold a SHA-256/],
  'with a digest of SHA-512': () => [
    withValue(octetString(hash('sha512', KEY_AUTHORIZATION, 'buffer'))),
    /does not hold a SHA-256 digest$/,
  ],
  'with one octet after the digest': () => [
    withValue(octetString(Buffer.concat([DIGEST, Buffer.alloc(1)]))),
    /does not hold a SHA-256 digest$/,
  ],
  'with bytes behind the value': () => [
    withValue(Buffer.concat([octetString(DIGEST), Buffer.from('0500', 'hex')])),
    /does not hold a SHA-256 digest$/,
  ],
  'with the bare digest as the value': () => [withValue(DIGEST), /does not hold a SHA-256 digest$/],
  'with a value whose length is not minimal': () => [
    withValue(Buffer.concat([Buffer.from('048120', 'hex'), DIGEST])),
    /does not hold a SHA-256 digest$/,
  ],
  'with a constructed value (BER)': () => [
    withValue(Buffer.concat([Buffer.from('2422', 'hex'), octetString(DIGEST)])),
    /does not hold a SHA-256 digest$/,
  ],
  'with an empty value': () => [withValue(Buffer.alloc(0)), /does not hold a SHA-256 digest$/],
  'with the key authorization as the value': () => [
    withValue(octetString(Buffer.from(KEY_AUTHORIZATION))),
    /does not hold a SHA-256 digest$/,
  ],
  'signed by another key': () => [acmeCertificate({ signedBy: otherKey() }), /is not self-signed$/],
  'of another issuer': () => [acmeCertificate({ issuer: 'some CA' }), /is not self-signed$/],
  'whose critical flag is not DER': () => [
    acmeCertificate({ tamper: (tbs) => replaced(tbs, '0101ff', '010101') }),
    /malformed/,
  ],
}

const withNames = (...names: readonly WriteName[]) =>
  acmeCertificate({ extensions: [subjectAltName(...names), acmeIdentifier()] })
const withIdentifiers = (...identifiers: readonly TestExtension[]) =>
  acmeCertificate({ extensions: [subjectAltName(dns('demo.test')), ...identifiers] })
const withValue = (value: Buffer) => withIdentifiers(acmeIdentifier({ value }))

function replaced(bytes: Buffer, from: string, to: string): Buffer {
  const at = bytes.lastIndexOf(Buffer.from(from, 'hex'))
  if (at === -1) throw new Error(`${from} does not occur`)
  const changed = Buffer.from(bytes)
  changed.set(Buffer.from(to, 'hex'), at)
  return changed
}
