/** Entries of the audit log in words: the objects they name, and what has changed. Pure. */

import { actionText } from '../../domain/action-words.ts'
import type { OperationId } from '../api.ts'
import { href } from '../router.ts'

/** From `domain/audit-chain.ts`, by `src/dev/build-console.mjs`. */
declare const ACTIONS_OF_BUILD: readonly string[]

/** For a choice, in the order of their words. */
export const actionOptions = (): (readonly [value: string, text: string])[] =>
  ACTIONS_OF_BUILD.map((action) => [action, actionText(action)] as const).sort(([, a], [, b]) => (a < b ? -1 : 1))

type Details = Readonly<Record<string, unknown>>

/** Members that name an object with a page of its own, and the operation of that page. */
const PAGES: Readonly<Record<string, readonly [needs: OperationId, place: (id: string) => string]>> = {
  eab_id: ['getEabCredential', (id) => href(`/eab/${id}`)],
  account_id: ['getAccount', (id) => href(`/accounts/${id}`)],
  serial_number: ['getCertificate', (id) => href(`/certificates/${id}`)],
  job_id: ['getBulkRevocation', (id) => href(`/bulk-revocations/${id}`)],
  csr_profile_id: ['getCsrProfile', (id) => href(`/csr-profiles/${id}`)],
  spki_sha256: ['listCertificates', (id) => href('/certificates', { spki_sha256: id })],
  order_id: ['getOrder', (id) => href(`/orders/${id}`)],
}

export interface Fact {
  name: string
  text: string
  /** The object's page, and the operation that it needs. */
  page?: { needs: OperationId; to: string }
}

interface Change {
  before: unknown
  after: unknown
}

const isChange = (value: unknown): value is Change =>
  typeof value === 'object' && value !== null && 'before' in value && 'after' in value

const textOf = (value: unknown): string =>
  value === null || value === undefined
    ? 'none'
    : typeof value === 'string'
      ? value
      : Array.isArray(value)
        ? value.map(textOf).join(', ')
        : JSON.stringify(value)

/** `role: auditor → admin` for a change, with a link where the member names an object. */
export function factsOf(details: Details): Fact[] {
  return Object.entries(details)
    .filter(([name]) => name !== 'operator')
    .map(([name, value]) => {
      const text = isChange(value) ? `${textOf(value.before)} → ${textOf(value.after)}` : textOf(value)
      const [needs, place] = PAGES[name] ?? []
      const page = needs && place && typeof value === 'string' ? { needs, to: place(value) } : undefined
      return { name: name.replaceAll('_', ' '), text, ...(page && { page }) }
    })
}
