/** Requests for approval as the Admin API shows them, and their SQL (table admin_approvals). */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import type { Actor } from '../../domain/administrator.ts'
import {
  type ActToApprove,
  APPROVAL_ACTS,
  APPROVAL_STATUSES,
  approvalStatus,
  DECISIONS,
  type Decision,
  type SentValues,
} from '../../domain/approval.ts'
import { pageById, type ReadPage } from '../../store/list-page.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import { rowOf, timestamp, withTimes } from '../schemas.ts'

export const Approval = z
  .strictObject({
    id: z.uuid(),
    act: z.enum(APPROVAL_ACTS),
    operation: z.string().meta({ description: 'operationId of what was asked.' }),
    summary: z.string(),
    facts: z
      .array(z.strictObject({ name: z.string(), before: z.string().nullable(), after: z.string().nullable() }))
      .meta({ description: 'What would change.' }),
    most: z.int().nullable().meta({ description: 'More things at the time of the decision are refused.' }),
    reason: z.string(),
    status: z.enum(APPROVAL_STATUSES),
    maker_id: z.uuid(),
    maker: z.string(),
    created_at: timestamp(),
    expires_at: timestamp(),
    decided_at: timestamp().nullable(),
    decided_by: z.string().nullable(),
    decision_reason: z.string().nullable(),
    has_result: z.boolean().meta({ description: 'The reply waits for its maker, until expires_at.' }),
  })
  .meta({ id: 'Approval' })

export const ApprovedRequest = z
  .strictObject({
    ...Approval.shape,
    password_second_half: z.string().nullable().meta({
      description: 'Of the password that was made. Shown once; its maker gets the first half, the user both.',
    }),
  })
  .meta({ id: 'ApprovedRequest' })

export function approvalBody(row: ApprovalRow, now = new Date()): z.input<typeof Approval> {
  const { decision, maker, maker_email: _, ...shown } = row
  const status = approvalStatus({ decision: decision ?? undefined, expiresAt: row.expires_at }, now)
  return { ...withTimes(shown), maker: maker.username, status }
}

/** In place of the reply of an act that waits for another person. */
export const APPROVAL_REPLY = { status: 202, schema: Approval } as const

const Row = rowOf(Approval.omit({ status: true, maker: true })).extend({
  maker: z.custom<Actor>(),
  /** Null when the user was deleted. */
  maker_email: z.string().nullable(),
  decision: z.enum(DECISIONS).nullable(),
})
export type ApprovalRow = z.infer<typeof Row>

const None = z.object({})
const hasResult = sql.fragment`a.result IS NOT NULL AND a.expires_at > now()`
const columns = sql.fragment`
  a.id, a.act, a.operation, a.summary, a.facts, a.most, a.reason, a.maker_id, a.maker, u.email AS maker_email,
  a.created_at, a.expires_at, a.decision, a.decided_at, a.decided_by, a.decision_reason,
  ${hasResult} AS has_result`
const table = sql.fragment`admin_approvals a LEFT JOIN admin_users u ON u.id = a.maker_id`
const isWaiting = sql.fragment`a.decision IS NULL AND a.expires_at > now()`

interface NewApproval extends ActToApprove {
  id: string
  operation: string
  input: SentValues
  reason: string
  maker: Actor & { userId: string }
  expiresAt: Date
}

export async function insertApproval(tx: CommonQueryMethods, wanted: NewApproval): Promise<ApprovalRow> {
  const { id, act, operation, input, summary, facts, most, reason, maker, expiresAt } = wanted
  await tx.query(rowsOf(None)`
    INSERT INTO admin_approvals (id, act, operation, input, summary, facts, most, reason, maker_id, maker, expires_at)
    VALUES (${id}, ${act}, ${operation}, ${JSON.stringify(input)}, ${summary}, ${JSON.stringify(facts)}::jsonb,
            ${most ?? null}, ${reason}, ${maker.userId}, ${JSON.stringify(maker)}::jsonb,
            ${expiresAt.toISOString()}::timestamptz)`)
  return tx.one(rowsOf(Row)`SELECT ${columns} FROM ${table} WHERE a.id = ${id}`)
}

/** A maker's waiting requests; the maker's row is locked, so that two requests at once are counted one after the other. */
export async function countWaitingOf(tx: CommonQueryMethods, makerId: string): Promise<number> {
  await tx.query(rowsOf(None)`SELECT FROM admin_users WHERE id = ${makerId} FOR NO KEY UPDATE`)
  return tx.oneFirst(rowsOf(z.object({ count: z.int() }))`
    SELECT count(*)::integer AS count FROM admin_approvals a WHERE a.maker_id = ${makerId} AND ${isWaiting}`)
}

