/** A line of the audit chain: what it says, and how it links to the line before. */

import { hash } from 'node:crypto'

/** What a line says, apart from its place in the chain. */
export interface AuditRecord {
  method: 'signCertificate' | 'signCrl' | 'testSign' | 'auditRepair'
  issuer: string
  /**
   * Serial number of a certificate or number of a CRL, lower-case hex; empty where
   * nothing with a number was signed.
   */
  serial: string
  /**
   * `dns:…` and `ip:…` of the certificate; of a CRL `entries:…`, and `url:…` when it
   * covers one distribution point only.
   */
  names: readonly string[]
  /** Hex SHA-256 of the bytes that were signed (for auditRepair: that were kept aside). */
  sha256: string
  requester: string
}

export interface AuditLine extends AuditRecord {
  seq: number
  time: string
  previous: string
}

/** Stands in the first line where later ones have a hash. */
export const NO_PREVIOUS = '0'.repeat(64)

export const sha256Hex = (data: Uint8Array | string): string => hash('sha256', data, 'hex')

/** The place of a line, for the one that comes after it. */
export interface ChainPlace {
  sequence: number
  /** Hash of that line. */
  previous: string
}

export const follows = (line: AuditLine, { sequence, previous }: ChainPlace): boolean =>
  line.seq === sequence + 1 && line.previous === previous

/** @returns undefined for anything but a JSON object with a place in a chain. */
export function parseAuditLine(text: string): AuditLine | undefined {
  try {
    const line = JSON.parse(text) as Partial<AuditLine> | null
    return typeof line?.seq === 'number' && typeof line.previous === 'string' ? (line as AuditLine) : undefined
  } catch {
    return undefined
  }
}
