/**
 * A leaf certificate cut into pieces, so that SQL can put millions together: between them go serial number, times and name,
 * each of a fixed length. What comes out parses and says what its row says; the signature is that of the template.
 */

import { createPublicKey, generateKeyPairSync, sign } from 'node:crypto'
import { assembleCertificate, parseCertificate } from '../../src/shared/pki/certificate.ts'
import { buildTbsCertificate } from '../../src/shared/pki/tbs-certificate.ts'

/** Octets of every serial number; the first digit is 4, so that no sign octet is needed. */
const SERIAL_OCTETS = 17
/** Characters of every name, but for the `www.` of the second one. */
const NAME_LENGTH = 25

/** In order: before the serial number, notBefore, notAfter, the name, the name after `www.`, and the end. */
export type Pieces = readonly [Buffer, Buffer, Buffer, Buffer, Buffer, Buffer]

const SERIAL = Buffer.alloc(SERIAL_OCTETS, 0x4e)
const NAME = 'n'.repeat(NAME_LENGTH)
const NOT_BEFORE = new Date('2001-02-03T04:05:06Z')
const NOT_AFTER = new Date('2007-08-09T10:11:12Z')

/** @param issuer DER of the certificate that the leaf names as its issuer */
export function cutTemplate(issuer: Buffer, withWww: boolean): Pieces {
  const { tbs } = parseCertificate(issuer)
  const key = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const der = assembleCertificate(
    buildTbsCertificate({
      serialNumber: SERIAL,
      issuerNameDer: tbs.subjectDer,
      authorityKeyIdentifier: tbs.subjectKeyIdentifier ?? Buffer.alloc(20, 1),
      signatureAlgorithm: 'SHA256withECDSA',
      notBefore: NOT_BEFORE,
      notAfter: NOT_AFTER,
      spki: createPublicKey(key.privateKey).export({ type: 'spki', format: 'der' }),
      dnsNames: withWww ? [NAME, `www.${NAME}`] : [NAME],
      ipAddresses: [],
      keyUsages: ['digital_signature'],
      extendedKeyUsages: ['server_auth'],
    }),
    'SHA256withECDSA',
    sign('sha256', SERIAL, key.privateKey),
  )
  const slots = [SERIAL, utcTime(NOT_BEFORE), utcTime(NOT_AFTER), Buffer.from(NAME)]
  return cut(der, withWww ? [...slots, Buffer.from(NAME)] : slots)
}

/** The five pieces around the slots, and a sixth that is empty where there is no second name. */
function cut(der: Buffer, slots: readonly Buffer[]): Pieces {
  const pieces: Buffer[] = []
  let from = 0
  for (const slot of slots) {
    const at = der.indexOf(slot, from)
    if (at < 0) throw new Error('the template lacks what is to be replaced in it')
    pieces.push(der.subarray(from, at))
    from = at + slot.length
  }
  pieces.push(der.subarray(from))
  return [...pieces, Buffer.alloc(0)].slice(0, 6) as unknown as Pieces
}

/** UTCTime (RFC 5280 §4.1.2.5.1), good until 2049. */
function utcTime(at: Date): Buffer {
  return Buffer.from(`${at.toISOString().replaceAll(/[-:T]/g, '').slice(2, 14)}Z`)
}
