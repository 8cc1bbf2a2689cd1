/** The task of the CRL thread: encodes one page of revoked certificates as DER CRL entries (RFC 5280 §5.1.2.6). */

import { lintCrlEntry } from '../src/shared/pki/crl-lint.ts'
import { type CrlEntry, encodeCrlEntries } from '../src/shared/pki/tbs-cert-list.ts'
import { parseCrlEntries } from '../src/shared/pki/tbs-cert-list-reader.ts'
import type { CrlEntriesJob } from './crl-pool.ts'

/** Reasons without meaning in a complete list (§5.3.1). Such a certificate is still revoked. */
const UNWRITTEN_REASONS: ReadonlySet<number> = new Set([7, 8])
const UNSPECIFIED = 0

/** @throws Error when a row cannot be encoded, or its entry fails the lint */
export default function encodeEntries({ rows, thisUpdateMs }: CrlEntriesJob): Uint8Array {
  const thisUpdate = new Date(thisUpdateMs)
  const der = encodeCrlEntries(rows.split(' ').map((row) => readRow(row, thisUpdate)))
  for (const entry of parseCrlEntries(der)) {
    const finding = lintCrlEntry(entry, thisUpdate)
    if (finding !== undefined) throw new Error(`entry ${entry.serialNumber.toString('hex')}: ${finding}`)
  }
  return der
}

function readRow(row: string, thisUpdate: Date): CrlEntry {
  const [serial = '', seconds = '', reason = ''] = row.split('.')
  // A revocation during the build gets the time of the list.
  const revokedAt = Math.min(Number(seconds) * 1000, thisUpdate.getTime())
  return {
    serialNumber: Buffer.from(serial, 'hex'),
    revokedAt: new Date(revokedAt),
    reason: UNWRITTEN_REASONS.has(Number(reason)) ? UNSPECIFIED : Number(reason),
  }
}
