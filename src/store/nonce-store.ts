/**
 * SQL of `nonce.store: database`: key epochs that all instances share, and which of their nonces are used.
 *
 * The redemptions of an epoch lie in one of four unlogged tables, emptied whole when its nonces
 * have expired. A crash of the database, a standby or a restore loses an unlogged table, and with
 * it which nonces are used. So each epoch begins with a mark, a row that names its table.
 * Redemptions count only while the mark exists; an epoch without it is over and replaced.
 */

import { randomInt } from 'node:crypto'
import type { Batched } from '../shared/lib/batcher.ts'
import { batched, type Database, type Statement } from './database.ts'

export interface NonceEpoch {
  id: number
  /** 32 random bytes. */
  key: Buffer
  madeAtMs: number
  /** Nonces are sealed under it from then on. */
  activeFromMs: number
}

interface Redemption {
  epochId: number
  /** Tenths of a second from the epoch to the nonce. */
  tick: number
  counter: number
}

export interface NonceStore {
  /** Epochs whose redemptions are all known, oldest first. */
  epochs(): Promise<NonceEpoch[]>
  /** A thread's own number below 2^24, which none of the last 2^24 threads had. */
  nextFixedField(): Promise<number>
  /** True for exactly one caller in all instances; false for all when the epoch has lost its redemptions. */
  redeem: Batched<Redemption, boolean>
  /** Makes an epoch unless the newest is intact and younger than `lifeSeconds`. @returns whether it did */
  renew(makeKey: () => Buffer, lifeSeconds: number): Promise<boolean>
  /** Empties the tables of epochs whose successor has been active for `expirySeconds`. @returns how many */
  sweep(expirySeconds: number): Promise<number>
}

/** Two epochs overlap while nonces of the first expire; the others leave room for a late sweep. */
const TABLES = 4
const tableOf = (epochId: number) => `nonce_redemptions_${epochId % TABLES}`

/**
 * After a loss, the random range of the next epoch's number. Threads that missed a restore may
 * still redeem under lost numbers; chance avoids those, and 2^53 suffices for two million losses.
 */
const LOST_IDS = 2 ** 32

/** Every instance looks for epochs several times in this span, and so knows one before its first nonce. */
export const EPOCH_LEAD_SECONDS = 5

/** An epoch made later than this from now is of a clock that was ahead, and is replaced. */
export const MOST_AHEAD_SECONDS = 300

/** Renewal and sweep, one at a time among all instances. */
const LOCK: Statement = { name: 'nonce-lock', text: 'SELECT pg_advisory_xact_lock(712102)' }

const isIntact = (epoch: string) =>
  `CASE ${epoch} % ${TABLES} ${Array.from({ length: TABLES }, (_, i) => `WHEN ${i} THEN ${hasMark(i, epoch)}`).join(' ')} END`

function hasMark(table: number, epoch: string): string {
  return `EXISTS (SELECT FROM nonce_redemptions_${table} m
    WHERE m.epoch = ${epoch} AND m.issued_tick = -1 AND m.counter = m.tableoid::bigint)`
}

const EPOCHS: Statement = {
  name: 'nonce-epochs',
  // At most a handful of rows; for each, its mark by primary key.
  text: `
    SELECT e.id::float8 AS id, e.key, extract(epoch FROM e.made_at)::float8 * 1000 AS "madeAtMs",
           extract(epoch FROM e.active_from)::float8 * 1000 AS "activeFromMs"
      FROM nonce_epochs e WHERE ${isIntact('e.id')} ORDER BY e.id`,
}

const NEWEST: Statement = {
  name: 'nonce-epoch-newest',
  text: `
    SELECT e.id::float8 AS id, ${isIntact('e.id')} AS intact, extract(epoch FROM now() - e.made_at)::float8 AS age
      FROM nonce_epochs e ORDER BY e.id DESC LIMIT 1`,
}

const MAKE: Statement = {
  name: 'nonce-epoch-make',
  text: 'INSERT INTO nonce_epochs (id, key, active_from) VALUES ($1, $2, now() + make_interval(secs => $3))',
}

const FORGET: Statement = { name: 'nonce-epoch-forget', text: 'DELETE FROM nonce_epochs WHERE id <= $1' }

const OVER: Statement = {
  name: 'nonce-epochs-over',
  text: `
    SELECT e.id::float8 AS id FROM nonce_epochs e JOIN nonce_epochs next ON next.id = e.id + 1
     WHERE next.active_from < slow_now() - make_interval(secs => $1) ORDER BY e.id`,
}

const NEXT_FIXED_FIELD: Statement = {
  name: 'nonce-fixed-field',
  text: "SELECT nextval('nonce_lanes')::integer AS fixed",
}

