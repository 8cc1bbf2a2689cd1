/**
 * The index of `openssl ca` and easy-rsa: a line a certificate.
 *
 * Status (V, R, E), end of validity, time and reason of revocation, serial number, file, subject; between them tabs.
 */

import { open } from 'node:fs/promises'
import { parseSerialNumber } from '../../domain/revocation.ts'
import type { Unreadable } from '../model.ts'

interface IndexEntry {
  /** The serial number in lower-case hexadecimal without leading zero octets. */
  serialNumber: string
  notAfter: Date
  revocation?: { revokedAt: Date; revocationReason: number } | undefined
}

export interface CaIndex {
  /** The revocation of a certificate. The end tells it from a certificate of another CA with the same serial number. */
  find(serialNumber: string, notAfter: Date): IndexEntry['revocation']
  /** Certificates that the index names and nobody has asked for, and lines that are not as they should be. */
  missing(): Unreadable[]
}

export async function readIndex(file: string): Promise<CaIndex> {
  const entries = new Map<string, IndexEntry>()
  const unreadable: Unreadable[] = []
  let number = 0
  for await (const line of (await open(file)).readLines()) {
    number++
    // An expired certificate was valid to its end, and its file may be gone.
    if (/^E\t|^\s*$/.test(line)) continue
    const entry = readIndexLine(line)
    // A line that says revoked counts, whatever a later line says.
    if (entry && !entries.get(entry.serialNumber)?.revocation) entries.set(entry.serialNumber, entry)
    else if (entry) continue
    else unreadable.push({ name: `${file}, line ${number}`, unreadable: 'no line of an index' })
  }
  const asked = new Set<string>()
  return {
    find(serialNumber, notAfter) {
      const entry = entries.get(serialNumber)
      if (entry?.notAfter.getTime() !== notAfter.getTime()) return undefined
      asked.add(serialNumber)
      return entry.revocation
    },
    missing: () => [
      ...unreadable,
      ...[...entries.values()]
        .filter(({ serialNumber, notAfter }) => !asked.has(serialNumber) && notAfter.getTime() > Date.now())
        .map(({ serialNumber }) => ({
          name: `certificate ${serialNumber}`,
          unreadable: `${file} names it, and no file below its folder has it`,
        })),
    ],
  }
}

/** The reasons in the spelling of `openssl ca -crl_reason`, in lower case. */
const REASONS: ReadonlyMap<string, number> = new Map([
  ['unspecified', 0],
  ['keycompromise', 1],
  // The time of the compromise stands behind it.
  ['keytime', 1],
  ['cacompromise', 2],
  ['cakeytime', 2],
  ['affiliationchanged', 3],
  ['superseded', 4],
  ['cessationofoperation', 5],
  ['certificatehold', 6],
  // An instruction stands behind it.
  ['holdinstruction', 6],
  ['removefromcrl', 8],
])

const LINE = /^([VR])\t(\d{12}|\d{14})Z\t([^\t]*)\t([0-9A-Fa-f]+)\t/

/** Reads a line; undefined where it is no line of an index. */
export function readIndexLine(line: string): IndexEntry | undefined {
  const [, status, end = '', revoked = '', serial = ''] = LINE.exec(line) ?? []
  const serialNumber = parseSerialNumber(serial)
  const notAfter = instantOf(end)
  if (serialNumber === undefined || !notAfter) return undefined
  if (status !== 'R') return { serialNumber, notAfter }
  const [time = '', reason = 'unspecified'] = revoked.split(',')
  // A revocation counts without a usable time or reason, too.
  const revokedAt = instantOf(time.replace(/Z$/, '')) ?? new Date()
  return { serialNumber, notAfter, revocation: { revokedAt, revocationReason: REASONS.get(reason.toLowerCase()) ?? 0 } }
}

/** Digits of UTCTime or GeneralizedTime (RFC 5280 §4.1.2.5: two digits from 50 on are of the last century). */
function instantOf(digits: string): Date | undefined {
  const full = digits.length === 12 ? `${Number(digits.slice(0, 2)) < 50 ? 20 : 19}${digits}` : digits
  const [, date, hour, minute, second] = /^(\d{8})(\d\d)(\d\d)(\d\d)$/.exec(full) ?? []
  if (date === undefined) return undefined
  const at = new Date(`${date.slice(0, 4)}-${date.slice(4, 6)}-${date.slice(6)}T${hour}:${minute}:${second}Z`)
  return Number.isNaN(at.getTime()) ? undefined : at
}
