/**
 * SQL of certificate revocation lists: revoked certificates in pages, CRL numbers, finished lists in pieces.
 *
 * A list is published by compare-and-swap on its predecessor (`publish`). So its rows were read after the predecessor
 * was
 * published, and it keeps all of the predecessor's entries that have not left. When two builders run at once, one
 * builds in
 * vain, and no revocation disappears for a moment.
 */

import { ISSUER_CERTIFICATES } from './certificate-store.ts'
import type { Database, Statement } from './database.ts'
import { bulkRevocation } from './status-sql.ts'

/**
 * Which certificates a list covers: all of an issuer (1 and 0), or those whose serial number has
 * this remainder.
 */
export interface CrlScope {
  /** SHA-256 of the issuer's name and key identifier. */
  issuerKey: Buffer
  shards: number
  shard: number
}

export interface PublishedCrl extends CrlScope {
  issuerId: string
  number: bigint
  thisUpdate: Date
  nextUpdate: Date
  entries: number
  bytes: number
  startedAt: Date
}

/** How far the served list is behind the database. */
export interface CrlState {
  published: PublishedCrl | undefined
  /** Revocations that the list may lack, but those of a bulk revocation under way: it gets a list at its end. */
  missing: number
  /** A new list was requested after this one was begun. */
  isRequested: boolean
  /** The database's clock, which sets all times of lists. */
  now: Date
}

/** The beginning of a build. */
export interface CrlDraft {
  number: bigint
  /** Highest number a list may have by now; the signer refuses more. */
  highest: bigint
  /** Number of the list it follows. */
  previous: bigint | undefined
  previousThisUpdate: Date | undefined
  changes: number
  /** The share of bulk revocations in `changes`. */
  bulkChanges: number
  startedAt: Date
}

/**
 * Revoked certificates as text, one word each: serial number in hexadecimal, Unix seconds, reason,
 * joined by dots.
 */
export interface CrlPage {
  rows: string
  count: number
  lastId: string
}

export interface CrlPageQuery {
  scope: CrlScope
  issuerFingerprint: Buffer
  /** Reads certificates after this id; undefined starts at the first. */
  afterId: string | undefined
  /** A certificate has left the list if it expired and was revoked before this (RFC 5280 §3.3). */
  leftBefore: Date
  limit: number
}

export interface CrlStore {
  /** Issuer certificates with their SHA-256. The caller compares name and key with its issuer. */
  issuerCertificates(): Promise<{ fingerprint: Buffer; certificate: Buffer }[]>
  state(scope: CrlScope, issuerFingerprints: readonly Buffer[]): Promise<CrlState>
  /**
   * Draws the next number; the build must read its rows afterwards. Unless a published one is
   * higher, it is at most `maxLeadSeconds` above the Unix time.
   */
  begin(scope: CrlScope, issuerFingerprints: readonly Buffer[], maxLeadSeconds: number): Promise<CrlDraft>
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
   * Replaces `draft.previous` by the list, and deletes pieces older than that or above
   * `draft.highest`. False when another list replaced it first, or pieces are missing.
   */
  publish(crl: Omit<PublishedCrl, 'startedAt'>, draft: CrlDraft, pieces: number): Promise<boolean>
  published(): Promise<PublishedCrl[]>
  /** Asks the builder on any instance for new lists. */
  requestRebuild(): Promise<void>
  /** Records for the last request why there is no list yet. */
  noteObstacle(reason: string): Promise<void>
  /** The last rebuild: whether it still waits for a newer list, and why, if that is known. */
  lastRequest(): Promise<{ isOpen: boolean; obstacle: string | undefined } | undefined>
  /** Records that certificates are issued under this count of shards. */
  useShards(shards: number): Promise<void>
  /** Counts of shards used for certificates within the last so many days. */
  shardings(withinDays: number): Promise<number[]>
}

const REQUEST_KEY = 'crl_rebuild'

/** During a longer bulk revocation, lists come at this interval. */
const BULK_SECONDS = 300
/** A job without progress for so long has lost its instance, and another takes it up. */
const STANDING_SECONDS = 30

/** Slots below zero are for bulk revocations (`count_revocations`). */
const CHANGES = `
  SELECT coalesce(sum(changes), 0)::double precision AS changes,
         coalesce(sum(changes) FILTER (WHERE slot < 0), 0)::double precision AS bulk_changes
    FROM crl_changes WHERE issuer_fingerprint = ANY ($4)`