const statementsOf = (table: string): Record<'redeem' | 'mark' | 'empty', Statement> => ({
  redeem: {
    name: `nonce-redeem-${table}`,
    // The primary key, one row each. Sorted, so that two batches with the same replays cannot deadlock.
    text: `
      INSERT INTO ${table} (epoch, issued_tick, counter)
      SELECT i.epoch, i.tick, i.counter
        FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS i (epoch, tick, counter)
       WHERE EXISTS (SELECT FROM ${table} m
                      WHERE m.epoch = i.epoch AND m.issued_tick = -1 AND m.counter = m.tableoid::bigint)
       ORDER BY 1, 2, 3
      ON CONFLICT DO NOTHING
      RETURNING epoch::float8, issued_tick::float8 AS tick, counter::float8`,
  },
  mark: {
    name: `nonce-mark-${table}`,
    text: `INSERT INTO ${table} (epoch, issued_tick, counter) VALUES ($1, -1, '${table}'::regclass::oid::bigint)`,
  },
  empty: { name: `nonce-empty-${table}`, text: `TRUNCATE ${table}` },
})

const keyOf = (epoch: number, tick: number, counter: number) => `${epoch} ${tick} ${counter}`

export function createNonceStore(db: Database): NonceStore {
  const redeemers = Array.from({ length: TABLES }, (_, table) => {
    const { redeem } = statementsOf(tableOf(table))
    return batched(db, async (commands: readonly Redemption[]) => {
      const rows = await db.pipeline.run<{ epoch: number; tick: number; counter: number }>(redeem, [
        commands.map((c) => c.epochId),
        commands.map((c) => c.tick),
        commands.map((c) => c.counter),
      ])
      const fresh = new Set(rows.map(({ epoch, tick, counter }) => keyOf(epoch, tick, counter)))
      // When a batch holds a nonce twice, the first command redeems it.
      return commands.map(({ epochId, tick, counter }) => fresh.delete(keyOf(epochId, tick, counter)))
    })
  })

  return {
    epochs: () => db.query(EPOCHS, []),

    async nextFixedField() {
      const [row] = await db.query<{ fixed: number }>(NEXT_FIXED_FIELD, [])
      return row?.fixed as number
    },

    redeem: (command) => (redeemers[command.epochId % TABLES] as Batched<Redemption, boolean>)(command),

    renew: (makeKey, lifeSeconds) =>
      db.transaction(async (tx) => {
        await tx.query(LOCK, [])
        const [newest] = await tx.query<{ id: number; intact: boolean; age: number }>(NEWEST, [])
        if (newest?.intact && newest.age < lifeSeconds && newest.age > -MOST_AHEAD_SECONDS) return false
        const id = newest?.intact ? newest.id + 1 : (newest?.id ?? 0) + TABLES + randomInt(LOST_IDS)
        const { empty, mark } = statementsOf(tableOf(id))
        await tx.query(empty, [])
        await tx.query(FORGET, [id - TABLES])
        // Without an intact epoch nothing can be issued, so the new one is active at once.
        await tx.query(MAKE, [id, makeKey(), newest?.intact ? EPOCH_LEAD_SECONDS : 0])
        await tx.query(mark, [id])
        return true
      }),

    sweep: (expirySeconds) =>
      db.transaction(async (tx) => {
        await tx.query(LOCK, [])
        const over = await tx.query<{ id: number }>(OVER, [expirySeconds])
        for (const { id } of over) {
          await tx.query(statementsOf(tableOf(id)).empty, [])
          await tx.query(FORGET, [id])
        }
        return over.length
      }),
  }
}

export interface ConsumedNonce {
  nonce: string
  consumedAtMs: number
}

export interface NonceAuditStore {
  record(consumed: readonly ConsumedNonce[]): Promise<void>
  /** Deletes what is older. @returns how many rows */
  sweep(maxAgeSeconds: number): Promise<number>
}

const RECORD: Statement = {
  name: 'nonce-audit-record',
  text: `
    INSERT INTO nonce_audit (nonce, consumed_at)
    SELECT nonce, to_timestamp(ms / 1000) FROM unnest($1::text[], $2::float8[]) AS u (nonce, ms)`,
}

/** Bounds the time of a statement; rows of one millisecond leave together. */
const SWEEP_PAGE = 20_000

const SWEEP: Statement = {
  name: 'nonce-audit-sweep',
  // nonce_audit_time
  text: `
    WITH gone AS (
      DELETE FROM nonce_audit
       WHERE consumed_at <= (SELECT max(consumed_at) FROM (
               SELECT consumed_at FROM nonce_audit WHERE consumed_at < slow_now() - make_interval(secs => $1)
                ORDER BY consumed_at LIMIT ${SWEEP_PAGE}) page)
      RETURNING 1)
    SELECT count(*)::integer AS rows FROM gone`,
}

export function createNonceAuditStore(db: Pick<Database, 'query'>): NonceAuditStore {
  return {
    async record(consumed) {
      await db.query(RECORD, [consumed.map(({ nonce }) => nonce), consumed.map(({ consumedAtMs }) => consumedAtMs)])
    },
    async sweep(maxAgeSeconds) {
      for (let deleted = 0; ; ) {
        const [page] = await db.query<{ rows: number }>(SWEEP, [maxAgeSeconds])
        deleted += page?.rows ?? 0
        if ((page?.rows ?? 0) < SWEEP_PAGE) return deleted
      }
    },
  }
}
