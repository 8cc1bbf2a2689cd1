/** The time line of a name as replies show it. */

import * as z from 'zod/v4'
import { explainFailure } from '../../domain/failure-advice.ts'
import { revocationReasonName } from '../../domain/revocation.ts'
import { parseCertId } from '../../shared/protocol/renewal-info.ts'
import { accountNameMember } from '../account-names.ts'
import { time, timestamp } from '../schemas.ts'
import type { HistoryEntry } from './name-history.ts'
import type { NamedCertificate, Validation } from './name-history-store.ts'

const Facts = z.record(z.string(), z.unknown())

export const NameEntry = z
  .strictObject({
    kind: z.enum(['order', 'failure', 'certificate', 'revocation']),
    at: timestamp(),
    account_id: z.uuid().nullable(),
    account_name: accountNameMember(),
    title: z.string(),
    detail: z.string(),
    names: z.array(z.string()).meta({ description: 'Of the order or certificate, or those that were refused.' }),
    order_id: z.string().nullable(),
    authorization_id: z.string().nullable(),
    serial_number: z.string().nullable(),
    replaces: z.string().nullable().meta({ description: 'Serial number of the certificate it renews (RFC 9773 §5).' }),
    validations: z
      .array(
        z.strictObject({
          authorization_id: z.uuid(),
          wildcard: z.boolean(),
          status: z.string(),
          evidence: Facts.nullable().meta({
            description: 'Questions of the deciding attempt, the servers it asked, and its findings.',
          }),
        }),
      )
      .meta({ description: 'Of the name, for an order.' }),
  })
  .meta({ id: 'NameEntry' })
type EntryBody = z.input<typeof NameEntry>

export function entryBody(entry: HistoryEntry & { account_name: string | null }): EntryBody {
  const { kind, at, account_id, account_name } = entry
  const about = { kind, at: time(at), account_id, account_name, ...NOTHING }
  if (entry.kind === 'order') {
    const { id, status, identifiers, error } = entry.order
    const detail = typeof error?.['detail'] === 'string' ? error['detail'] : ''
    const names = identifiers.map(({ value }) => value)
    const validations = entry.validations.map(validationBody)
    return { ...about, title: `Order: ${status}`, detail, names, order_id: id, validations }
  }
  if (entry.kind === 'failure') {
    const { title, detail, names, orderId, authorizationId } = explainFailure(entry.failure)
    return { ...about, title, detail, names, order_id: orderId ?? null, authorization_id: authorizationId ?? null }
  }
  const { names, order_id, serial_number } = entry.certificate
  return { ...about, ...certificateWords(entry.kind, entry.certificate), names, order_id, serial_number }
}

const NOTHING = { order_id: null, authorization_id: null, serial_number: null, replaces: null, validations: [] }

function certificateWords(kind: 'certificate' | 'revocation', certificate: NamedCertificate) {
  const { not_after, revocation_reason, replaces } = certificate
  if (kind === 'revocation') return { title: 'Revoked', detail: revocationReasonName(revocation_reason ?? 0) }
  const replaced = replaces === null ? undefined : parseCertId(replaces)?.serialNumber.toString('hex')
  return {
    title: replaced === undefined ? 'Certificate issued' : 'Certificate renewed',
    detail: `Valid until ${time(not_after)}`,
    replaces: replaced ?? null,
  }
}

/** Without the token: a reply ends up in tickets. */
const validationBody = ({ id, wildcard, status, evidence }: Validation) => ({
  authorization_id: id,
  wildcard,
  status,
  evidence: evidence && { ...evidence },
})
