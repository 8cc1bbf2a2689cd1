/** The time line of a name: orders with their validations, refusals, certificates and revocations, the newest first. */

import type { DatabasePool } from 'slonik'
import { explainFailure } from '../../domain/failure-advice.ts'
import { uuidTime } from '../../shared/lib/uuid.ts'
import { spellingsOf } from '../../shared/protocol/identifier.ts'
import type { AccountFailure as NamedFailure } from '../../store/event-statistics-store.ts'
import { type ListedOrder, listOrders } from '../certificates/order-list.ts'
import { withName } from '../resources/certificates.ts'
import {
  certificatesOfNames,
  evidenceOf,
  failuresOfNames,
  type HistoryPart,
  type NamedCertificate,
  ordersOfNames,
  type Validation,
  validationsOf,
} from './name-history-store.ts'

export type HistoryEntry = { at: Date; account_id: string | null } & (
  | { kind: 'order'; order: ListedOrder; validations: readonly Validation[] }
  | { kind: 'failure'; failure: NamedFailure }
  | { kind: 'certificate' | 'revocation'; certificate: NamedCertificate }
)

/** The authorization of a wildcard is for the name without it, and so are its failures. @param names the name itself first */
export const namesOfFailures = ([name = '', ...covering]: readonly string[]): string[] => [
  ...new Set([name, ...covering, name.replace(/^\*\./, '')].flatMap(spellingsOf)),
]

/** @param names the name itself first */
export async function readHistory(db: DatabasePool, { names, ...part }: HistoryPart) {
  const one = { ...part, limit: part.limit + 1 }
  const ofFailures = namesOfFailures(names)
  const [issued, revoked, failures, known] = await Promise.all([
    certificatesOfNames(db, { ...one, names }, 'issued_at'),
    certificatesOfNames(db, { ...one, names }, 'revoked_at'),
    failuresOfNames(db, { ...one, names: ofFailures }),
    failuresOfNames(db, { ...one, names: ofFailures, before: undefined }),
  ])
  const { orders, areAllRead } = await readOrders(db, { ...one, names }, known)
  const ids = orders.map(({ id }) => id)
  const validations = await validationsOf(db, ids, names)
  // The later ones first, where they have one instant.
  const entries: HistoryEntry[] = [
    ...revoked.map((certificate) => certificateEntry('revocation', certificate)),
    ...issued.map((certificate) => certificateEntry('certificate', certificate)),
    ...failures.map((failure): HistoryEntry => {
      return { kind: 'failure', at: failure.occurred_at, account_id: failure.account_id, failure }
    }),
    ...orders.map((order): HistoryEntry => {
      const ofOrder = validations.filter(({ order_id }) => order_id === order.id)
      return { kind: 'order', at: uuidTime(order.id), account_id: order.account_id, order, validations: ofOrder }
    }),
  ]
  entries.sort((a, b) => b.at.getTime() - a.at.getTime())
  return { ...cutAt(entries, part.limit), areAllOrdersRead: areAllRead }
}

const certificateEntry = (kind: 'certificate' | 'revocation', certificate: NamedCertificate): HistoryEntry => ({
  kind,
  at: certificate.at,
  account_id: certificate.account_id,
  certificate,
})

/** Entries of one instant stay together, as the next page begins before it. */
function cutAt(entries: readonly HistoryEntry[], limit: number) {
  const end = entries[limit - 1]?.at.getTime()
  if (entries.length <= limit || end === undefined) return { entries, next: undefined }
  const shown = entries.filter(({ at }) => at.getTime() >= end)
  return { entries: shown, next: shown.length < entries.length ? new Date(end) : undefined }
}

/** Reads orders that a certificate or failure leads to, and orders of the name among the newest, or all by orders_names. */
async function readOrders(db: DatabasePool, part: HistoryPart, failures: readonly NamedFailure[]) {
  const { names, before, scope, limit } = part
  const filter = { ...withName(names[0] ?? ''), created_before: before, scope }
  const [led, { rows, isComplete }] = await Promise.all([
    ordersOfNames(db, part, failures),
    listOrders(db, filter, undefined, limit),
  ])
  const orders = [...new Map([...led, ...rows].map((order) => [order.id, order])).values()]
  return { orders: orders.sort((a, b) => (a.id < b.id ? 1 : -1)).slice(0, limit), areAllRead: isComplete }
}

/** In words, with the command that repeats what the service asked. */
export async function explained(db: DatabasePool, { kind, data }: NamedFailure) {
  const id = 'authorization_id' in data ? data.authorization_id : undefined
  const evidence = id === undefined ? null : await evidenceOf(db, id)
  return explainFailure({ kind, data }, evidence ? foundIn(evidence) : {})
}

/** The port that was connected to, and the DNS record that was looked up. */
function foundIn(evidence: Readonly<Record<string, unknown>>) {
  const steps = Array.isArray(evidence['steps']) ? (evidence['steps'] as Readonly<Record<string, unknown>>[]) : []
  const port = steps.map((step) => step?.['port']).find((one) => typeof one === 'number')
  const record = steps.find((step) => step?.['step'] === 'looked-up')?.['name']
  return { port, record: typeof record === 'string' ? record : undefined }
}
