/**
 * `chancery inspect certificates | orders | accounts`: filtered pages of the database, as a table
 * or JSON. `--after` continues behind the last row of a page.
 */

import { revocationReasonName } from '../../domain/revocation.ts'
import type { AccountStatus, OrderStatus } from '../../domain/states.ts'
import { uuidTime } from '../../shared/lib/uuid.ts'
import { renderTimestamp } from '../../shared/protocol/timestamp.ts'
import { type AccountFilter, type ListedAccount, listAccounts } from '../../store/account-list.ts'
import type { CertificateFilter, CertificateStatus } from '../../store/certificate-filter.ts'
import { type ListedCertificate, listCertificates } from '../../store/certificate-list.ts'
import { type ListedOrder, listOrders, type OrderFilter } from '../../store/order-list.ts'
import { tableOf } from '../table.ts'
import { statusOf } from './inspect.ts'
import { type PageOptions, printPage } from './list-output.ts'

interface CertificateOptions extends PageOptions {
  account: string | undefined
  name: string | undefined
  serial: Buffer | undefined
  status: CertificateStatus | undefined
  issuer: Buffer | undefined
  'expires-after': Date | undefined
  'expires-before': Date | undefined
  'issued-after': Date | undefined
  'issued-before': Date | undefined
}

interface OrderOptions extends PageOptions {
  account: string | undefined
  name: string | undefined
  status: OrderStatus | undefined
  'created-after': Date | undefined
  'created-before': Date | undefined
}

interface AccountOptions extends PageOptions {
  status: AccountStatus | undefined
  contact: string | undefined
  eab: string | undefined
}

export function inspectCertificates(options: CertificateOptions): Promise<number> {
  const filter: CertificateFilter = given({
    accountId: options.account,
    name: options.name?.toLowerCase(),
    serialNumber: options.serial && withoutZeros(options.serial),
    status: options.status,
    issuer: options.issuer?.toString('hex'),
    expiresAfter: options['expires-after'],
    expiresBefore: options['expires-before'],
    issuedAfter: options['issued-after'],
    issuedBefore: options['issued-before'],
  })
  return printPage(options, {
    name: 'certificates',
    read: (db, after, limit) => listCertificates(db, filter, after, limit),
    render: tableOf(['id', 'serial number', 'expires', 'status', 'names'], (row: ListedCertificate) => [
      row.id,
      row.serial_number,
      renderTimestamp(row.not_after),
      statusOf(row),
      row.names.join(' '),
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

export function inspectOrders(options: OrderOptions): Promise<number> {
  const filter: OrderFilter = given({
    accountId: options.account,
    name: options.name?.toLowerCase(),
    status: options.status,
    createdAfter: options['created-after'],
    createdBefore: options['created-before'],
  })
  const namesOf = ({ identifiers }: ListedOrder) => identifiers.map(({ value }) => value)
  return printPage(options, {
    name: 'orders',
    read: (db, after, limit) => listOrders(db, filter, after, limit),
    render: tableOf(['id', 'created', 'status', 'certificate', 'identifiers'], (row: ListedOrder) => [
      row.id,
      renderTimestamp(uuidTime(row.id)),
      row.status,
      row.certificate_id ?? '-',
      namesOf(row).join(' '),
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

export function inspectAccounts(options: AccountOptions): Promise<number> {
  const { contact, status, eab } = options
  const filter: AccountFilter = given({
    status,
    eabKid: eab,
    contact: contact === undefined || contact.includes(':') ? contact : `mailto:${contact}`,
  })
  return printPage(options, {
    name: 'accounts',
    read: (db, after, limit) => listAccounts(db, filter, after, limit),
    render: tableOf(['id', 'created', 'status', 'contacts'], (row: ListedAccount) => [
      row.id,
      renderTimestamp(row.created_at),
      row.status,
      row.contacts.join(' ') || '-',
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

type Given<T> = { [K in keyof T]?: Exclude<T[K], undefined> }

/** Without the members that no option was given for. */
function given<T extends object>(members: T): Given<T> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Given<T>
}

/** The form in the database: without leading zero octets. */
function withoutZeros(octets: Buffer): string {
  const first = octets.findIndex((octet) => octet !== 0)
  return octets.subarray(Math.max(0, first)).toString('hex')
}
