/**
 * Writes a TBSCertList (RFC 5280 §5.1) in pieces: memory for one piece suffices for any length.
 *
 * DER puts lengths in front. So entries are encoded first and stored elsewhere; their total length
 * determines the octets before and behind them.
 */

import { SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from './algorithms.ts'
import { MAX_SERIAL_OCTETS } from './certificate.ts'
import { contextConstructedTag, TAG } from './der.ts'
import { DerWriter, encodeDer, encodeHeader } from './der-writer.ts'
import { writeAuthorityKeyIdentifier, writeDistributionPointName, writeExtension } from './extensions.ts'
import { CRL_EXTENSION } from './oids.ts'
import { writeTime } from './time.ts'

/**
 * CRLReason of a complete list (RFC 5280 §5.3.1): `unspecified` is left out, `removeFromCRL` is for delta CRLs, and 7 is
 * not used.
 */
export const WRITTEN_REASONS: ReadonlySet<number> = new Set([1, 2, 3, 4, 5, 6, 9, 10])

export interface CrlEntry {
  /** Big-endian magnitude, positive. */
  serialNumber: Buffer
  revokedAt: Date
  /** CRLReason; for 0 (unspecified) the extension is left out, as §5.3.1 wants. */
  reason: number
}

export interface TbsCertListInput {
  /** The algorithm that the issuer will sign with. */
  signatureAlgorithm: SignatureAlgorithm
  /** The issuer's subject, copied byte for byte. */
  issuerNameDer: Buffer
  /** The issuer's subjectKeyIdentifier. */
  authorityKeyIdentifier: Buffer
  thisUpdate: Date
  nextUpdate: Date
  number: bigint
  /** CRLDP of the certificates that a partial list covers; absent for a complete list. */
  distributionPointUrl?: string | undefined
}

/** The octets around content that is stored elsewhere: `prefix`, content, `suffix`. */
export interface DerFrame {
  prefix: Buffer
  suffix: Buffer
  /** Octets in total, including the content. */
  length: number
}

/**
 * DER of consecutive entries; pieces can be joined in any order.
 * @throws RangeError for a serial number or a reason that no list can hold
 */
export function encodeCrlEntries(entries: Iterable<CrlEntry>): Buffer {
  const writer = new DerWriter()
  for (const entry of entries) writeEntry(writer, entry)
  return writer.finish()
}

function writeEntry(writer: DerWriter, { serialNumber, revokedAt, reason }: CrlEntry): void {
  if (serialNumber.length === 0 || serialNumber.length > MAX_SERIAL_OCTETS || !serialNumber.some((octet) => octet > 0))
    throw new RangeError(`a serial number is positive and has 1 to ${MAX_SERIAL_OCTETS} octets`)
  writer.sequence(() => {
    writer.unsignedInteger(serialNumber)
    writeTime(writer, revokedAt)
    if (reason !== 0) writer.raw(reasonExtensions(reason))
  })
}

/** crlEntryExtensions with only a reason, by reason. */
const REASON_EXTENSIONS: ReadonlyMap<number, Buffer> = new Map(
  [...WRITTEN_REASONS].map((reason) => [
    reason,
    encodeDer((writer) =>
      writer.sequence(() =>
        writeExtension(writer, CRL_EXTENSION.reasonCode, false, () =>
          writer.primitive(TAG.enumerated, Buffer.of(reason)),
        ),
      ),
    ),
  ]),
)

function reasonExtensions(reason: number): Buffer {
  const extensions = REASON_EXTENSIONS.get(reason)
  if (extensions) return extensions
  throw new RangeError(`reason ${reason} has no place in a complete CRL`)
}

/** The octets around entries of this total length. Version 2, because there are always extensions (§5.1.2.1). */
export function frameTbsCertList(input: TbsCertListInput, entriesLength: number): DerFrame {
  const head = encodeDer((writer) => {
    writer.smallInteger(1)
    writer.raw(SIGNATURE_ALGORITHMS[input.signatureAlgorithm].identifierDer)
    writer.raw(input.issuerNameDer)
    writeTime(writer, input.thisUpdate)
    writeTime(writer, input.nextUpdate)
  })
  // §5.1.2.6: without entries the member is absent.
  const entriesHeader = entriesLength === 0 ? Buffer.alloc(0) : encodeHeader(TAG.sequence, entriesLength)
  const suffix = encodeDer((writer) =>
    writer.constructed(contextConstructedTag(0), () => writer.sequence(() => writeExtensions(writer, input))),
  )
  const contentLength = head.length + entriesHeader.length + entriesLength + suffix.length
  const prefix = Buffer.concat([encodeHeader(TAG.sequence, contentLength), head, entriesHeader])
  return { prefix, suffix, length: prefix.length + entriesLength + suffix.length }
}

function writeExtensions(writer: DerWriter, input: TbsCertListInput): void {
  const { number, distributionPointUrl: url } = input
  writeAuthorityKeyIdentifier(writer, input.authorityKeyIdentifier)
  writeExtension(writer, CRL_EXTENSION.crlNumber, false, () => writer.unsignedInteger(magnitudeOf(number)))
  if (url === undefined) return
  // §5.2.5: critical, so that no verifier takes a part for the whole list.
  writeExtension(writer, CRL_EXTENSION.issuingDistributionPoint, true, () =>
    writer.sequence(() => writeDistributionPointName(writer, [url])),
  )
}

function magnitudeOf(number: bigint): Buffer {
  const hex = number.toString(16)
  return Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex')
}

/** The octets around a signed TBSCertList in the CertificateList; `signature` in its X.509 form. */
export function frameCertificateList(
  tbsLength: number,
  signatureAlgorithm: SignatureAlgorithm,
  signature: Buffer,
): DerFrame {
  const suffix = encodeDer((writer) => {
    writer.raw(SIGNATURE_ALGORITHMS[signatureAlgorithm].identifierDer)
    writer.bitStringOctets(signature)
  })
  const prefix = encodeHeader(TAG.sequence, tbsLength + suffix.length)
  return { prefix, suffix, length: prefix.length + tbsLength + suffix.length }
}

/**
 * CRL numbers (RFC 5280 §5.2.3) and the clock.
 *
 * A number is the seconds since 1970, or the last number plus one if that is higher. So more than one list a second
 * moves the numbers ahead of the clock, and so does a clock that was ahead. The signer refuses numbers too far above
 * both its clock and the newest that it signed: after the highest possible number there is no next one.
 *
 * A hundred years: more than any clock jumps, and the 2^63 of the database are as many steps away as three billion
 * signed lists.
 */
export const MAX_CRL_NUMBER_LEAD_SECONDS = 3_155_760_000