/** Undefined for requests of all users. */
type MakerId = string | undefined
const isOf = (makerId: MakerId) => (makerId === undefined ? sql.fragment`true` : sql.fragment`a.maker_id = ${makerId}`)

export function findApproval(db: CommonQueryMethods, id: string, makerId?: MakerId): Promise<ApprovalRow | null> {
  return db.maybeOne(rowsOf(Row)`SELECT ${columns} FROM ${table} WHERE a.id = ${id} AND ${isOf(makerId)}`)
}

export function lockApproval(tx: CommonQueryMethods, id: string, makerId?: MakerId): Promise<ApprovalRow | null> {
  return tx.maybeOne(rowsOf(Row)`
    SELECT ${columns} FROM ${table} WHERE a.id = ${id} AND ${isOf(makerId)} FOR UPDATE OF a`)
}

export async function readInput(db: CommonQueryMethods, id: string): Promise<SentValues> {
  const text = await db.oneFirst(rowsOf(z.object({ input: z.string() }))`
    SELECT input FROM admin_approvals WHERE id = ${id}`)
  return JSON.parse(text) as SentValues
}

/** Along admin_approvals_pkey; there are as many as people have asked for. */
export function pagesOfApprovals(
  db: CommonQueryMethods,
  { waiting, makerId }: { waiting: boolean | undefined; makerId: MakerId },
): ReadPage<ApprovalRow> {
  const wanted = waiting === undefined ? sql.fragment`true` : waiting ? isWaiting : sql.fragment`NOT (${isWaiting})`
  return pageById(sql.fragment`a.id`, (condition, limit) =>
    db.any(rowsOf(Row)`
      SELECT ${columns} FROM ${table} WHERE ${condition} AND ${wanted} AND ${isOf(makerId)}
       ORDER BY a.id DESC LIMIT ${limit}`),
  )
}

interface DecisionOf {
  decision: Decision
  by: Pick<Actor, 'userId' | 'username'>
  reason: string | undefined
}

export async function noteDecision(
  tx: CommonQueryMethods,
  id: string,
  { decision, by, reason }: DecisionOf,
): Promise<void> {
  await tx.query(rowsOf(None)`
    UPDATE admin_approvals
       SET decision = ${decision}, decided_at = now(), decided_by_id = ${by.userId ?? null},
           decided_by = ${by.username}, decision_reason = ${reason ?? null}
     WHERE id = ${id} AND decision IS NULL`)
}

export async function keepResult(db: CommonQueryMethods, id: string, sealed: Buffer): Promise<void> {
  await db.query(rowsOf(None)`UPDATE admin_approvals SET result = ${sql.binary(sealed)} WHERE id = ${id}`)
}

/** The sealed reply, which is gone then; null after the end of the request. The row is locked before. */
export async function takeResult(tx: CommonQueryMethods, id: string): Promise<Buffer | null> {
  const result = await tx.oneFirst(rowsOf(z.object({ result: z.instanceof(Buffer).nullable() }))`
    SELECT CASE WHEN expires_at > now() THEN result END AS result FROM admin_approvals WHERE id = ${id}`)
  await tx.query(rowsOf(None)`UPDATE admin_approvals SET result = NULL WHERE id = ${id}`)
  return result
}

/** Replies that nobody has collected in time, and requests whose end is long past: the audit log keeps what was done. */
export async function forgetOld(tx: CommonQueryMethods, keptDays: number): Promise<void> {
  await tx.query(
    rowsOf(None)`UPDATE admin_approvals SET result = NULL WHERE result IS NOT NULL AND expires_at < slow_now()`,
  )
  await tx.query(rowsOf(None)`
    DELETE FROM admin_approvals WHERE expires_at < slow_now() - make_interval(days => ${keptDays})`)
}

const Counts = z.object({ for_others: z.int(), own: z.int(), results: z.int() })

/** Requests that wait for a decision, of others and of this user, and this user's replies to collect. */
export function countApprovals(
  db: CommonQueryMethods,
  userId: string,
  makerId: MakerId,
): Promise<z.infer<typeof Counts>> {
  return db.one(rowsOf(Counts)`
    SELECT count(*) FILTER (WHERE ${isWaiting} AND a.maker_id <> ${userId})::integer AS for_others,
           count(*) FILTER (WHERE ${isWaiting} AND a.maker_id = ${userId})::integer AS own,
           count(*) FILTER (WHERE ${hasResult} AND a.maker_id = ${userId})::integer AS results
      FROM admin_approvals a WHERE ${isOf(makerId)}`)
}
