/** SQL of orders. */

import { randomUUID } from 'node:crypto'
import type { Approval } from '../domain/allowlist.ts'
import { orderRequestKey } from '../domain/order-request.ts'
import type { Order } from '../domain/records.ts'
import {
  type AuthorizationStatus,
  ORDER_EXPIRED,
  type OrderStatus,
  orderStatus,
  type StoredOrderStatus,
} from '../domain/states.ts'
import type { Batched } from '../shared/lib/batcher.ts'
import { sharedRuns } from '../shared/lib/caching.ts'
import { CLOCKS_DIFFER_SECONDS } from '../shared/lib/clocks.ts'
import type { ChallengeType } from '../shared/protocol/challenge.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import type { ProblemDocument } from '../shared/protocol/problem.ts'
import { type Requester, STALE_ACCOUNT, type StaleAccount } from './account-store.ts'
import { ALL_ALIVE, type Approved, type ApproverRow, approvedBy, STATUS_NOW } from './authorization-row.ts'
import { resultsByOrd, unlessStale } from './batch-results.ts'
import { batched, type Database, type Statement } from './database.ts'
import { CREATE } from './order-create.ts'
import { account, order } from './status-sql.ts'

/** An authorization to be made unless the account has a valid one for the same identifier. */
export interface AuthorizationCandidate {
  id: string
  identifier: Identifier
  wildcard: boolean
  token: string
  offered: readonly ChallengeType[]
  expiresAt: Date
}

export interface NewOrder {
  id: string
  requester: Requester
  identifiers: readonly Identifier[]
  profile: string
  notBefore: Date | undefined
  notAfter: Date | undefined
  expiresAt: Date
  authorizations: readonly AuthorizationCandidate[]
  /** A valid authorization is reused only if it outlives this instant. */
  reuseUntil: Date
  /**
   * The certificate this order replaces (RFC 9773 §5), checked except for another replacement.
   * Limits of new orders do not count an exempt order.
   */
  replaces?: { certificateId: string; certId: string; isExempt?: boolean }
  /** May make its authorizations valid without a challenge. */
  approval?: Approval
}

/** `approved`: the authorizations made valid without a challenge. */
export type MadeOrder = Order & { approved?: Approved }

/** Another order that is not invalid replaces the same certificate (RFC 9773 §5). */
export const ALREADY_REPLACED = Symbol('already replaced')

export interface OrderStore {
  /**
   * Makes an order and its missing authorizations, in one statement with other requests. When the
   * account has an open order for an equal request, the result is that order with its id.
   */
  create: Batched<NewOrder, CreateResult>
  find: Batched<{ requester: Requester; orderId: string }, Order | StaleAccount | undefined>
  /**
   * Ids of an account's orders that are not invalid, newest last, after `after`. A page looks at
   * about `LIST_STEPS` rows.
   */
  list(requester: Requester, after: string | undefined, limit: number): Promise<OrderPage | StaleAccount>
}

/** A page may be short or empty and still have a next one. */
export interface OrderPage {
  ids: string[]
  /** The `after` of the next page; undefined at the end of the list. */
  next: string | undefined
}

const CAA_CHECKED = "coalesce(jsonb_path_query_first(attempts, '$.*.caaChecked') #>> '{}', '')"
/** The oldest of several checks says nothing where one has a time that has not come. */
const LATEST_CAA_CHECK = `to_char(now() + interval '${CLOCKS_DIFFER_SECONDS} s', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`

