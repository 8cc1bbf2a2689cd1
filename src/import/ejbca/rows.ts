/**
 * Rows of EJBCA's table CertificateData as certificates to import. Values are texts, as an export has them: a time is in
 * milliseconds, and -1 where there is none.
 */

import { decodePem, isPem, PemError } from '../../shared/pki/pem.ts'
import type { ImportedCertificate, Unreadable } from '../model.ts'

/** The columns that are read, as EJBCA spells them. */
export const EJBCA_COLUMNS = ['fingerprint', 'base64Cert', 'status', 'revocationDate', 'revocationReason'] as const

export type EjbcaColumn = (typeof EJBCA_COLUMNS)[number]
export type EjbcaRow = { readonly [column in EjbcaColumn]: string }

const REVOKED = 40
/** An expired certificate; it was revoked when it has a reason. */
const ARCHIVED = 60
/** In use: active, and active with its owner told of its end. */
const ACTIVE = [20, 21]

const REMOVE_FROM_CRL = 8

export function readEjbcaRow(row: EjbcaRow): ImportedCertificate | Unreadable {
  const name = `certificate ${row.fingerprint}`
  const der = derOf(row.base64Cert)
  if (!der) return { name, unreadable: 'base64Cert is empty or not base64; is it in the table Base64CertData?' }
  const cut = EJBCA_COLUMNS.find((column) => row[column] === '')
  if (cut !== undefined) return { name, unreadable: `it has no ${cut}; was the file cut short here?` }
  const status = Number(row.status)
  const reason = Number(row.revocationReason)
  if (![REVOKED, ARCHIVED, ...ACTIVE].includes(status)) return { name, unreadable: `its status is ${row.status}` }
  // A certificate that was on hold and is again in use keeps the date, with the reason removeFromCRL.
  if (ACTIVE.includes(status) || reason === REMOVE_FROM_CRL || (status === ARCHIVED && !(reason >= 0))) return { der }
  // Revoked without a usable time is revoked all the same.
  const revokedAt = new Date(Number(row.revocationDate))
  return { der, revokedAt: revokedAt.getTime() > 0 ? revokedAt : new Date(), revocationReason: reason || 0 }
}

/** It is base64 of the DER in lines, at some releases with the PEM's frame. */
function derOf(base64: string): Buffer | undefined {
  if (isPem(Buffer.from(base64)))
    try {
      return decodePem(base64)[0]?.der
    } catch (error) {
      if (error instanceof PemError) return undefined
      throw error
    }
  const text = base64.replaceAll(/\s/g, '')
  return /^[A-Za-z0-9+/]+={0,2}$/.test(text) ? Buffer.from(text, 'base64') : undefined
}
