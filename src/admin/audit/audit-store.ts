/** SQL of the audit log (tables admin_audit_log, admin_audit_head). */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import type { AuditAction, AuditEntry, AuditTail } from '../../domain/audit-chain.ts'
import { instant } from '../../store/list-page.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import type { AuditQuery } from '../resources/operation.ts'
import { allGiven, type Conditions } from '../schemas.ts'

interface ChainHead {
  sequence: number
  mac: Buffer
}

const Head = z.object({ sequence: z.coerce.number(), mac: z.instanceof(Buffer) })
const None = z.object({})

/** Locks the chain until the transaction ends, so that its entries follow each other. */
export async function lockAuditHead(tx: CommonQueryMethods): Promise<ChainHead> {
  return tx.one(rowsOf(Head)`SELECT sequence, mac FROM admin_audit_head FOR UPDATE`)
}

export async function appendAuditEntry(tx: CommonQueryMethods, entry: AuditEntry, mac: Buffer): Promise<void> {
  const { sequence, id, userId, action, targetUserId, details, ipAddress, createdAt } = entry
  await tx.query(rowsOf(None)`
    INSERT INTO admin_audit_log (sequence, id, user_id, action, target_user_id, details, ip_address, created_at, mac)
    VALUES (${sequence}, ${id}, ${userId ?? null}, ${action}, ${targetUserId ?? null},
            ${JSON.stringify(details)}::jsonb, ${ipAddress ?? null}, ${createdAt.toISOString()}::timestamptz,
            ${sql.binary(mac)})`)
}

export async function moveAuditHead(tx: CommonQueryMethods, head: ChainHead): Promise<void> {
  await tx.query(rowsOf(None)`
    UPDATE admin_audit_head SET sequence = ${head.sequence}, mac = ${sql.binary(head.mac)}`)
}

const Entry = z
  .object({
    sequence: z.coerce.number(),
    id: z.string(),
    user_id: z.string().nullable(),
    username: z.string().nullish(),
    action: z.string(),
    target_user_id: z.string().nullable(),
    details: z.record(z.string(), z.unknown()),
    ip_address: z.string().nullable(),
    created_at: z.date(),
    mac: z.instanceof(Buffer),
  })
  .transform((row) => ({
    sequence: row.sequence,
    id: row.id,
    userId: row.user_id ?? undefined,
    username: row.username ?? undefined,
    action: row.action as AuditAction,
    targetUserId: row.target_user_id ?? undefined,
    details: row.details,
    ipAddress: row.ip_address ?? undefined,
    createdAt: row.created_at,
    mac: row.mac,
  }))
export type StoredAuditEntry = z.output<typeof Entry>

const columns = sql.fragment`sequence, id, user_id, action, target_user_id, details, ip_address, created_at, mac`

interface AuditPage {
  /** A sequence number. */
  before: number
  limit: number
}

/** Entries that are read in search of an object, for which there is no index: about 0.2 s. */
const MOST_SEARCHED = 50_000

/** admin_audit_log_pkey backwards, or the index of the filter. */
function pageOf(filter: AuditQuery, { before, limit }: AuditPage) {
  const { object } = filter
  const all = entriesOf(filter, before)
  if (object === undefined) return sql.fragment`FROM ${all} LIMIT ${limit}`
  return sql.fragment`
    FROM (SELECT * FROM ${all} LIMIT ${MOST_SEARCHED}) entry
   WHERE target_user_id::text = ${object}
      OR jsonb_path_exists(details, '$.** ? (@ == $object)', jsonb_build_object('object', ${object}::text))
   ORDER BY sequence DESC LIMIT ${limit}`
}

/** Both times are inclusive. */
const CONDITIONS: Conditions<Omit<AuditQuery, 'object'>> = {
  action: (action) => sql.fragment`action = ${action}`,
  user_id: (id) => sql.fragment`user_id = ${id}`,
  ip_address: (address) => sql.fragment`ip_address = ${address}`,
  since: (time) => sql.fragment`created_at >= ${instant(new Date(time))}`,
  until: (time) => sql.fragment`created_at <= ${instant(new Date(time))}`,
}