const FIND: Statement = {
  name: 'order-find',
  // accounts_pkey, orders_pkey, authorizations_pkey while the order is open,
  // account_csr_profiles_pkey. The time of the CAA checks costs a microsecond an authorization.
  text: `
    SELECT i.ord::integer, a.id IS NULL AS stale, o.id, o.account_id, o.status, o.identifiers, o.authorization_ids,
           o.profile, o.not_before, o.not_after, o.expires_at, o.error, o.certificate_id, o.replaces, o.is_exempt, z.statuses,
           z.caa_checked, p.csr_profile_id
      FROM unnest($1::uuid[], $2::uuid[], $3::integer[]) WITH ORDINALITY AS i (order_id, account_id, key_version, ord)
      LEFT JOIN accounts a ON a.id = i.account_id AND a.key_version = i.key_version AND a.status ${account.is('valid')}
      LEFT JOIN orders o ON o.id = i.order_id
      LEFT JOIN account_csr_profiles p ON p.account_id = a.id
      LEFT JOIN LATERAL (
        SELECT array_agg(${STATUS_NOW}) AS statuses,
               CASE WHEN max(${CAA_CHECKED}) FILTER (WHERE identifier_type = 'dns') <= ${LATEST_CAA_CHECK}
                    THEN min(${CAA_CHECKED}) FILTER (WHERE identifier_type = 'dns') END AS caa_checked
          FROM authorizations z WHERE o.status ${order.is('open')} AND id = ANY (o.authorization_ids)
      ) z ON true`,
}

/**
 * Bound of one page: each order counts once, an open one also for each of its authorizations. An
 * account may have any number of invalid orders, which no page shows.
 */
export const LIST_STEPS = 500

const LIST: Statement = {
  name: 'order-list',
  // accounts_pkey; orders_account, one look-up an order; authorizations_pkey for open orders. A
  // range could be planned as a scan of all orders of the account.
  text: `
    WITH RECURSIVE walk AS (
      SELECT a.id AS account_id, coalesce($3, '00000000-0000-0000-0000-000000000000'::uuid) AS id, false AS shown, 0 AS found, 0 AS steps
        FROM accounts a WHERE a.id = $1 AND a.key_version = $2 AND a.status ${account.is('valid')}
      UNION ALL
      SELECT o.account_id, o.id, s.shown, w.found + s.shown::integer, w.steps + 1 + CASE WHEN o.alive THEN o.parts ELSE 0 END
        FROM walk w
       CROSS JOIN LATERAL (
         SELECT account_id, id, status, status ${order.is('open')} AND expires_at > now() AS alive, authorization_ids,
                cardinality(authorization_ids) AS parts
           FROM orders WHERE (account_id, id) > (w.account_id, w.id) AND account_id <= w.account_id
          ORDER BY account_id, id LIMIT 1) o
       CROSS JOIN LATERAL (
         SELECT CASE WHEN o.alive THEN ${ALL_ALIVE('o')} ELSE o.status ${order.is('processing', 'valid')} END AS shown OFFSET 0) s
       WHERE w.found < $4 AND w.steps < ${LIST_STEPS}
    )
    SELECT array_agg(id ORDER BY id) FILTER (WHERE shown) AS ids, (array_agg(id ORDER BY id DESC))[1] AS last,
           max(steps) AS steps
      FROM walk HAVING count(*) > 0`,
}

interface OrderRow {
  ord: number
  stale: boolean
  id: string | null
  account_id: string
  status: StoredOrderStatus
  identifiers: Identifier[]
  authorization_ids: string[]
  profile: string
  not_before: Date | null
  not_after: Date | null
  expires_at: Date
  error: ProblemDocument | null
  certificate_id: string | null
  replaces: string | null
  is_exempt: boolean | null
  statuses: AuthorizationStatus[] | null
  /** Timestamps compare as texts; empty where a name was never checked. */
  caa_checked: string | null
  csr_profile_id: string | null
}

/** A command with its request key, hashed once. */
interface Claiming extends NewOrder {
  requestKey: string
}

/** Result of one command: its own order, the id of the equal one, or why there is none. */
type Created = MadeOrder | { equal: string } | StaleAccount | typeof ALREADY_REPLACED

type CreateResult = MadeOrder | StaleAccount | typeof ALREADY_REPLACED

/** Bound of one flush: ten orders of a hundred names write a thousand rows. */
const MAX_BATCH_AUTHORIZATIONS = 1_000