const STATE: Statement = {
  name: 'crl-state',
  // crls_pkey, crl_changes_pkey (at most 32 rows an issuer certificate), server_settings_pkey, bulk_revocations_open
  text: `
    SELECT c.*, x.changes AS current_changes, x.bulk_changes AS current_bulk_changes, now() AS now,
           coalesce((SELECT updated_at > c.started_at FROM server_settings WHERE key = '${REQUEST_KEY}'), false) AS requested,
           c.started_at > now() - interval '${BULK_SECONDS} s' AND EXISTS (
             SELECT FROM bulk_revocations WHERE status ${bulkRevocation.is('revoking')} AND progressed_at > now() - interval '${STANDING_SECONDS} s'
           ) AS bulk_waits
      FROM (${CHANGES}) x
      LEFT JOIN crls c ON c.issuer_key = $1 AND c.shards = $2 AND c.shard = $3`,
}

const BEGIN: Statement = {
  name: 'crl-begin',
  // At least the Unix time, so that numbers rise even after an older database is restored. A number
  // too far above it was never signed, so the next follows the published ones.
  text: `
    WITH drawn AS (
      INSERT INTO crl_numbers AS n (issuer_key, last_number) VALUES ($1, extract(epoch FROM now())::bigint)
      ON CONFLICT (issuer_key) DO UPDATE SET last_number = greatest(
        EXCLUDED.last_number,
        CASE WHEN n.last_number < EXCLUDED.last_number + $5::bigint THEN n.last_number + 1
             ELSE (SELECT max(p.number) + 1 FROM crls p WHERE p.issuer_key = $1) END)
      RETURNING last_number
    )
    SELECT d.last_number::text AS number, (extract(epoch FROM now())::bigint + $5::bigint)::text AS highest,
           now() AS started_at, c.number::text AS previous,
           c.this_update AS previous_this_update, x.changes, x.bulk_changes
      FROM drawn d CROSS JOIN (${CHANGES}) x LEFT JOIN crls c ON c.issuer_key = $1 AND c.shards = $2 AND c.shard = $3`,
}

/** The parameters 2 to 4 are `leftBefore`, the number of parts, and the part. */
const ON_LIST = `revoked_at IS NOT NULL
               AND (not_after >= $2 OR revoked_at >= $2)
               AND ($3 = 1 OR (get_byte(serial_number, length(serial_number) - 2) * 256
                               + get_byte(serial_number, length(serial_number) - 1)) % $3 = $4)`

const PAGE: Statement = {
  name: 'crl-page',
  // certificates_revoked alone. The last two octets of any serial number are as good as random.
  text: `
    SELECT string_agg(encode(serial_number, 'hex') || '.' || extract(epoch FROM revoked_at)::bigint || '.' ||
                      coalesce(revocation_reason, 0), ' ') AS rows,
           count(*)::integer AS count, max(id::text COLLATE "C") AS last_id
      FROM (SELECT id, serial_number, revoked_at, revocation_reason, not_after FROM certificates
             WHERE issuer_fingerprint = $1 AND ${ON_LIST} AND id > $5
             ORDER BY id LIMIT $6) page`,
}

const DUPLICATES: Statement = {
  name: 'crl-duplicates',
  // certificates_revoked; only for issuers that were renewed
  text: `
    SELECT encode(issuer_fingerprint, 'hex') AS "issuerFingerprint", encode(serial_number, 'hex') AS "serialNumber"
      FROM (SELECT issuer_fingerprint, serial_number,
                   row_number() OVER (PARTITION BY serial_number ORDER BY revoked_at, id) AS place
              FROM certificates WHERE issuer_fingerprint = ANY ($1) AND ${ON_LIST}) r
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
                        started_at, bulk_changes)
      SELECT $1, $2, $3, $4, $5::bigint, $6, $7, $8, $9, $10, $11, $14
       WHERE (SELECT count(*) FROM crl_pieces p WHERE p.issuer_key = $1 AND p.number = $5::bigint) = $13
      ON CONFLICT (issuer_key, shards, shard) DO UPDATE
        SET issuer_id = EXCLUDED.issuer_id, number = EXCLUDED.number, changes = EXCLUDED.changes,
            this_update = EXCLUDED.this_update, next_update = EXCLUDED.next_update, entries = EXCLUDED.entries,
            bytes = EXCLUDED.bytes, started_at = EXCLUDED.started_at, bulk_changes = EXCLUDED.bulk_changes,
            built_at = now()
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
    DELETE FROM crl_pieces p WHERE p.issuer_key = $1 AND (p.number < $2 OR p.number > $3)
       AND NOT EXISTS (SELECT FROM crls c WHERE c.issuer_key = p.issuer_key AND c.number = p.number)`,
}

