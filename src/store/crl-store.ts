/**
 * SQL of certificate revocation lists: revoked certificates in pages, CRL numbers, finished lists in pieces.
 *
 * A list is published by compare-and-swap on its predecessor (`publish`). So its rows were read after the predecessor was
 * published, and it keeps all of the predecessor's entries that have not left. When two builders run at once, one builds in
 * vain, and no revocation disappears for a moment.
 */

import { COMPLETE, octetsOf } from '../domain/crl-scope.ts'
import { CLOCKS_DIFFER_SECONDS } from '../shared/lib/clocks.ts'
import { withoutNulls } from './batch-results.ts'
import { ISSUER_CERTIFICATES } from './certificate-store.ts'
import type { Database, Statement } from './database.ts'
import { bulkRevocation } from './status-sql.ts'

/** Which certificates a list covers: all of an issuer (1 and 0), or those whose serial number has this remainder. */
export interface CrlPart {
  shards: number
  shard: number
}

export interface CrlScope extends CrlPart {
  /** SHA-256 of the issuer's name and key identifier. */
  issuerKey: Buffer
}

export interface PublishedCrl extends CrlScope {
  issuerId: string
  number: bigint
  thisUpdate: Date
  nextUpdate: Date
  entries: number
  bytes: number
  startedAt: Date
  /** Its thisUpdate is so far ahead of the database's clock that one of the two was wrong. */
  isAhead: boolean
}

export type NewCrl = Omit<PublishedCrl, 'startedAt' | 'isAhead'>

/** How far the served list is behind the database. */
export interface CrlState {
  published: PublishedCrl | undefined
  /** Revocations that may be missing on the list, without a bulk revocation under way: it gets a list at its end. */
  missing: number
  /** A new list was requested after this one was begun. */
  isRequested: boolean
  /** The database's clock, which sets all times of lists. */
  now: Date
  /** Entries that left the list later than this left it by a clock that jumped, and come back. */
  slowNow: Date
}

/** The beginning of a build. */
export interface CrlDraft {
  number: bigint
  /** Number of the list it follows. */
  previous: bigint | undefined
  previousThisUpdate: Date | undefined
  isPreviousAhead: boolean
  /** thisUpdate of the one before, or now, and no later than the slow clock. */
  listedUntil: Date
  /** Counts of the part, and of the whole issuer, by which the previous release sees that a list is due. */
  changes: { part: Changes; issuer: Changes }
  startedAt: Date
}

/** Revocations counted so far. */
interface Changes {
  all: number
  /** The share of bulk revocations. */
  bulk: number
}

/** Revoked certificates as text, one word each: serial number in hexadecimal, Unix seconds, reason, joined by dots. */
export interface CrlPage {
  rows: string
  count: number
  last: string
}

interface CrlPageQuery {
  scope: CrlScope
  issuerFingerprint: Buffer
  /** First and last octet that their serial numbers end in (`octetsOf`). */
  octets: readonly [number, number]
  /** `last` of the page before; undefined starts at the first. */
  after: string | undefined
  /** A certificate has left the list if it expired and was revoked before this (RFC 5280 §3.3). */
  leftBefore: Date
  limit: number
}