/** Entries that an index finds: the object is looked for among them. */
function entriesOf({ object: _, ...indexed }: AuditQuery, before: number) {
  const conditions = [sql.fragment`sequence < ${before}`, ...allGiven(CONDITIONS, indexed)]
  return sql.fragment`admin_audit_log WHERE ${sql.join(conditions, sql.fragment` AND `)} ORDER BY sequence DESC`
}

/**
 * The newest first.
 * @param before undefined for the first page
 * @returns `next` for the next page; undefined on the last. `isCut`: the search for an object continues there
 */
export async function readAuditPage(
  db: CommonQueryMethods,
  filter: AuditQuery,
  before: number | undefined,
  limit: number,
): Promise<{ entries: readonly StoredAuditEntry[]; next: number | undefined; isCut: boolean }> {
  const from = before ?? Number.MAX_SAFE_INTEGER
  const found = await db.any(rowsOf(Entry)`
    SELECT ${columns}, (SELECT username FROM admin_users u WHERE u.id = user_id) AS username
      ${pageOf(filter, { before: from, limit: limit + 1 })}`)
  const entries = found.slice(0, limit)
  if (found.length > limit) return { entries, next: entries.at(-1)?.sequence, isCut: false }
  const next = await endOfSearch(db, filter, from)
  return { entries, next, isCut: next !== undefined }
}

const Searched = z.object({ last: z.coerce.number().nullable() })

/** Where a search for an object has ended; undefined at the end of the log, and without an object. */
export async function endOfSearch(
  db: CommonQueryMethods,
  filter: AuditQuery,
  before: number,
): Promise<number | undefined> {
  const { object, ...indexed } = filter
  if (object === undefined) return undefined
  const { last } = await db.one(rowsOf(Searched)`
    SELECT (SELECT sequence FROM ${entriesOf(indexed, before)} OFFSET ${MOST_SEARCHED - 1} LIMIT 1) AS last`)
  return last ?? undefined
}

const Lines = z
  .object({ lines: z.string().nullable(), entries: z.int(), last: z.coerce.number() })
  .transform(({ lines, entries, last }) => ({ lines: lines ?? undefined, entries, last }))
type AuditLines = z.output<typeof Lines>

/**
 * A page as one text, a JSON object a line as the Admin API describes it: as rows, an export would cost ten times as much.
 *
 * @returns `lines` undefined without an entry; `last` is the lowest sequence number
 */
export function readAuditLines(db: CommonQueryMethods, filter: AuditQuery, page: AuditPage): Promise<AuditLines> {
  return db.one(rowsOf(Lines)`
    SELECT string_agg(row_to_json(entry)::text, chr(10)) AS lines, count(*)::integer AS entries,
           coalesce(min(page.sequence), 0) AS last
      FROM (SELECT * ${pageOf(filter, page)}) page
     CROSS JOIN LATERAL (
       SELECT id, sequence, user_id, action, target_user_id, details, ip_address,
              to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS created_at) entry`)
}

/** Every statement of the transaction sees the same rows. */
export async function beginSnapshot(tx: CommonQueryMethods): Promise<void> {
  await tx.query(rowsOf(None)`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY`)
}

/** The entries after a sequence number, in the order of the chain. */
export async function readAuditChain(
  db: CommonQueryMethods,
  page: { after: number; limit: number },
): Promise<readonly StoredAuditEntry[]> {
  return db.any(rowsOf(Entry)`
    SELECT ${columns} FROM admin_audit_log WHERE sequence > ${page.after} ORDER BY sequence LIMIT ${page.limit}`)
}

const Checkpoint = z
  .object({
    sequence: z.coerce.number(),
    mac: z.instanceof(Buffer),
    cut_sequence: z.coerce.number(),
    cut_mac: z.instanceof(Buffer),
    cut_seal: z.instanceof(Buffer).nullable(),
  })
  .transform((row) => ({
    head: { sequence: row.sequence, mac: row.mac },
    cut: { sequence: row.cut_sequence, mac: row.cut_mac, seal: row.cut_seal ?? undefined },
  }))
/** The head, and where retention has cut the chain; sequence 0 for a whole one. */
type AuditCheckpoint = z.output<typeof Checkpoint>