/** An equal order that is finalized between the two look-ups gives up its claim, so one more try makes a new one. */
const CREATE_ATTEMPTS = 3

export function createOrderStore(db: Database): OrderStore {
  const createWith = (statement: Statement, isApproving: boolean) =>
    batched<Claiming, Created>(
      db,
      async (commands) => {
        const values = createParameters(commands)
        const more = isApproving ? approvalParameters(commands) : []
        const rows = await db.pipeline.run<CreatedRow>(statement, [...values, ...more])
        const claims = new Map(rows.map((row) => [row.claim_key, row]))
        return commands.map((command) => created(command, claims.get(claimKeyOf(command))))
      },
      // Commands with one claim go one after the other: a statement can insert or update a row only once.
      {
        keyOf: claimKeyOf,
        weight: { of: ({ authorizations }) => authorizations.length, most: MAX_BATCH_AUTHORIZATIONS },
      },
    )
  const make = {
    original: createWith(CREATE.original, false),
    replacement: createWith(CREATE.replacement, false),
    approvedOriginal: createWith(CREATE.approvedOriginal, true),
    approvedReplacement: createWith(CREATE.approvedReplacement, true),
  }
  function makerOf({ approval, replaces }: NewOrder) {
    if (approval) return replaces ? make.approvedReplacement : make.approvedOriginal
    return replaces ? make.replacement : make.original
  }

  async function createClaiming(command: Claiming): Promise<CreateResult> {
    const make = makerOf(command)
    for (let attempt = 1; ; attempt++) {
      const isLast = attempt === CREATE_ATTEMPTS
      const requestKey = isLast && !command.replaces ? randomUUID() : command.requestKey
      const result = await make({ ...command, requestKey })
      if (typeof result === 'symbol' || 'id' in result) return result
      const equal = await store.find({ requester: command.requester, orderId: result.equal })
      if (equal === STALE_ACCOUNT) return equal
      if (equal?.status === 'pending' || equal?.status === 'ready') return equal
      // One order at most replaces a certificate, and another request made it meanwhile.
      if (command.replaces && (isLast || (equal && equal.status !== 'invalid'))) return ALREADY_REPLACED
    }
  }

  const shared = sharedRuns<CreateResult>()

  const store: OrderStore = {
    async create(order) {
      const command = { ...order, requestKey: requestKeyOf(order) }
      // Concurrent equal requests would only queue for their claim.
      const made = await shared(`${command.requestKey} ${order.requester.keyVersion}`, () => createClaiming(command))
      if (typeof made === 'symbol' || made.id === order.id) return made
      const { approved: _, ...equal } = made
      return equal
    },

    find: batched(db, async (commands) => {
      const rows = await db.pipeline.run<OrderRow>(FIND, [
        commands.map((c) => c.orderId),
        commands.map((c) => c.requester.accountId),
        commands.map((c) => c.requester.keyVersion),
      ])
      const now = new Date()
      const decodeNow = (row: OrderRow) => decode(row, now)
      return resultsByOrd(rows, commands, unlessStale(decodeNow))
    }),

    async list({ accountId, keyVersion }, after, limit) {
      type Row = { ids: string[] | null; last: string; steps: number }
      // One more than a page shows whether there is a next one.
      const [row] = await db.query<Row>(LIST, [accountId, keyVersion, after ?? null, limit + 1])
      if (!row) return STALE_ACCOUNT
      const found = row.ids ?? []
      const ids = found.slice(0, limit)
      return { ids, next: found.length > limit ? ids.at(-1) : row.steps >= LIST_STEPS ? row.last : undefined }
    },
  }
  return store
}

function requestKeyOf(command: NewOrder): string {
  const { identifiers, profile, notBefore, notAfter, replaces, approval } = command
  const { accountId } = command.requester
  const facts = { accountId, identifiers, profile, notBefore, notAfter, replaces: replaces?.certId }
  return orderRequestKey({ ...facts, approval: approval?.record.type })
}

function claimKeyOf(command: Claiming): string {
  return command.replaces?.certificateId ?? command.requestKey
}