export interface CrlStore {
  /** Issuer certificates with their SHA-256. The caller compares name and key with its issuer. */
  issuerCertificates(): Promise<{ fingerprint: Buffer; certificate: Buffer }[]>
  /** How each of these lists of an issuer stands, in their order. */
  states(issuerKey: Buffer, parts: readonly CrlPart[], issuerFingerprints: readonly Buffer[]): Promise<CrlState[]>
  /**
   * Draws the next number, which no list has had; the build must read its rows afterwards. It is at most
   * `maxLeadSeconds` above the Unix time or a published one.
   */
  begin(scope: CrlScope, issuerFingerprints: readonly Buffer[], maxLeadSeconds: number): Promise<CrlDraft>
  /** The next number of this issuer is above `number`, which the signer has signed. */
  raiseNumber(issuerKey: Buffer, number: bigint): Promise<void>
  page(query: CrlPageQuery): Promise<CrlPage | undefined>
  /**
   * Rows of the list whose certificate has another one with an earlier date, under another of the fingerprints. They are
   * chosen at once, so that the other is on the list too.
   */
  duplicates(
    scope: CrlScope,
    issuerFingerprints: readonly Buffer[],
    leftBefore: Date,
  ): Promise<{ issuerFingerprint: string; serialNumber: string }[]>
  putPiece(issuerKey: Buffer, number: bigint, piece: number, der: Buffer): Promise<void>
  /** Undefined after the last piece, or when a later list has replaced this one. */
  piece(issuerKey: Buffer, number: bigint, piece: number): Promise<Buffer | undefined>
  /**
   * Replaces `draft.previous` by the list, and deletes pieces older than that. False when another list replaced it first, or pieces are missing.
   */
  publish(crl: NewCrl, draft: CrlDraft, pieces: number): Promise<boolean>
  published(): Promise<PublishedCrl[]>
  /** Takes down an issuer's lists of other counts of shards than these. */
  retire(issuerKey: Buffer, kept: readonly number[]): Promise<void>
  /** Asks the builder on any instance for new lists. */
  requestRebuild(): Promise<void>
  /** Records for the last request why there is no list yet. */
  noteObstacle(reason: string): Promise<void>
  /** The last rebuild: whether it still waits for a newer list, and why, if that is known. */
  lastRequest(): Promise<{ isOpen: boolean; obstacle: string | undefined } | undefined>
  /** Records that certificates are issued under this count of shards; 1 means the complete list. */
  useShards(shards: number): Promise<void>
  /** Counts of shards used for certificates within the last so many days. */
  shardings(withinDays: number): Promise<number[]>
}

const REQUEST_KEY = 'crl_rebuild'

/**
 * Whether the list of a row `c` begins in the future. Where the slow clock is ahead of now() by more than a list lasts, now()
 * is wrong. A list of that time would have expired (RFC 5280 §5.1.2.5).
 */
const IS_AHEAD = `(coalesce(c.this_update > now() + interval '${CLOCKS_DIFFER_SECONDS} s', false)
            AND NOT EXISTS (SELECT FROM slow_clock w WHERE w.at >= now() + (c.next_update - c.this_update)))`

/** Columns of a row `c`. */
const LIST = `c.issuer_key AS "issuerKey", c.shards, c.shard, c.issuer_id AS "issuerId", c.number, c.this_update AS "thisUpdate",
           c.next_update AS "nextUpdate", c.entries, c.bytes::double precision AS bytes, c.started_at AS "startedAt",
           ${IS_AHEAD} AS "isAhead"`

/** During a longer bulk revocation, lists come at this interval. */
const BULK_SECONDS = 300
/** A job without progress for so long has lost its instance, and another takes it up. */
const STALLED_SECONDS = 30

/** At most 512 rows for each certificate of the issuer; slots below zero are for bulk revocations (`count_revocations`). */
const CHANGES: Statement = {
  name: 'crl-changes',
  text: `
    SELECT slot, sum(changes)::double precision AS changes
      FROM crl_changes WHERE issuer_fingerprint = ANY ($1) GROUP BY slot`,
}

const STATES: Statement = {
  name: 'crl-states',
  // crls_pkey, server_settings_pkey, bulk_revocations_open. A row even without a list, for the clock.
  text: `
    SELECT ${LIST}, now() AS now, slow_now() AS "slowNow", coalesce(c.part_changes, 0)::double precision AS "partChanges",
           coalesce(c.part_bulk_changes, 0)::double precision AS "partBulkChanges",
           coalesce((SELECT updated_at > c.started_at FROM server_settings WHERE key = '${REQUEST_KEY}'), false) AS "isRequested",
           c.started_at > now() - interval '${BULK_SECONDS} s' AND EXISTS (
             SELECT FROM bulk_revocations WHERE status ${bulkRevocation.is('revoking')} AND progressed_at > now() - interval '${STALLED_SECONDS} s'
           ) AS "bulkWaits"
      FROM (SELECT) one LEFT JOIN crls c ON c.issuer_key = $1`,
}

const BEGIN: Statement = {
  name: 'crl-begin',
  // At least the Unix time, so that numbers rise even after an older database is restored. The signer never signed a number
  // beyond its bound, so the next one follows the published numbers.
  text: `
    WITH drawn AS (
      INSERT INTO crl_numbers AS n (issuer_key, last_number) VALUES ($1, extract(epoch FROM now())::bigint)
      ON CONFLICT (issuer_key) DO UPDATE SET last_number = (
        SELECT greatest(EXCLUDED.last_number, 1 + CASE
                 WHEN n.last_number < greatest(EXCLUDED.last_number, max(p.number)) + $4::bigint THEN n.last_number
                 ELSE max(p.number) END)
          FROM crls p WHERE p.issuer_key = $1)
      RETURNING last_number
    )
    SELECT d.last_number::text AS number, now() AS "startedAt", c.number::text AS previous,
           c.this_update AS "previousThisUpdate", ${IS_AHEAD} AS "isPreviousAhead",
           least(coalesce(c.this_update, now()), slow_now()) AS "listedUntil"
      FROM drawn d LEFT JOIN crls c ON c.issuer_key = $1 AND c.shards = $2 AND c.shard = $3`,
}