export async function readAuditCheckpoint(db: CommonQueryMethods): Promise<AuditCheckpoint> {
  return db.one(rowsOf(Checkpoint)`
    SELECT sequence, mac, cut_sequence, cut_mac, cut_seal FROM admin_audit_head`)
}

const Tail = Checkpoint.in
  .extend({ remembered_mac: z.instanceof(Buffer).nullable(), last_mac: z.instanceof(Buffer).nullable() })
  .transform(({ remembered_mac, last_mac, ...row }) => ({
    ...Checkpoint.parse(row),
    rememberedMac: remembered_mac ?? undefined,
    lastMac: last_mac ?? undefined,
  }))

/** On one snapshot: the checkpoint, the last entry, and the one at a remembered place. */
export function readAuditTail(db: CommonQueryMethods, remembered: number): Promise<AuditTail> {
  return db.one(rowsOf(Tail)`
    SELECT h.sequence, h.mac, h.cut_sequence, h.cut_mac, h.cut_seal,
           (SELECT l.mac FROM admin_audit_log l WHERE l.sequence = ${remembered}) AS remembered_mac,
           (SELECT l.mac FROM admin_audit_log l WHERE l.sequence = h.sequence) AS last_mac
      FROM admin_audit_head h`)
}

/** The last entry of those older than `before` that no younger one precedes. */
export async function findAuditCut(tx: CommonQueryMethods, before: Date): Promise<ChainHead | null> {
  return tx.maybeOne(rowsOf(Head)`
    SELECT sequence, mac FROM admin_audit_log
     WHERE sequence < coalesce((SELECT min(sequence) FROM admin_audit_log
                                 WHERE created_at >= ${before.toISOString()}::timestamptz),
                               (SELECT sequence + 1 FROM admin_audit_head))
     ORDER BY sequence DESC LIMIT 1`)
}

export async function moveAuditCut(tx: CommonQueryMethods, cut: ChainHead, seal: Buffer): Promise<void> {
  await tx.query(rowsOf(None)`
    UPDATE admin_audit_head
       SET cut_sequence = ${cut.sequence}, cut_mac = ${sql.binary(cut.mac)}, cut_at = now(),
           cut_seal = ${sql.binary(seal)}`)
}

/** Deletes the oldest entries up to the cut. @returns how many */
export async function deleteCutEntries(tx: CommonQueryMethods, limit: number): Promise<number> {
  await tx.query(rowsOf(None)`SELECT set_config('chancery.audit_retention', 'on', true)`)
  const { rowCount } = await tx.query(rowsOf(None)`
    DELETE FROM admin_audit_log WHERE sequence IN (
      SELECT sequence FROM admin_audit_log WHERE sequence <= (SELECT cut_sequence FROM admin_audit_head)
       ORDER BY sequence LIMIT ${limit})`)
  return rowCount
}

/** Acts without the approval that they needed; along admin_audit_log_action, from its end. */
export function countEmergencies(db: CommonQueryMethods, days: number): Promise<number> {
  return db.oneFirst(rowsOf(z.object({ count: z.int() }))`
    SELECT count(*)::integer AS count FROM admin_audit_log
     WHERE action = 'approval.emergency' AND created_at > now() - make_interval(days => ${days})`)
}

/** @param after a sequence number */
export function emergenciesAfter(db: CommonQueryMethods, after: number): Promise<readonly StoredAuditEntry[]> {
  return db.any(rowsOf(Entry)`
    SELECT ${columns} FROM admin_audit_log
     WHERE action = 'approval.emergency' AND sequence > ${after} ORDER BY sequence LIMIT 100`)
}

const ImportedEntry = z.object({ at: z.string(), id: z.string() })

/** The newest entry of a former server's log that was taken over. */
export async function lastImportedEntry(tx: CommonQueryMethods, source: string) {
  // admin_audit_log_action, from its end
  const last = await tx.maybeOne(rowsOf(ImportedEntry)`
    SELECT details ->> 'at' AS at, details ->> 'id' AS id FROM admin_audit_log
     WHERE action = 'import.audit_entry' AND details ->> 'from' = ${source} ORDER BY sequence DESC LIMIT 1`)
  return last ?? undefined
}
