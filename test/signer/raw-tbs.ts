/** Writes TBSCertificates that no builder of ours would write, to show that they are refused. */

import { randomBytes } from 'node:crypto'
import {
  parseSpki,
  SIGNATURE_ALGORITHMS,
  type SignatureAlgorithm,
  subjectKeyIdentifier,
} from '../../src/shared/pki/algorithms.ts'
import { contextConstructedTag, TAG } from '../../src/shared/pki/der.ts'
import { type DerWriter, encodeDer } from '../../src/shared/pki/der-writer.ts'
import {
  writeAuthorityKeyIdentifier,
  writeExtendedKeyUsage,
  writeExtension,
  writeKeyUsage,
  writeLeafBasicConstraints,
  writeSubjectAltName,
  writeSubjectKeyIdentifier,
} from '../../src/shared/pki/extensions.ts'
import { EMPTY_NAME } from '../../src/shared/pki/name.ts'
import { writeTime } from '../../src/shared/pki/time.ts'
import { type Authority, leafInput } from './authority.ts'

export type WritePart = (writer: DerWriter) => void

/** Extensions of a good leaf by name; a change replaces or adds one, `undefined` leaves it out. */
export interface RawTbsChanges {
  version?: number
  /** Content octets of the INTEGER. */
  serialContent?: Buffer
  signatureAlgorithm?: SignatureAlgorithm
  issuer?: Buffer
  subject?: Buffer
  spki?: Buffer
  notBefore?: Date
  notAfter?: Date
  extensions?: Record<string, WritePart | undefined>
}

export function rawTbs(authority: Authority, changes: RawTbsChanges = {}): Buffer {
  const good = leafInput(authority)
  const spki = changes.spki ?? good.spki
  const extensions: Record<string, WritePart | undefined> = {
    keyUsage: (writer) => writeKeyUsage(writer, ['digital_signature']),
    extendedKeyUsage: (writer) => writeExtendedKeyUsage(writer, ['server_auth']),
    basicConstraints: writeLeafBasicConstraints,
    subjectKeyIdentifier: (writer) => writeSubjectKeyIdentifier(writer, subjectKeyIdentifier(parseSpki(spki).keyBits)),
    authorityKeyIdentifier: (writer) => writeAuthorityKeyIdentifier(writer, authority.keyIdentifier),
    subjectAltName: (writer) => writeSubjectAltName(writer, { dnsNames: ['www.example.org'], ipAddresses: [] }, true),
    ...changes.extensions,
  }
  return encodeDer((writer) =>
    writer.sequence(() => {
      writer.constructed(contextConstructedTag(0), () => writer.smallInteger((changes.version ?? 3) - 1))
      writer.primitive(TAG.integer, changes.serialContent ?? Buffer.concat([Buffer.of(0x41), randomBytes(15)]))
      writer.raw(SIGNATURE_ALGORITHMS[changes.signatureAlgorithm ?? authority.algorithm].identifierDer)
      writer.raw(changes.issuer ?? authority.nameDer)
      writer.sequence(() => {
        writeTime(writer, changes.notBefore ?? good.notBefore)
        writeTime(writer, changes.notAfter ?? good.notAfter)
      })
      writer.raw(changes.subject ?? EMPTY_NAME)
      writer.raw(spki)
      writer.constructed(contextConstructedTag(3), () =>
        writer.sequence(() => {
          for (const write of Object.values(extensions)) write?.(writer)
        }),
      )
    }),
  )
}

/** An extension whose value is given as it stands. */
export const rawExtension =
  (oid: string, critical: boolean, value: Buffer): WritePart =>
  (writer) =>
    writeExtension(writer, oid, critical, () => writer.raw(value))

/** A Name of one attribute per pair, each as UTF8String. */
export function rawName(...attributes: readonly (readonly [oid: string, value: string])[]): Buffer {
  return encodeDer((writer) =>
    writer.sequence(() => {
      for (const [oid, value] of attributes) {
        writer.constructed(TAG.set, () =>
          writer.sequence(() => {
            writer.oid(oid)
            writer.primitive(TAG.utf8String, Buffer.from(value, 'utf8'))
          }),
        )
      }
    }),
  )
}