const RAISE: Statement = {
  name: 'crl-raise-number',
  text: `
    INSERT INTO crl_numbers AS n (issuer_key, last_number) VALUES ($1, $2)
    ON CONFLICT (issuer_key) DO UPDATE SET last_number = EXCLUDED.last_number WHERE n.last_number < EXCLUDED.last_number`,
}

/** The parameters 2 to 4 are `leftBefore`, the number of parts, and the part. */
const ON_LIST = `revoked_at IS NOT NULL
               AND (not_after >= $2 OR revoked_at >= $2)
               AND ($3 = 1 OR (CASE length(serial_number) WHEN 1 THEN 0 ELSE get_byte(serial_number, length(serial_number) - 2) END * 256
                               + get_byte(serial_number, length(serial_number) - 1)) % $3 = $4)`

/** The last octet of a serial number, as the index certificates_revoked_octets has it. */
const OCTET = 'get_byte(serial_number, length(serial_number) - 1)'

const PAGE: Statement = {
  name: 'crl-page',
  // certificates_revoked_octets alone. The last two octets of any serial number are as good as random.
  text: `
    SELECT string_agg(encode(serial_number, 'hex') || '.' || extract(epoch FROM revoked_at)::bigint || '.' ||
                      coalesce(revocation_reason, 0), ' ') AS rows,
           count(*)::integer AS count, max((right(encode(serial_number, 'hex'), 2) || id) COLLATE "C") AS last
      FROM (SELECT id, serial_number, revoked_at, revocation_reason, not_after FROM certificates
             WHERE issuer_fingerprint = $1 AND ${ON_LIST} AND (${OCTET}, id) > ($5, $6) AND ${OCTET} <= $7
             ORDER BY ${OCTET}, id LIMIT $8) page`,
}

const DUPLICATES: Statement = {
  name: 'crl-duplicates',
  // certificates_revoked_octets; only for issuers that were renewed
  text: `
    SELECT encode(issuer_fingerprint, 'hex') AS "issuerFingerprint", encode(serial_number, 'hex') AS "serialNumber"
      FROM (SELECT issuer_fingerprint, serial_number,
                   row_number() OVER (PARTITION BY serial_number ORDER BY revoked_at, id) AS place
              FROM certificates WHERE issuer_fingerprint = ANY ($1) AND ${ON_LIST} AND ${OCTET} = ANY ($5::integer[])) r
     WHERE place > 1`,
}

const PUT_PIECE: Statement = {
  name: 'crl-put-piece',
  text: 'INSERT INTO crl_pieces (issuer_key, number, piece, der) VALUES ($1, $2, $3, $4)',
}

const PIECE: Statement = {
  name: 'crl-piece',
  text: 'SELECT der FROM crl_pieces WHERE issuer_key = $1 AND number = $2 AND piece = $3',
}

const PUBLISH: Statement = {
  name: 'crl-publish',
  text: `
    WITH published AS (
      INSERT INTO crls (issuer_key, shards, shard, issuer_id, number, changes, this_update, next_update, entries, bytes,
                        started_at, bulk_changes, part_changes, part_bulk_changes)
      SELECT $1, $2, $3, $4, $5::bigint, $6, $7, $8, $9, $10, $11, $14, $15, $16
       WHERE (SELECT count(*) FROM crl_pieces p WHERE p.issuer_key = $1 AND p.number = $5::bigint) = $13
      ON CONFLICT (issuer_key, shards, shard) DO UPDATE
        SET issuer_id = EXCLUDED.issuer_id, number = EXCLUDED.number, changes = EXCLUDED.changes,
            this_update = EXCLUDED.this_update, next_update = EXCLUDED.next_update, entries = EXCLUDED.entries,
            bytes = EXCLUDED.bytes, started_at = EXCLUDED.started_at, bulk_changes = EXCLUDED.bulk_changes,
            part_changes = EXCLUDED.part_changes, part_bulk_changes = EXCLUDED.part_bulk_changes, built_at = now()
      WHERE crls.number = $12::bigint
      RETURNING number
    )
    SELECT true FROM published`,
}

