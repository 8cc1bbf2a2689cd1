/**
 * `chancery inspect certificates | orders | accounts`: filtered pages of the database, as a table
 * or JSON. `--after` continues behind the last row of a page.
 */

import type { Config } from '../../config/schema.ts'
import { ACCOUNT_STATUSES } from '../../domain/account-state.ts'
import { ORDER_STATUSES } from '../../domain/order-state.ts'
import { revocationReasonName } from '../../domain/revocation.ts'
import { uuidTime } from '../../shared/lib/uuid.ts'
import { renderTimestamp } from '../../shared/protocol/timestamp.ts'
import { type AccountFilter, type ListedAccount, listAccounts } from '../../store/account-list.ts'
import {
  CERTIFICATE_STATUSES,
  type CertificateFilter,
  type ListedCertificate,
  listCertificates,
} from '../../store/certificate-list.ts'
import { type ListedOrder, listOrders, type OrderFilter } from '../../store/order-list.ts'
import { UsageError } from './errors.ts'
import { statusOf } from './inspect.ts'
import { type PageFlags, printPage, tableOf } from './list-output.ts'
import { hexOf, instantOf, uuidOf } from './option-values.ts'

/** Flags as typed. */
export interface ListFlags extends PageFlags {
  account?: string
  name?: string
  serial?: string
  status?: string
  issuer?: string
  contact?: string
  eab?: string
  'expires-after'?: string
  'expires-before'?: string
  'issued-after'?: string
  'issued-before'?: string
  'created-after'?: string
  'created-before'?: string
}

export function inspectCertificates(config: Config, flags: ListFlags): Promise<number> {
  const filter: CertificateFilter = {
    ...(flags.account !== undefined && { accountId: uuidOf('--account', flags.account) }),
    ...(flags.name !== undefined && { name: flags.name.toLowerCase() }),
    ...(flags.serial !== undefined && { serialNumber: withoutZeros(hexOf('--serial', flags.serial)) }),
    ...(flags.status !== undefined && { status: oneOf('--status', CERTIFICATE_STATUSES, flags.status) }),
    ...(flags.issuer !== undefined && { issuer: hexOf('--issuer', flags.issuer).toString('hex') }),
    ...instants(flags, { 'expires-after': 'expiresAfter', 'expires-before': 'expiresBefore' }),
    ...instants(flags, { 'issued-after': 'issuedAfter', 'issued-before': 'issuedBefore' }),
  }
  return printPage(config, flags, {
    name: 'certificates',
    read: (db, after, limit) => listCertificates(db, filter, after, limit),
    render: tableOf(['id', 'serial number', 'expires', 'status', 'names'], (row: ListedCertificate) => [
      ...[row.id, row.serial_number, renderTimestamp(row.not_after), statusOf(row), row.names.join(' ')],
    ]),
    report: (row) => ({
      id: row.id,
      account_id: row.account_id,
      order_id: row.order_id,
      serial_number: row.serial_number,
      issuer_fingerprint: row.issuer_fingerprint,
      san_values: row.names,
      not_before: renderTimestamp(row.not_before),
      not_after: renderTimestamp(row.not_after),
      status: statusOf(row),
      revoked_at: row.revoked_at && renderTimestamp(row.revoked_at),
      revocation_reason: row.revocation_reason === null ? null : revocationReasonName(row.revocation_reason),
      created_at: renderTimestamp(row.issued_at),
    }),
  })
}

export function inspectOrders(config: Config, flags: ListFlags): Promise<number> {
  const filter: OrderFilter = {
    ...(flags.account !== undefined && { accountId: uuidOf('--account', flags.account) }),
    ...(flags.name !== undefined && { name: flags.name.toLowerCase() }),
    ...(flags.status !== undefined && { status: oneOf('--status', ORDER_STATUSES, flags.status) }),
    ...instants(flags, { 'created-after': 'createdAfter', 'created-before': 'createdBefore' }),
  }
  const namesOf = ({ identifiers }: ListedOrder) => identifiers.map(({ value }) => value)
  return printPage(config, flags, {
    name: 'orders',
    read: (db, after, limit) => listOrders(db, filter, after, limit),
    render: tableOf(['id', 'created', 'status', 'certificate', 'identifiers'], (row: ListedOrder) => [
      ...[row.id, renderTimestamp(uuidTime(row.id)), row.status, row.certificate_id ?? '-', namesOf(row).join(' ')],
    ]),
    report: (row) => ({
      id: row.id,
      account_id: row.account_id,
      status: row.status,
      identifiers: row.identifiers,
      created_at: renderTimestamp(uuidTime(row.id)),
      expires_at: renderTimestamp(row.expires_at),
      certificate_id: row.certificate_id,
      error: row.error,
    }),
  })
}

export function inspectAccounts(config: Config, flags: ListFlags): Promise<number> {
  const filter: AccountFilter = {
    ...(flags.status !== undefined && { status: oneOf('--status', ACCOUNT_STATUSES, flags.status) }),
    ...(flags.contact !== undefined && {
      contact: flags.contact.includes(':') ? flags.contact : `mailto:${flags.contact}`,
    }),
    ...(flags.eab !== undefined && { eabKid: flags.eab }),
  }
  return printPage(config, flags, {
    name: 'accounts',
    read: (db, after, limit) => listAccounts(db, filter, after, limit),
    render: tableOf(['id', 'created', 'status', 'contacts'], (row: ListedAccount) => [
      ...[row.id, renderTimestamp(row.created_at), row.status, row.contacts.join(' ') || '-'],
    ]),
    report: (row) => ({
      id: row.id,
      status: row.status,
      key_thumbprint: row.thumbprint,
      contacts: row.contacts,
      created_at: renderTimestamp(row.created_at),
    }),
  })
}

function instants<K extends string>(
  flags: ListFlags,
  members: Partial<Record<keyof ListFlags, K>>,
): Partial<Record<K, Date>> {
  return Object.fromEntries(
    Object.entries(members).flatMap(([flag, member]) => {
      const text = flags[flag as keyof ListFlags]
      return text === undefined ? [] : [[member, instantOf(`--${flag}`, String(text))]]
    }),
  ) as Partial<Record<K, Date>>
}

function oneOf<T extends string>(flag: string, known: readonly T[], text: string): T {
  const found = known.find((word) => word === text)
  if (found === undefined) throw new UsageError(`${flag} is one of ${known.join(', ')}`)
  return found
}

/** The form in the database: without leading zero octets. */
function withoutZeros(octets: Buffer): string {
  const first = octets.findIndex((octet) => octet !== 0)
  return octets.subarray(Math.max(0, first)).toString('hex')
}
