/** The methods of the signer: codes on the wire, and strict schemas of what they take and return. */

import * as z from 'zod/v4'
import { boundedArray } from '../../src/shared/lib/bounded.ts'

/** Size of one piece of a TBSCertList. Reading and hashing 64 KiB blocks the daemon for 2 to 3 ms. */
export const CRL_PIECE_BYTES = 64 * 1024

/** The text that `testSign` signs. Every X.509 structure starts with 0x30; this text starts with a letter. */
export const TEST_MESSAGE: Buffer = Buffer.from('chancery-signer test signature; not a certificate, not a CRL', 'ascii')

/** Certificates that one `signedCertificates` may ask for. */
export const MAX_CERTIFICATES = 64
/** Bytes of a page of `signedSerials`: about 2,400 certificates. */
export const SERIALS_PAGE_BYTES = 64 * 1024
/** Bytes of a page of record lines. One line of a certificate may have nearly as many. */
export const LINES_PAGE_BYTES = 256 * 1024
/** Entries of one `noteRevocations`, and of one line of revocations. */
export const MAX_NOTED = 500
/** Decisions of one `noteDecisions`, and their bytes in JSON. */
export const MAX_DECISIONS = 100
export const MAX_DECISION_BYTES = 64 * 1024

/** Each service announces its database so often. */
export const ANNOUNCE_MS = 10_000

// Names appear in log and audit lines: short, and without control characters.
const IssuerId = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/)
const Requester = z.string().regex(/^[\x20-\x7e]{1,200}$/)
/** The id of a database and where it runs, as the service reads both. */
const Announced = { database: z.uuid(), incarnation: Requester, requester: Requester }
const UploadId = z.string().regex(/^[0-9a-f]{32}$/)
const Nothing = z.strictObject({})
const Count = z.int().min(0)
/** Sequence numbers of the oldest and the newest record; both 0 when there is none. */
const Kept = z.strictObject({ first: Count, last: Count })
const Part = z.strictObject({ seq: Count, part: Count })
/** `first`: sequence number of the first damaged line; 0 when there is none. */
const Damage = z.strictObject({ lines: Count, first: Count })

/**
 * Every method with its code on the wire and the strict schemas of its meta parts. The payloads:
 *
 * - `signCertificate` takes the DER of a TBSCertificate and returns the signature value.
 * - `beginCrl` announces a TBSCertList, which can have hundreds of megabytes.
 * - `appendCrl` carries its next piece. The server replies after hashing, so other requests run
 *   between pieces. Repeating a piece changes nothing.
 * - `signCrl` returns the signature value; repeating it changes nothing.
 * - `testSign` returns a signature over TEST_MESSAGE.
 * - `recordState` returns the newest numbers of CRLs: JSON, a list of `{ key, url, number }`. `key` is the
 *   SHA-256 of the issuer's name and key identifier, in hex as the number; `url` is empty for a complete list.
 * - `signedSerials` returns, for each certificate in order: u48 sequence number, u32 Unix seconds, u8 length, and the
 *   octets of the serial number. Integers are big-endian.
 * - `signedCertificates` and `signedRevocations` return whole lines of the record files. What is kept no longer is
 *   left out. With `more`, ask again for what comes after the last line.
 * - `noteRevocations` takes JSON, a list of `[serial, Unix seconds, reason]`. It records what no CRL holds yet.
 * - `noteDecisions` takes JSON, a list of objects, and records them as they are.
 * - `signedDecisions` returns their lines, as `signedRevocations` does.
 * - `announceDatabase` returns which other databases are announced beside this one. `settled` is false while one may yet turn
 *   out to be. Without `remember` it only asks.
 * - `recordDamage` returns how many lines of the record files are damaged, as far as they were read. Each call reads on.
 * - `describe` returns the certificates of all issuers in a row. `chain` gives the length of each
 *   certificate; `alternates` gives the lengths for the further chains, which follow.
 */