const DELETE_PIECES: Statement = {
  name: 'crl-delete-pieces',
  // Also deletes pieces of abandoned builds. A running build drew its number after its predecessor,
  // or will not be published.
  text: `
    DELETE FROM crl_pieces p WHERE p.issuer_key = $1 AND p.number < $2
       AND NOT EXISTS (SELECT FROM crls c WHERE c.issuer_key = p.issuer_key AND c.number = p.number)`,
}

const PUBLISHED: Statement = {
  name: 'crl-published',
  text: `
    SELECT ${LIST} FROM crls c ORDER BY issuer_id, shards, shard`,
}

const RETIRE: Statement = {
  name: 'crl-retire',
  text: 'DELETE FROM crls WHERE issuer_key = $1 AND shards <> ALL ($2)',
}

const REQUEST: Statement = {
  name: 'crl-request',
  text: `
    INSERT INTO server_settings (key, value) VALUES ('${REQUEST_KEY}', '{}')
    ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, updated_at = now()`,
}

const NOTE_OBSTACLE: Statement = {
  name: 'crl-note-obstacle',
  // Writes each reason once, though the caller repeats it every second.
  text: `
    UPDATE server_settings SET value = jsonb_build_object('obstacle', $1::text)
     WHERE key = '${REQUEST_KEY}' AND value->>'obstacle' IS DISTINCT FROM $1::text`,
}

const LAST_REQUEST: Statement = {
  name: 'crl-last-request',
  // An expired list belongs to an issuer that is gone.
  text: `
    SELECT value->>'obstacle' AS obstacle,
           coalesce((SELECT min(c.started_at) <= s.updated_at FROM crls c WHERE c.next_update > now()), true) AS "isOpen"
      FROM server_settings s WHERE key = '${REQUEST_KEY}'`,
}

const USE_SHARDS: Statement = {
  name: 'crl-use-shards',
  text: `
    INSERT INTO crl_shardings (shards) VALUES ($1)
    ON CONFLICT (shards) DO UPDATE SET last_used_at = now()`,
}

const SHARDINGS: Statement = {
  name: 'crl-shardings',
  text: 'SELECT shards FROM crl_shardings WHERE last_used_at > slow_now() - make_interval(days => $1) ORDER BY shards',
}

type CrlRow = Omit<PublishedCrl, 'number'> & { number: string }

interface DraftRow extends Pick<CrlDraft, 'startedAt' | 'previousThisUpdate' | 'isPreviousAhead' | 'listedUntil'> {
  number: string
  previous: string | null
}

const FIRST_ID = '00000000-0000-0000-0000-000000000000'

export function createCrlStore(db: Pick<Database, 'query'>): CrlStore {
  return {
    issuerCertificates: () => db.query(ISSUER_CERTIFICATES, []),
    async states(issuerKey, parts, issuerFingerprints) {
      const rows = await db.query<StateRow>(STATES, [issuerKey])
      const counts = await db.query<SlotCount>(CHANGES, [issuerFingerprints])
      const listOf = new Map(rows.map((row) => [`${row.shards}-${row.shard}`, row]))
      const [{ now, slowNow }] = rows as [StateRow]
      return parts.map((part) => ({
        ...stateOf(listOf.get(`${part.shards}-${part.shard}`), changesOf(part, counts)),
        now,
        slowNow,
      }))
    },
    async raiseNumber(issuerKey, number) {
      await db.query(RAISE, [issuerKey, number])
    },
    begin: (scope, issuerFingerprints, maxLeadSeconds) => beginList(db, scope, issuerFingerprints, maxLeadSeconds),
    async page({ scope: { shards, shard }, issuerFingerprint, octets: [first, last], after, leftBefore, limit }) {
      const [octet, id] =
        after === undefined ? [first, FIRST_ID] : [Number.parseInt(after.slice(0, 2), 16), after.slice(2)]
      const values = [issuerFingerprint, leftBefore, shards, shard, octet, id, last, limit]
      const [row] = await db.query<{ rows: string | null; count: number; last: string }>(PAGE, values)
      return row?.rows ? { rows: row.rows, count: row.count, last: row.last } : undefined
    },
    duplicates: ({ shards, shard }, issuerFingerprints, leftBefore) =>
      db.query(DUPLICATES, [issuerFingerprints, leftBefore, shards, shard, everyOctetOf({ shards, shard })]),
    async putPiece(issuerKey, number, piece, der) {
      await db.query(PUT_PIECE, [issuerKey, number, piece, der])
    },
    async piece(issuerKey, number, piece) {
      return (await db.query<{ der: Buffer }>(PIECE, [issuerKey, number, piece]))[0]?.der
    },
    publish: (crl, draft, pieces) => publishList(db, crl, draft, pieces),
    async published() {
      return (await db.query<CrlRow>(PUBLISHED, [])).map(decode)
    },
    async retire(issuerKey, kept) {
      await db.query(RETIRE, [issuerKey, kept])
    },
    async requestRebuild() {
      await db.query(REQUEST, [])
    },
    async noteObstacle(reason) {
      await db.query(NOTE_OBSTACLE, [reason])
    },
    async lastRequest() {
      const [last] = await db.query<{ isOpen: boolean; obstacle: string | null }>(LAST_REQUEST, [])
      return last && { isOpen: last.isOpen, obstacle: last.obstacle ?? undefined }
    },
    async useShards(shards) {
      await db.query(USE_SHARDS, [shards])
    },
    async shardings(withinDays) {
      return (await db.query<{ shards: number }>(SHARDINGS, [withinDays])).map(({ shards }) => shards)
    },
  }
}

