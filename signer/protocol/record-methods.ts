/**
 * The methods by which a service compares its database with what the signer has recorded. A signer of an earlier release
 * answers `unknown method`, which means that it keeps no records.
 */

import { z } from 'zod/v4'
import { boundedArray } from '../../src/shared/lib/bounded.ts'

const IssuerId = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/)
const Requester = z.string().regex(/^[\x20-\x7e]{1,200}$/)
const Nothing = z.strictObject({})
/** A sequence number of the audit chain; 0 is before the first line. */
const Sequence = z.int().min(0)
const ChainId = z.string().regex(/^[0-9a-f]{32}$/)
const Part = z.int().min(0).max(0x7fffffff)
/** A list with more new entries than one line holds has further parts under the same number. */
const Position = z.strictObject({ seq: Sequence, part: Part })
/** The lowest number still kept and the newest one on disk; 0 when there is none. */
const Span = z.strictObject({ first: Sequence, last: Sequence })

/** Entries of one revocation line, and of one note. */
export const MOST_ENTRIES = 500
/** Certificates of one request. */
export const MOST_SEQUENCES = 64
/** Lists whose newest number is told. */
export const MOST_LISTS = 4096

/**
 * - `recordState` returns a JSON array of SignedList: the newest number signed for each list.
 * - `signedSerials` returns up to 64 KiB of binary records in the order of their numbers, all above `after`:
 *   u48 sequence, u32 Unix seconds, u8 length, serial number.
 * - `signedCertificates` returns up to 256 KiB of certificate lines; with `more`, ask again for those that lack.
 * - `signedRevocations` returns up to 256 KiB of revocation lines behind `after`.
 * - `noteRevocations` takes a JSON array of RevokedEntry: what a database has committed and no list has yet.
 */
export const RECORD_METHODS = {
  recordState: {
    code: 8,
    params: Nothing,
    result: z.strictObject({ chain: ChainId, certificates: Span, revocations: Span }),
  },
  signedSerials: {
    code: 9,
    params: z.strictObject({ after: Sequence }),
    result: z.strictObject({ last: Sequence, more: z.boolean() }),
  },
  signedCertificates: {
    code: 10,
    params: z.strictObject({ sequences: boundedArray(Sequence, MOST_SEQUENCES, 1) }),
    result: z.strictObject({ more: z.boolean() }),
  },
  signedRevocations: {
    code: 11,
    params: z.strictObject({ after: Position }),
    result: z.strictObject({ last: Position, more: z.boolean() }),
  },
  noteRevocations: {
    code: 12,
    params: z.strictObject({ issuer: IssuerId, requester: Requester }),
    result: Nothing,
  },
} as const

const Hex = z.string().regex(/^(?:[0-9a-f]{2}){1,21}$/)
/** SHA-256 of an issuer's name and key identifier. */
const IssuerKey = z.string().regex(/^[0-9a-f]{64}$/)
const CrlNumber = z.string().regex(/^(?:0|[1-9a-f][0-9a-f]{0,39})$/)
const Url = z.string().max(2048)

/** `url` is the distribution point of a part, and empty for a complete list. `number` is hexadecimal. */
export const SignedList = z.strictObject({ key: IssuerKey, url: Url, number: CrlNumber })
export const SignedLists = z.array(SignedList).max(MOST_LISTS)

/** Serial number, Unix seconds, CRLReason. */
export const RevokedEntry = z.tuple([Hex, z.int().min(0), z.int().min(0).max(10)])
export const RevokedEntries = boundedArray(RevokedEntry, MOST_ENTRIES, 1)

export const CertificateLine = z.strictObject({
  seq: Sequence,
  time: z.string().max(30),
  issuer: IssuerId,
  serial: Hex,
  requester: Requester,
  certificate: z.base64(),
})

export const RevocationLine = z.strictObject({
  seq: Sequence,
  part: Part,
  time: z.string().max(30),
  issuer: IssuerId,
  key: IssuerKey,
  /** Absent for what was noted without a list. */
  list: z.strictObject({ number: CrlNumber, url: Url }).optional(),
  entries: boundedArray(RevokedEntry, MOST_ENTRIES),
})