const PUBLISHED: Statement = { name: 'crl-published', text: 'SELECT * FROM crls ORDER BY issuer_id, shards, shard' }

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
  text: 'SELECT shards FROM crl_shardings WHERE last_used_at > now() - make_interval(days => $1) ORDER BY shards',
}

interface CrlRow {
  issuer_key: Buffer
  shards: number
  shard: number
  issuer_id: string
  number: string
  changes: string
  bulk_changes: string
  this_update: Date
  next_update: Date
  entries: number
  bytes: string
  started_at: Date
}

interface DraftRow {
  number: string
  highest: string
  started_at: Date
  previous: string | null
  previous_this_update: Date | null
  changes: number
  bulk_changes: number
}

const FIRST_ID = '00000000-0000-0000-0000-000000000000'

export function createCrlStore(db: Pick<Database, 'query'>): CrlStore {
  return {
    issuerCertificates: () => db.query(ISSUER_CERTIFICATES, []),
    state: (scope, issuerFingerprints) => readState(db, scope, issuerFingerprints),
    async begin({ issuerKey, shards, shard }, issuerFingerprints, maxLeadSeconds) {
      const [row] = await db.query<DraftRow>(BEGIN, [issuerKey, shards, shard, issuerFingerprints, maxLeadSeconds])
      const { number, highest, started_at, previous, previous_this_update, changes, bulk_changes } = row as DraftRow
      return {
        number: BigInt(number),
        highest: BigInt(highest),
        previous: previous === null ? undefined : BigInt(previous),
        previousThisUpdate: previous_this_update ?? undefined,
        changes,
        bulkChanges: bulk_changes,
        startedAt: started_at,
      }
    },
    async page({ scope, issuerFingerprint, afterId, leftBefore, limit }) {
      type Row = { rows: string | null; count: number; last_id: string }
      const values = [issuerFingerprint, leftBefore, scope.shards, scope.shard, afterId ?? FIRST_ID, limit]
      const [row] = await db.query<Row>(PAGE, values)
      return row?.rows ? { rows: row.rows, count: row.count, lastId: row.last_id } : undefined
    },
    duplicates: ({ shards, shard }, issuerFingerprints, leftBefore) =>
      db.query(DUPLICATES, [issuerFingerprints, leftBefore, shards, shard]),
    async putPiece(issuerKey, number, piece, der) {
      await db.query(PUT_PIECE, [issuerKey, number, piece, der])
    },
    async piece(issuerKey, number, piece) {
      return (await db.query<{ der: Buffer }>(PIECE, [issuerKey, number, piece]))[0]?.der
    },
    async publish(crl, draft, pieces) {
      const values = [
        crl.issuerKey,
        crl.shards,
        crl.shard,
        crl.issuerId,
        crl.number,
        draft.changes,
        crl.thisUpdate,
        crl.nextUpdate,
        crl.entries,
        crl.bytes,
        draft.startedAt,
        draft.previous ?? null,
        pieces,
        draft.bulkChanges,
      ]
      if ((await db.query(PUBLISH, values)).length === 0) return false
      await db.query(DELETE_PIECES, [crl.issuerKey, draft.previous ?? crl.number, draft.highest])
      return true
    },
    async published() {
      return (await db.query<CrlRow>(PUBLISHED, [])).map(decode)
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

async function readState(
  db: Pick<Database, 'query'>,
  { issuerKey, shards, shard }: CrlScope,
  issuerFingerprints: readonly Buffer[],
): Promise<CrlState> {
  type Row = Omit<CrlRow, 'number'> & {
    number: string | null
    current_changes: number
    current_bulk_changes: number
    bulk_waits: boolean | null
    requested: boolean
    now: Date
  }
  const [row] = await db.query<Row>(STATE, [issuerKey, shards, shard, issuerFingerprints])
  const { number, current_changes, current_bulk_changes, bulk_waits, requested, now, ...rest } = row as Row
  if (number === null) return { published: undefined, missing: current_changes, isRequested: requested, now }
  const waiting = bulk_waits ? Math.max(0, current_bulk_changes - Number(rest.bulk_changes)) : 0
  const missing = Math.max(0, current_changes - Number(rest.changes) - waiting)
  return { published: decode({ ...rest, number }), missing, isRequested: requested, now }
}

function decode(row: CrlRow): PublishedCrl {
  return {
    issuerKey: row.issuer_key,
    shards: row.shards,
    shard: row.shard,
    issuerId: row.issuer_id,
    number: BigInt(row.number),
    thisUpdate: row.this_update,
    nextUpdate: row.next_update,
    entries: row.entries,
    bytes: Number(row.bytes),
    startedAt: row.started_at,
  }
}
