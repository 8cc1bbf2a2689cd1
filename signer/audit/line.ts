/** A line of the audit chain: its content, and its link to the line before. */

import { hash } from 'node:crypto'

/** The content of a line, without its place in the chain. */
export interface AuditRecord {
  method: 'signCertificate' | 'signCrl' | 'testSign' | 'auditRepair'
  issuer: string
  /**
   * Serial number of a certificate or number of a CRL, in lower-case hex. Empty for other methods.
   */
  serial: string
  /**
   * A certificate has `dns:…` and `ip:…`. A CRL has `entries:…`, and `url:…` when it covers only
   * one distribution point.
   */
  names: readonly string[]
  /** Hex SHA-256 of the signed bytes; for auditRepair, of the damaged bytes. */
  sha256: string
  requester: string
}

export interface AuditLine extends AuditRecord {
  seq: number
  time: string
  previous: string
}

/** Stands in the first line in place of a hash. */
export const NO_PREVIOUS = '0'.repeat(64)

export const sha256Hex = (data: Uint8Array | string): string => hash('sha256', data, 'hex')

/** The place of a line, which the next line links to. */
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