export const METHODS = {
  describe: {
    code: 1,
    params: Nothing,
    result: z.strictObject({
      version: z.string(),
      issuers: z.array(
        z.strictObject({
          id: IssuerId,
          algorithm: z.string(),
          chain: z.array(Count).min(1),
          alternates: z.array(z.array(Count).min(1)).optional(),
        }),
      ),
    }),
  },
  health: {
    code: 2,
    params: Nothing,
    result: z.strictObject({
      signing: z.boolean(),
      uptimeSeconds: z.number().min(0),
      signatures: Count,
      refusals: Count,
      inFlight: Count,
      connections: Count,
      auditSequence: Count,
      auditSyncs: Count,
      lastError: z.strictObject({ at: z.string(), message: z.string() }).optional(),
      tokens: z
        .array(
          z.strictObject({
            issuer: IssuerId,
            status: z.enum(['ready', 'away', 'refused']),
            since: z.string(),
            reason: z.string().optional(),
          }),
        )
        .optional(),
    }),
  },
  signCertificate: {
    code: 3,
    params: z.strictObject({ issuer: IssuerId, requester: Requester }),
    result: Nothing,
  },
  testSign: {
    code: 4,
    params: z.strictObject({ issuer: IssuerId, requester: Requester }),
    result: z.strictObject({ durationMs: z.number().min(0) }),
  },
  beginCrl: {
    code: 5,
    params: z.strictObject({ issuer: IssuerId, requester: Requester, bytes: z.int().min(1) }),
    result: z.strictObject({ upload: UploadId }),
  },
  appendCrl: {
    code: 6,
    params: z.strictObject({ upload: UploadId, offset: Count }),
    result: z.strictObject({ received: Count }),
  },
  signCrl: {
    code: 7,
    params: z.strictObject({ upload: UploadId }),
    result: Nothing,
  },
  recordState: {
    code: 8,
    params: Nothing,
    result: z.strictObject({ chain: z.string().regex(/^[0-9a-f]{32}$/), certificates: Kept, revocations: Kept }),
  },
  signedSerials: {
    code: 9,
    params: z.strictObject({ after: Count }),
    result: z.strictObject({ last: Count, more: z.boolean() }),
  },
  signedCertificates: {
    code: 10,
    params: z.strictObject({ sequences: boundedArray(z.int().min(1), MAX_CERTIFICATES, 1) }),
    result: z.strictObject({ more: z.boolean() }),
  },
  signedRevocations: {
    code: 11,
    params: z.strictObject({ after: Part }),
    result: z.strictObject({ last: Part, more: z.boolean() }),
  },
  noteRevocations: {
    code: 12,
    params: z.strictObject({ issuer: IssuerId, requester: Requester }),
    result: Nothing,
  },
  noteDecisions: {
    code: 13,
    params: z.strictObject({ requester: Requester }),
    result: Nothing,
  },
  signedDecisions: {
    code: 14,
    params: z.strictObject({ after: Part }),
    /** `first`: sequence number of the oldest that is kept; 0 when there is none. */
    result: z.strictObject({ first: Count, last: Part, more: z.boolean() }),
  },
  announceDatabase: {
    code: 15,
    params: z.strictObject({ ...Announced, remember: z.boolean() }),
    result: z.strictObject({ others: boundedArray(z.strictObject(Announced), 16), settled: z.boolean() }),
  },
  recordDamage: {
    code: 16,
    params: Nothing,
    result: z.strictObject({ certificates: Damage, revocations: Damage, decisions: Damage }),
  },
} as const

export type MethodName = keyof typeof METHODS
export type MethodParams<M extends MethodName> = z.infer<(typeof METHODS)[M]['params']>
export type MethodResult<M extends MethodName> = z.infer<(typeof METHODS)[M]['result']>

const METHOD_BY_CODE: ReadonlyMap<number, MethodName> = new Map(
  Object.entries(METHODS).map(([name, { code }]) => [code, name as MethodName]),
)

export function methodOfCode(code: number): MethodName | undefined {
  return METHOD_BY_CODE.get(code)
}
