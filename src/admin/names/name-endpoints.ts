/** `/names/{name}`: why a name has its certificate, or has none. */

import type { DatabasePool } from 'slonik'
import * as z from 'zod/v4'
import { explainFailure } from '../../domain/failure-advice.ts'
import { scopeOf } from '../../domain/permissions.ts'
import type { WindowPolicy } from '../../domain/renewal-window.ts'
import { revocationReasonName } from '../../domain/revocation.ts'
import { coveringNames } from '../../domain/search-text.ts'
import { parseCertId } from '../../shared/protocol/renewal-info.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { accountNameMember, withAccountName, withAccountNames } from '../certificates/account-list.ts'
import { windowsOf } from '../certificates/renewal-window-store.ts'
import { limitOf, limitParameter } from '../pages.ts'
import { certificateName, instantParameter, time, timestamp } from '../schemas.ts'
import {
  certificatesOfNames,
  explained,
  failuresOfNames,
  type HistoryEntry,
  type HistoryPart,
  type NamedCertificate,
  namesOfFailures,
  readHistory,
  type Validation,
} from './name-history.ts'

const Facts = z.record(z.string(), z.unknown())

const NameEntry = z
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

function entryBody(entry: HistoryEntry & { account_name: string | null }): EntryBody {
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

const State = z
  .strictObject({
    certificate: z
      .strictObject({
        serial_number: z.string(),
        names: z.array(z.string()),
        not_after: timestamp(),
        window_start: timestamp(),
        window_end: timestamp(),
      })
      .nullable()
      .meta({
        description: 'The one that ends last, with its renewal window (RFC 9773); null where none is valid now.',
      }),
    account_id: z.uuid().nullable().meta({ description: 'Of that certificate, else of the last failure.' }),
    account_name: accountNameMember(),
    last_failure: z
      .strictObject({
        at: timestamp(),
        title: z.string(),
        detail: z.string(),
        advice: z.string(),
        command: z.string().nullable().meta({ description: 'Repeats what the service asked.' }),
        resolved: z.boolean().meta({ description: 'A certificate was issued after it.' }),
      })
      .nullable(),
  })
  .meta({ description: 'How it is now.' })

const NameHistory = z
  .strictObject({
    name: z.string(),
    covered_by: z.array(z.string()).meta({ description: 'The name, and the wildcard that covers it.' }),
    state: State,
    entries: z.array(NameEntry).meta({ description: 'The newest first.' }),
    next: timestamp().nullable().meta({ description: '`before` of the next page.' }),
    not_known: z.array(z.string()).meta({ description: 'What may be missing, and why.' }),
  })
  .meta({ id: 'NameHistory' })

/** More could be revoked ahead of a valid one that ends sooner. */
const LATEST_READ = 50

export const NAMES = endpointGroup('Names', {
  getNameHistory: endpoint({
    route: 'GET /names/{name}',
    permission: 'read_accounts',
    scope: 'accounts',
    params: z.strictObject({ name: certificateName() }),
    query: z.strictObject({ before: instantParameter().optional(), limit: limitParameter() }),
    reply: { status: 200, schema: NameHistory },
    async handle({ params, query, author }, { db, pages, policy }) {
      const names = coveringNames(params.name)
      const part = { names, before: query.before, scope: scopeOf(author), limit: limitOf(query.limit, pages) }
      const { entries, next, areAllOrdersRead } = await readHistory(db, part)
      const named = await withAccountNames(db, entries)
      return {
        body: {
          name: names[0] as string,
          covered_by: names,
          state: await stateOf(db, { ...part, before: undefined }, policy.renewal),
          entries: named.map(entryBody),
          next: next ? time(next) : null,
          not_known: [
            'Of each account, the last 50 failures are kept, for 30 days. A request is not kept that was refused before its account or its names were known: over the limit of an address, during maintenance or overload, or not readable.',
            ...(part.scope === undefined ? [] : [OTHERS_MISSING]),
            ...(areAllOrdersRead ? [] : [ORDERS_MISSING]),
          ],
        },
      }
    },
  }),
})

const OTHERS_MISSING = 'Only accounts with one of your tags were searched.'
const ORDERS_MISSING =
  'Older orders without a certificate or a kept failure were not searched. "chancery db search-indexes" makes the index for it.'

async function stateOf(db: DatabasePool, part: HistoryPart, policy: WindowPolicy): Promise<z.input<typeof State>> {
  const now = new Date()
  const [latest, [newest], [failure]] = await Promise.all([
    certificatesOfNames(db, { ...part, limit: LATEST_READ }, 'not_after'),
    certificatesOfNames(db, { ...part, limit: 1 }, 'issued_at'),
    failuresOfNames(db, { ...part, names: namesOfFailures(part.names), limit: 1 }),
  ])
  const valid = latest.find(({ revoked_at, not_after }) => revoked_at === null && not_after > now)
  const words = failure && (await explained(db, failure))
  const window = valid && (await windowsOf(db, [valid], policy, now)).get(valid.id)
  const owner = await withAccountName(db, { account_id: valid?.account_id ?? failure?.account_id ?? null })
  return {
    certificate:
      valid && window
        ? {
            serial_number: valid.serial_number,
            names: valid.names,
            not_after: time(valid.not_after),
            window_start: time(window.start),
            window_end: time(window.end),
          }
        : null,
    ...owner,
    last_failure:
      failure && words
        ? {
            at: time(failure.occurred_at),
            title: words.title,
            detail: words.detail,
            advice: words.advice,
            command: words.command ?? null,
            resolved: newest !== undefined && newest.issued_at > failure.occurred_at,
          }
        : null,
  }
}
