/** SQL of decisions: which database this is, how far it has what was decided, and what a fail-over lost (migration 0033). */

import { type DatabaseIdentity, type Decision, type Outcome, subjectOf } from '../domain/decision.ts'
import type { Database, Statement } from './database.ts'
import { IN_INCARNATION } from './incarnation.ts'

export interface LostDecision {
  id: string
  at: Date
  by: string
  act: string
  /** The thing that it was about. */
  subject: string
  outcome: Outcome
  details: Record<string, unknown>
  /** Time of the last commit that the database had. */
  since: Date | null
  foundAt: Date
}

export interface DecisionStore {
  identity(): Promise<DatabaseIdentity>
  /** Instances take turns; in a transaction. @throws Error where this is another database meanwhile */
  lock(incarnation: string): Promise<void>
  /** For a copy that is to be a database of its own. @returns its new id */
  renewIdentity(): Promise<string>
  /** The line of a place up to which everything decided is here. @param place in hexadecimal */
  mark(place: string): Promise<number>
  /** Moves it forward, and never back. */
  move(place: string, line: number): Promise<void>
  /** The MACs of these audit entries that the log has, or that its retention has cut. */
  presentEntries(entries: readonly { sequence: number; mac: string }[]): Promise<Set<string>>
  /** The ids of these that a comparison has dealt with. */
  dealtWith(ids: readonly string[]): Promise<Set<string>>
  noteLost(decisions: readonly { decision: Decision; outcome: Outcome }[], since: Date | null): Promise<void>
  /**
   * Takes the lost decisions that no alarm has reported, in the order of their time; the next call has others. It takes none
   * while one of them was found within `minAgeMs`: all of a fail-over go together.
   */
  takeUntold(minAgeMs: number): Promise<LostDecision[]>
  /** Sessions begin in this database from now on. @param incarnation as `beginSession` reads it */
  noteCompared(incarnation: string): Promise<void>
}

const NO_IDENTITY = 'the database has lost its identity (table database_identity)'

const IDENTITY: Statement = { name: 'database-identity', text: 'SELECT id, key FROM database_identity' }

const RENEW: Statement = {
  name: 'database-identity-renew',
  text: `
    UPDATE database_identity
       SET id = gen_random_uuid(), key = decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')
    RETURNING id`,
}

const LOCK: Statement = {
  name: 'database-identity-lock',
  text: `SELECT one FROM database_identity WHERE ${IN_INCARNATION(1)} FOR UPDATE`,
}

const MARK: Statement = {
  name: 'decision-mark',
  // signer_marks_pkey
  text: "SELECT decisions_seq::double precision AS line FROM signer_marks WHERE chain = decode($1, 'hex')",
}

const MOVE: Statement = {
  name: 'decision-mark-move',
  text: `
    INSERT INTO signer_marks AS m (chain, decisions_seq) VALUES (decode($1, 'hex'), $2)
    ON CONFLICT (chain) DO UPDATE SET decisions_seq = EXCLUDED.decisions_seq, updated_at = now()
     WHERE m.decisions_seq < EXCLUDED.decisions_seq`,
}

const PRESENT: Statement = {
  name: 'audit-entries-present',
  // admin_audit_log_pkey
  text: `
    SELECT e.mac
      FROM unnest($1::bigint[], $2::text[]) AS e (sequence, mac), admin_audit_head h
     WHERE e.sequence <= h.cut_sequence
        OR EXISTS (SELECT FROM admin_audit_log a WHERE a.sequence = e.sequence AND a.mac = decode(e.mac, 'hex'))`,
}

const DEALT_WITH: Statement = {
  name: 'lost-decisions-known',
  // lost_decisions_pkey
  text: 'SELECT id FROM lost_decisions WHERE id = ANY ($1::uuid[])',
}

const COLUMNS = 'id, decided_at AS at, decided_by AS by, act, subject, outcome, details, since, found_at AS "foundAt"'

const TAKE_UNTOLD: Statement = {
  name: 'lost-decisions-untold',
  // lost_decisions_untold
  text: `
    WITH told AS (
      UPDATE lost_decisions SET told_at = now()
       WHERE told_at IS NULL AND ($1 = 0 OR NOT EXISTS (
             SELECT FROM lost_decisions WHERE told_at IS NULL AND found_at > now() - $1 * interval '1 ms'))
      RETURNING *)
    SELECT ${COLUMNS} FROM told ORDER BY decided_at, id`,
}

const NOTE_LOST: Statement = {
  name: 'lost-decisions-note',
  text: `
    INSERT INTO lost_decisions (id, decided_at, decided_by, act, subject, outcome, details, since)
    SELECT i.*, $8::timestamptz
      FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::text[], $5::text[], $6::text[], $7::jsonb[]) AS i
    ON CONFLICT DO NOTHING`,
}

const NOTE_COMPARED: Statement = {
  name: 'database-compared',
  text: `
    UPDATE database_identity SET compared = $1, former = array_remove(former || compared, NULL)
     WHERE compared IS DISTINCT FROM $1`,
}

export function createDecisionStore(db: Pick<Database, 'query'>): DecisionStore {
  return {
    async identity() {
      const [row] = await db.query<DatabaseIdentity>(IDENTITY, [])
      if (!row) throw new Error(NO_IDENTITY)
      return row
    },
    async renewIdentity() {
      const [row] = await db.query<{ id: string }>(RENEW, [])
      if (!row) throw new Error(NO_IDENTITY)
      return row.id
    },
    async lock(incarnation) {
      const [row] = await db.query(LOCK, [incarnation])
      if (!row) throw new Error('the database went back to an earlier time while it was compared')
    },
    mark: async (place) => (await db.query<{ line: number }>(MARK, [place]))[0]?.line ?? 0,
    async move(place, line) {
      await db.query(MOVE, [place, line])
    },
    async presentEntries(entries) {
      const values = [entries.map(({ sequence }) => sequence), entries.map(({ mac }) => mac)]
      const rows = entries.length > 0 ? await db.query<{ mac: string }>(PRESENT, values) : []
      return new Set(rows.map(({ mac }) => mac))
    },
    async dealtWith(ids) {
      const rows = ids.length > 0 ? await db.query<{ id: string }>(DEALT_WITH, [ids]) : []
      return new Set(rows.map(({ id }) => id))
    },
    async noteLost(lost, since) {
      if (lost.length === 0) return
      const columns = (['id', 'at', 'by', 'act'] as const).map((name) => lost.map(({ decision }) => decision[name]))
      const subjects = lost.map(({ decision }) => subjectOf(decision))
      const outcomes = lost.map(({ outcome }) => outcome)
      const details = lost.map(({ decision }) => JSON.stringify(decision.details))
      await db.query(NOTE_LOST, [...columns, subjects, outcomes, details, since])
    },
    takeUntold: (minAgeMs) => db.query<LostDecision>(TAKE_UNTOLD, [minAgeMs]),
    async noteCompared(incarnation) {
      await db.query(NOTE_COMPARED, [incarnation])
    },
  }
}
