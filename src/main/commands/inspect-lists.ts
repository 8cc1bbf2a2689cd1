/**
 * `chancery inspect certificates | orders | accounts`: pages of what the database holds, by filters, as a table or JSON. The next
 * page is asked for with `--after`, by what the page before ends with.
 */

import type { Config } from '../../config/schema.ts'
import { ORDER_STATUSES } from '../../domain/order-state.ts'
import { ACCOUNT_STATUSES } from '../../domain/records.ts'
import { revocationReasonName } from '../../domain/revocation.ts'
import { isUuid, uuidTime } from '../../lib/uuid.ts'
import { renderTimestamp } from '../../protocol/timestamp.ts'
import { type AccountFilter, type ListedAccount, listAccounts } from '../../store/account-list.ts'
import {
  CERTIFICATE_STATUSES,
  type CertificateFilter,
  type ListedCertificate,
  listCertificates,
} from '../../store/certificate-list.ts'
import { type ListPage, type ReadPage, readToEnd } from '../../store/list-page.ts'
import { type ListedOrder, listOrders, type OrderFilter } from '../../store/order-list.ts'
import { type DatabasePool, openCheckedDatabase } from '../../store/slonik.ts'
import { databaseSettings } from '../settings/server.ts'
import { UsageError } from './errors.ts'
import { statusOf } from './inspect.ts'
import { hexOf, instantOf } from './option-values.ts'

/** As typed. */
export interface ListFlags {
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
  after?: string
  limit?: number
  'to-end'?: boolean
  json?: boolean
}

const MAX_LIMIT = 1000

/** A list: what it is called, how it is read, how a row is shown. */
interface List<T> {
  name: string
  read(db: DatabasePool, after: string | undefined, limit: number): Promise<ListPage<T>>
  /** For JSON. */
  report(row: T): object
  heading: readonly string[]
  cells(row: T): readonly string[]
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
  return print(config, flags, {
    name: 'certificates',
    read: (db, after, limit) => listCertificates(db, filter, after, limit),
    heading: ['id', 'serial number', 'expires', 'status', 'names'],
    cells: (row: ListedCertificate) => [
      ...[row.id, row.serial_number, renderTimestamp(row.not_after), statusOf(row), row.names.join(' ')],
    ],
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
  return print(config, flags, {
    name: 'orders',
    read: (db, after, limit) => listOrders(db, filter, after, limit),
    heading: ['id', 'created', 'status', 'certificate', 'identifiers'],
    cells: (row: ListedOrder) => [
      ...[row.id, renderTimestamp(uuidTime(row.id)), row.status, row.certificate_id ?? '-', namesOf(row).join(' ')],
    ],
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
  return print(config, flags, {
    name: 'accounts',
    read: (db, after, limit) => listAccounts(db, filter, after, limit),
    heading: ['id', 'created', 'status', 'contacts'],
    cells: (row: ListedAccount) => [
      ...[row.id, renderTimestamp(row.created_at), row.status, row.contacts.join(' ') || '-'],
    ],
    report: (row) => ({
      id: row.id,
      status: row.status,
      key_thumbprint: row.thumbprint,
      contacts: row.contacts,
      created_at: renderTimestamp(row.created_at),
    }),
  })
}

async function print<T>(config: Config, flags: ListFlags, list: List<T>): Promise<number> {
  const limit = flags.limit ?? 50
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT)
    throw new UsageError(`--limit takes a whole number from 1 to ${MAX_LIMIT}`)
  const after = flags.after === undefined ? undefined : uuidOf('--after', flags.after)
  const db = await openCheckedDatabase(databaseSettings(config, 1))
  try {
    const read = (from: string | undefined, rows: number) => list.read(db, from, rows)
    const { page, code } = flags['to-end']
      ? await search(read, after, limit)
      : { page: await read(after, limit), code: 0 }
    const { rows, next, isComplete, lookedThrough } = page
    if (flags.json) {
      const report = { [list.name]: rows.map(list.report), next: next ?? null, complete: isComplete }
      console.log(JSON.stringify(report, null, 2))
      return code
    }
    if (rows.length > 0) console.log(renderTable([list.heading, ...rows.map(list.cells)]))
    if (!isComplete)
      console.error(
        `found ${rows.length} among ${lookedThrough.toLocaleString('en')}; more may follow: --after ${next}, or all at once: --to-end`,
      )
    else if (next !== undefined) console.error(`there are more: --after ${next}`)
    else if (rows.length === 0) console.error(`no ${list.name}${after === undefined ? '' : ' after that'}`)
    return code
  } finally {
    await db.end()
  }
}

/** 128 and the number of SIGINT, as shells have it. */
const INTERRUPTED = 130

/** As far as the list goes, or until Ctrl-C; how far it has come stands in one line of a terminal. */
async function search<T>(
  read: ReadPage<T>,
  after: string | undefined,
  limit: number,
): Promise<{ page: ListPage<T>; code: number }> {
  let isStopped = false
  process.once('SIGINT', () => {
    isStopped = true
  })
  const show = (line: string) => process.stderr.isTTY && process.stderr.write(`\r\x1b[K${line}`)
  const page = await readToEnd(read, after, limit, ({ rows, lookedThrough }) => {
    show(`found ${rows.length} among ${lookedThrough.toLocaleString('en')}`)
    return !isStopped
  })
  show('')
  return { page, code: isStopped && !page.isComplete ? INTERRUPTED : 0 }
}

/** The last column is not padded, so that long lists of names end where they end. */
function renderTable(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)))
  return rows
    .map((row) => row.map((cell, i) => (i === row.length - 1 ? cell : cell.padEnd(widths[i] as number))).join('  '))
    .join('\n')
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

function uuidOf(flag: string, text: string): string {
  const id = text.toLowerCase()
  if (!isUuid(id)) throw new UsageError(`${flag} takes a UUID`)
  return id
}

function oneOf<T extends string>(flag: string, known: readonly T[], text: string): T {
  const found = known.find((word) => word === text)
  if (found === undefined) throw new UsageError(`${flag} is one of ${known.join(', ')}`)
  return found
}

/** As the database keeps it: without leading zero octets. */
function withoutZeros(octets: Buffer): string {
  const first = octets.findIndex((octet) => octet !== 0)
  return octets.subarray(Math.max(0, first)).toString('hex')
}
