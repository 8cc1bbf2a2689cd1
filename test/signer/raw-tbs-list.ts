/** TBSCertLists with any fault in them, for what a signer must refuse: everything that is not named is as it should be. */

import { SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from '../../src/shared/pki/algorithms.ts'
import { contextConstructedTag, TAG } from '../../src/shared/pki/der.ts'
import { encodeDer } from '../../src/shared/pki/der-writer.ts'
import { writeAuthorityKeyIdentifier, writeExtension } from '../../src/shared/pki/extensions.ts'
import { CRL_EXTENSION } from '../../src/shared/pki/oids.ts'
import { writeTime } from '../../src/shared/pki/time.ts'
import type { Authority } from './authority.ts'
import type { WritePart } from './raw-tbs.ts'

export interface RawListChanges {
  /** Undefined leaves the member out, which means 1. */
  version?: number | undefined
  algorithm?: SignatureAlgorithm
  issuer?: Buffer
  thisUpdate?: Date
  nextUpdate?: Date | undefined
  number?: bigint
  /** DER of entries; undefined leaves the member out. */
  entries?: Buffer | undefined
  /** Laid over authorityKeyIdentifier and crlNumber. */
  extensions?: Record<string, WritePart | undefined>
  /** Behind everything, inside the SEQUENCE. */
  tail?: Buffer
}

const HOUR_MS = 3_600_000

export function rawEntry(parts: { serial?: Buffer; revokedAt?: Date; extensions?: WritePart[] } = {}): Buffer {
  const { serial = Buffer.from('4123456789abcdef', 'hex'), revokedAt = now(-HOUR_MS), extensions = [] } = parts
  return encodeDer((writer) =>
    writer.sequence(() => {
      writer.primitive(TAG.integer, serial)
      writeTime(writer, revokedAt)
      if (extensions.length === 0) return
      writer.sequence(() => {
        for (const write of extensions) write(writer)
      })
    }),
  )
}

export const reasonCode =
  (reason: number, critical = false): WritePart =>
  (writer) =>
    writeExtension(writer, CRL_EXTENSION.reasonCode, critical, () =>
      writer.primitive(TAG.enumerated, Buffer.of(reason)),
    )

export function now(offsetMs = 0): Date {
  return new Date(Math.floor((Date.now() + offsetMs) / 1000) * 1000)
}

export function rawTbsList(authority: Authority, changes: RawListChanges = {}): Buffer {
  const whole = {
    version: 2,
    thisUpdate: now(),
    nextUpdate: now(24 * HOUR_MS),
    entries: rawEntry({ extensions: [reasonCode(4)] }),
    number: 7n,
    ...changes,
  }
  const { version, nextUpdate, entries } = whole
  const extensions: Record<string, WritePart | undefined> = {
    authorityKeyIdentifier: (writer) => writeAuthorityKeyIdentifier(writer, authority.keyIdentifier),
    crlNumber: (writer) =>
      writeExtension(writer, CRL_EXTENSION.crlNumber, false, () => {
        const hex = whole.number.toString(16)
        writer.unsignedInteger(Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex'))
      }),
    ...changes.extensions,
  }
  const written = Object.values(extensions).filter((write) => write !== undefined)
  return encodeDer((writer) =>
    writer.sequence(() => {
      if (version !== undefined) writer.smallInteger(version - 1)
      writer.raw(SIGNATURE_ALGORITHMS[changes.algorithm ?? authority.algorithm].identifierDer)
      writer.raw(changes.issuer ?? authority.nameDer)
      writeTime(writer, whole.thisUpdate)
      if (nextUpdate) writeTime(writer, nextUpdate)
      if (entries) writer.primitive(TAG.sequence, entries)
      if (written.length > 0) {
        writer.constructed(contextConstructedTag(0), () =>
          writer.sequence(() => {
            for (const write of written) write(writer)
          }),
        )
      }
      if (changes.tail) writer.raw(changes.tail)
    }),
  )
}