interface SlotCount {
  slot: number
  changes: number
}

interface StateRow extends CrlRow, Pick<CrlState, 'isRequested' | 'now' | 'slowNow'> {
  partChanges: number
  partBulkChanges: number
  bulkWaits: boolean
}

async function beginList(
  db: Pick<Database, 'query'>,
  { issuerKey, ...part }: CrlScope,
  issuerFingerprints: readonly Buffer[],
  maxLeadSeconds: number,
): Promise<CrlDraft> {
  const counts = await db.query<SlotCount>(CHANGES, [issuerFingerprints])
  const [row] = await db.query<DraftRow>(BEGIN, [issuerKey, part.shards, part.shard, maxLeadSeconds])
  const { number, previous, ...others } = row as DraftRow
  return {
    ...withoutNulls(others),
    number: BigInt(number),
    previous: previous === null ? undefined : BigInt(previous),
    changes: { part: changesOf(part, counts), issuer: changesOf(COMPLETE, counts) },
  }
}

async function publishList(
  db: Pick<Database, 'query'>,
  crl: NewCrl,
  draft: CrlDraft,
  pieces: number,
): Promise<boolean> {
  const values = [
    crl.issuerKey,
    crl.shards,
    crl.shard,
    crl.issuerId,
    crl.number,
    draft.changes.issuer.all,
    crl.thisUpdate,
    crl.nextUpdate,
    crl.entries,
    crl.bytes,
    draft.startedAt,
    draft.previous ?? null,
    pieces,
    draft.changes.issuer.bulk,
    draft.changes.part.all,
    draft.changes.part.bulk,
  ]
  if ((await db.query(PUBLISH, values)).length === 0) return false
  await db.query(DELETE_PIECES, [crl.issuerKey, draft.previous ?? crl.number])
  return true
}

function stateOf(row: StateRow | undefined, current: Changes): Omit<CrlState, 'now' | 'slowNow'> {
  if (!row) return { published: undefined, missing: current.all, isRequested: false }
  const { isRequested, bulkWaits, partChanges, partBulkChanges, now: _, slowNow: __, ...list } = row
  const waiting = bulkWaits ? Math.max(0, current.bulk - partBulkChanges) : 0
  return { published: decode(list), missing: Math.max(0, current.all - partChanges - waiting), isRequested }
}

function changesOf(part: CrlPart, counts: readonly SlotCount[]): Changes {
  const octets = new Set(everyOctetOf(part))
  const own = counts.filter(({ slot }) => octets.has(slot < 0 ? -1 - slot : slot))
  const sum = (of: readonly SlotCount[]) => of.reduce((total, { changes }) => total + changes, 0)
  return { all: sum(own), bulk: sum(own.filter(({ slot }) => slot < 0)) }
}

function everyOctetOf(part: CrlPart): number[] {
  return octetsOf(part).flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, at) => first + at))
}

const decode = (row: CrlRow): PublishedCrl => ({ ...row, number: BigInt(row.number) })
