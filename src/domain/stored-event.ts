/**
 * From an event as the database keeps it to the one that a consumer gets.
 *
 * The writer of an event without a change gives its payload. A trigger writes the row that has changed, below `row`, and
 * so does a statement that reads what a writer does not know. Here the columns become members of the payload.
 */

import { renderTimestamp } from '../shared/protocol/timestamp.ts'
import { EVENTS, type EventData, type EventKind, type OccurredEvent } from './event.ts'
import { revocationReasonName } from './revocation.ts'

export interface StoredEvent {
  id: string
  kind: string
  subject: string
  accountId: string | undefined
  occurredAt: Date
  /** JSON of the database. */
  data: object
}

/** Columns of a certificate, as far as events show them. */
interface CertificateRow {
  /** `bytea` begins with a backslash and an x. */
  serial_number: string
  names: string[]
}

type NoColumns = Record<never, never>

/** The columns of the row that an event is about, as `to_jsonb` has them. */
interface Rows {
  'account.registration': { contacts: string[]; thumbprint: string; terms_agreed: boolean }
  'account.deactivation': NoColumns
  'account.revocation': NoColumns
  'account.key_change': { thumbprint: string }
  'order.creation': { identifiers: EventData<'order.creation'>['identifiers']; authorization_ids: string[] }
  'authorization.deactivation': { identifier_type: string; identifier_value: string }
  'certificate.issuance': CertificateRow & { order_id: string | null; not_after: string; revoked_at: string | null }
  'certificate.issuance_failed': Pick<EventData<'certificate.issuance_failed'>, 'identifiers' | 'error'>
  'certificate.revocation': CertificateRow & { revocation_reason: number | null }
  'certificate.revocation_failed': CertificateRow & { account_id: string | null }
  'certificate.delivery': CertificateRow
  'certificate.expiration': CertificateRow & { not_after: string }
  'ct.submission': Pick<CertificateRow, 'serial_number'>
  'crl.publication': {
    issuer_id: string
    shard: number
    number: number
    entries: number
    this_update: string
    next_update: string
  }
  'admin.action': {
    id: string
    user_id: string | null
    action: string
    target_user_id: string | null
    details: object
    ip_address: string | null
    created_at: string
  }
}

interface About {
  subject: string
  account: string | null
}

const timestamp = (at: string) => renderTimestamp(new Date(at))
const ofAccount = (_row: NoColumns, { subject }: About) => ({ account_id: subject })
const serialOf = ({ serial_number }: Pick<CertificateRow, 'serial_number'>) => serial_number.slice(2)
const namesOf = (row: CertificateRow) => ({ serial_number: serialOf(row), domains: row.names })
const certificateOf = (row: CertificateRow, { subject, account }: About) => ({
  certificate_id: subject,
  account_id: account,
  ...namesOf(row),
})

type FromRow<K extends keyof Rows> = (row: Rows[K], about: About) => Partial<EventData<K>>

/** Members that come from columns; other members of the payload are stored as they are. */
const FROM_ROW: { readonly [K in keyof Rows]: FromRow<K> } = {
  'account.registration': (row, { subject }) => ({
    account_id: subject,
    contacts: row.contacts,
    jwk_thumbprint: row.thumbprint,
    tos_agreed: row.terms_agreed,
  }),
  'account.deactivation': ofAccount,
  'account.revocation': ofAccount,
  'account.key_change': (row, { subject }) => ({ account_id: subject, new_thumbprint: row.thumbprint }),
  'order.creation': (row, { subject, account }) => ({
    order_id: subject,
    account_id: account ?? '',
    identifiers: row.identifiers,
    authz_ids: row.authorization_ids,
  }),
  'authorization.deactivation': (row, { subject, account }) => ({
    authorization_id: subject,
    account_id: account ?? '',
    identifier_type: row.identifier_type,
    identifier_value: row.identifier_value,
  }),
  'certificate.issuance': (row, about) => ({
    ...certificateOf(row, about),
    order_id: row.order_id,
    not_after: timestamp(row.not_after),
    ...(row.revoked_at !== null && { revoked_at: timestamp(row.revoked_at) }),
  }),
  'certificate.issuance_failed': (row, { subject, account }) => ({
    order_id: subject,
    account_id: account ?? '',
    identifiers: row.identifiers,
    error: row.error,
  }),
  'certificate.revocation': (row, about) => ({
    ...certificateOf(row, about),
    reason: revocationReasonName(row.revocation_reason ?? 0),
  }),
  'certificate.revocation_failed': (row) => ({ account_id: row.account_id, ...namesOf(row) }),
  'certificate.delivery': namesOf,
  'certificate.expiration': (row, about) => ({
    ...certificateOf(row, about),
    not_after: timestamp(row.not_after),
  }),
  'ct.submission': (row, { subject }) => ({ certificate_id: subject, serial_number: serialOf(row) }),
  'crl.publication': (row) => ({
    issuer: row.issuer_id,
    shard: row.shard,
    number: row.number,
    entries: row.entries,
    this_update: timestamp(row.this_update),
    next_update: timestamp(row.next_update),
  }),
  'admin.action': (row) => ({
    id: row.id,
    user_id: row.user_id,
    action: row.action,
    target_user_id: row.target_user_id,
    details: { ...row.details },
    ip_address: row.ip_address,
    created_at: timestamp(row.created_at),
  }),
}

/**
 * A payload that does not fit must not stop the delivery: it is kept as it is, and `misfit` says why. A newer release may
 * have written it.
 */
export function readEvent(stored: StoredEvent): OccurredEvent {
  const data = payloadOf(stored)
  const misfit = misfitOf(stored.kind, data)
  return { ...stored, data, ...(misfit !== undefined && { misfit }) } as OccurredEvent
}

type Facts = Pick<StoredEvent, 'kind' | 'subject' | 'accountId' | 'data'>

export function payloadOf({ kind, subject, accountId, data }: Facts): object {
  const { row, ...others } = data as { row?: never }
  if (row === undefined || !Object.hasOwn(FROM_ROW, kind)) return others
  const fromRow: (row: never, about: About) => object = FROM_ROW[kind as keyof Rows]
  return { ...fromRow(row, { subject, account: accountId ?? null }), ...others }
}

function misfitOf(kind: string, data: object): string | undefined {
  if (!Object.hasOwn(EVENTS, kind)) return 'this release does not know the kind'
  const { error } = EVENTS[kind as EventKind].payload.safeParse(data)
  return error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ')
}
