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

/** Columns as `to_jsonb` has them, of all tables together; an event has those of one. */
interface Row {
  account_id: string | null
  action: string
  authorization_ids: string[]
  contacts: string[]
  created_at: string
  details: object
  entries: number
  error: EventData<'certificate.issuance_failed'>['error']
  id: string
  identifier_type: string
  identifier_value: string
  identifiers: EventData<'order.creation'>['identifiers']
  ip_address: string | null
  issuer_id: string
  names: string[]
  next_update: string
  not_after: string
  number: number
  order_id: string | null
  revocation_reason: number | null
  revoked_at: string | null
  serial_number: string
  shard: number
  target_user_id: string | null
  terms_agreed: boolean
  this_update: string
  thumbprint: string
  user_id: string | null
}

interface About {
  subject: string
  account: string | null
}

const timestamp = (at: string) => renderTimestamp(new Date(at))
const ofAccount = (_row: Row, { subject }: About) => ({ account_id: subject })
/** `bytea` begins with a backslash and an x. */
const namesOf = ({ serial_number, names }: Row) => ({ serial_number: serial_number.slice(2), domains: names })
const certificateOf = (row: Row, { subject, account }: About) => ({
  certificate_id: subject,
  account_id: account,
  ...namesOf(row),
})

/** Members that come from columns; other members of the payload are stored as they are. */
const FROM_ROW: { readonly [K in EventKind]?: (row: Row, about: About) => Partial<EventData<K>> } = {
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
  'ct.submission': (row, { subject }) => ({ certificate_id: subject, serial_number: namesOf(row).serial_number }),
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
  const { row, ...others } = data as { row?: Row }
  if (row === undefined) return others
  const rendered = FROM_ROW[kind as EventKind]?.(row, { subject, account: accountId ?? null })
  return { ...rendered, ...others }
}

function misfitOf(kind: string, data: object): string | undefined {
  if (!Object.hasOwn(EVENTS, kind)) return 'this release does not know the kind'
  const { error } = EVENTS[kind as EventKind].payload.safeParse(data)
  return error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ')
}