function createParameters(commands: readonly Claiming[]): unknown[] {
  const authorizations = commands.flatMap((command, i) => command.authorizations.map((z) => ({ ...z, ord: i + 1 })))
  return [
    commands.map((c) => c.id),
    commands.map((c) => c.requester.accountId),
    commands.map((c) => c.requester.keyVersion),
    commands.map((c) => JSON.stringify(c.identifiers)),
    commands.map((c) => c.profile),
    commands.map((c) => c.notBefore),
    commands.map((c) => c.notAfter),
    commands.map((c) => c.expiresAt),
    commands.map((c) => c.reuseUntil),
    commands.map((c) => c.requestKey),
    commands.map((c) => c.replaces?.certificateId),
    commands.map((c) => c.replaces?.certId),
    authorizations.map((z) => z.ord),
    authorizations.map((z) => z.id),
    authorizations.map((z) => z.identifier.type),
    authorizations.map((z) => z.identifier.value),
    authorizations.map((z) => z.wildcard),
    authorizations.map((z) => z.token),
    authorizations.map((z) => z.offered.join(' ')),
    authorizations.map((z) => z.expiresAt),
    commands.map((c) => c.replaces?.isExempt),
  ]
}

function approvalParameters(commands: readonly Claiming[]): unknown[] {
  return [commands.map((c) => c.approval?.address), commands.map((c) => JSON.stringify(c.approval?.record))]
}

interface CreatedRow extends ApproverRow {
  claim_key: string
  order_id: string
  /** Key of the order that holds the claim; differs from the command's only for replacements. */
  request_key: string
  ids: string[] | null
  ready: boolean | null
  approved_values?: string[] | null
}

function created(command: Claiming, row: CreatedRow | undefined): Created {
  if (!row) return STALE_ACCOUNT
  if (row.ids !== null) {
    const { approval } = command
    const approved = approval && row.approved_values ? approvedBy(approval, row, row.approved_values) : undefined
    return { ...made(command, row.ids, row.ready ? 'ready' : 'pending'), ...(approved && { approved }) }
  }
  return row.request_key === command.requestKey ? { equal: row.order_id } : ALREADY_REPLACED
}

function made(command: NewOrder, authorizationIds: string[], status: OrderStatus): Order {
  return {
    id: command.id,
    accountId: command.requester.accountId,
    status,
    identifiers: command.identifiers,
    authorizationIds,
    profile: command.profile,
    expiresAt: command.expiresAt,
    ...(command.notBefore && { notBefore: command.notBefore }),
    ...(command.notAfter && { notAfter: command.notAfter }),
    ...(command.replaces && { replaces: command.replaces.certId }),
    ...(command.replaces?.isExempt && { isExempt: true }),
  }
}

function decode(row: OrderRow, now: Date): Order {
  const authorizations = row.statuses ?? []
  // A missing authorization counts as an invalid one.
  if (authorizations.length < row.authorization_ids.length) authorizations.push('invalid')
  const facts = { stored: row.status, expiresAt: row.expires_at, authorizations }
  const error = row.error ?? (row.status === 'open' && row.expires_at <= now ? ORDER_EXPIRED : undefined)
  return {
    id: row.id as string,
    accountId: row.account_id,
    status: orderStatus(facts, now),
    identifiers: row.identifiers,
    authorizationIds: row.authorization_ids,
    profile: row.profile,
    expiresAt: row.expires_at,
    ...(row.not_before && { notBefore: row.not_before }),
    ...(row.not_after && { notAfter: row.not_after }),
    ...(row.replaces !== null && { replaces: row.replaces }),
    ...(row.is_exempt && { isExempt: true }),
    ...(error && { error }),
    ...(row.certificate_id && { certificateId: row.certificate_id }),
    ...(row.csr_profile_id && { csrProfileId: row.csr_profile_id }),
    ...(row.caa_checked && { caaCheckedAt: new Date(row.caa_checked) }),
  }
}
