/**
 * SQL of challenges. A challenge, and the claim to validate it, are members of its authorization's
 * row (ARCHITECTURE.md, life of a challenge).
 */

import type { Authorization, ChallengeAttempt } from '../domain/records.ts'
import { CHALLENGE, type EventOf, statusAfter } from '../domain/states.ts'
import type { ValidationRecord } from '../domain/validation-attempt.ts'
import type { Batched } from '../shared/lib/batcher.ts'
import { keysOf } from '../shared/lib/encoding.ts'
import {
  type BuiltInType,
  CHALLENGE_TYPES,
  type ChallengeType,
  type OfferedPlace,
} from '../shared/protocol/challenge.ts'
import type { Requester, StaleAccount } from './account-store.ts'
import { type AuthorizationRow, COLUMNS, decode } from './authorization-row.ts'
import { movedByOrd, resultsByOrd, unlessStale } from './batch-results.ts'
import { batched, type Database, type Statement } from './database.ts'
import { account, authorization, challenge } from './status-sql.ts'

/** Result of one more attempt at a challenge. */
export interface AttemptResult {
  authorizationId: string
  type: ChallengeType
  attempt: ChallengeAttempt
  /** Null while another attempt will follow. */
  outcome: 'valid' | 'invalid' | null
  /** The instance whose claim the attempt ran under. After a take-over, the result is not recorded. */
  instanceId: number
  /**
   * Set when the attempt ran before any claim, with this account key. It counts if the challenge is
   * untouched and the account has that key, or under a claim made with it.
   */
  unclaimed?: { thumbprint: string }
  /** Bound that the proof sets on a valid outcome: the authorization ends at most this long from now. */
  validForSeconds?: number
  /** Until the next attempt is due; the claim counts as fresh until then. */
  retryInMs?: number
  /** Kept with the authorization. */
  evidence?: ValidationRecord
}

/**
 * A claim without an instance: released by one that stopped, or left for the challenge worker.
 * Instance ids are positive.
 */
export const NOBODY = 0

/** A challenge that this instance has just taken over, with all that an attempt needs. */
export interface AdoptedChallenge {
  authorization: Authorization
  type: ChallengeType
  /** Thumbprint of the account key that triggered it. */
  thumbprint: string
  /** Thumbprints of the account's other keys, oldest first. */
  formerThumbprints: readonly string[]
  /** Path of the account's URL at a former server. */
  accountPath: string | undefined
}

export interface AdoptionRules {
  /** Authorizations without a triggered challenge of these types are left to others. */
  types: readonly ChallengeType[]
  /** Claims of live instances count as lost after this long without renewal; absent: never. */
  staleSeconds?: number | undefined
  limit: number
}

export interface ChallengeStore {
  /**
   * Challenge pending → processing. The claim covers the whole authorization: it becomes this instance's (or
   * `NOBODY`'s) unless another instance has it. `moved` is true for exactly one of several callers, `mine` where the
   * claim is `instanceId`'s. `type` is as in the challenge's id; `formerThumbprints`: of the account's earlier keys,
   * oldest first.
   * @returns the authorization after the call; undefined when there is none, or another account's
   */
  trigger: Batched<Trigger, Triggered | StaleAccount | undefined>
  /**
   * Challenge processing → valid or invalid, or one try more. False when the authorization is
   * decided, expired or deactivated, or another instance took the claim.
   */
  recordAttempt: Batched<AttemptResult, boolean>
  /** Renews this instance's claim; false when the claim is lost, or nothing is left to validate. */
  renew: Batched<{ authorizationId: string; instanceId: number }, boolean>
  /**
   * Gives up this instance's claims: processing challenges are pending until a client triggers or
   * an instance adopts them. @returns how many authorizations
   */
  release(instanceId: number): Promise<number>
  /** Claims challenges of dead instances, and unclaimed ones. The limit counts authorizations. */
  adopt(instanceId: number, rules: AdoptionRules): Promise<AdoptedChallenge[]>
  /** Triggered challenges under this instance's claim that was not renewed in time, oldest first. */
  overdue(instanceId: number): Promise<{ authorizationId: string; types: ChallengeType[] }[]>
  /** Renews this instance's claims of these authorizations. */
  readopt(instanceId: number, authorizationIds: readonly string[]): Promise<AdoptedChallenge[]>
}

export interface Trigger {
  requester: Requester
  authorizationId: string
  type: BuiltInType | OfferedPlace
  instanceId: number
}

interface Triggered {
  authorization: Authorization
  moved: boolean
  mine: boolean
  formerThumbprints: readonly string[]
}

/** Type of the challenge: a built-in one by name, a module's by its place among the offered. */
const TRIGGERED = 'coalesce(i.type, z.offered[i.place])'

const TRIGGER: Statement = {
  name: 'challenge-trigger',
  // accounts_pkey, authorizations_pkey; one update each.
  text: `
    UPDATE authorizations z
       SET attempts = z.attempts || jsonb_build_object(
             ${TRIGGERED}, jsonb_build_object('status', ${challenge.after('claim')}, 'tries', 0, 'thumbprint', a.thumbprint)),
           validating_by = coalesce(nullif(z.validating_by, ${NOBODY}), i.instance_id), validating_since = now()
      FROM unnest($1::uuid[], $2::uuid[], $3::integer[], $4::integer[], $5::text[], $6::integer[]) WITH ORDINALITY
        AS i (id, account_id, key_version, instance_id, type, place, ord)
      JOIN accounts a ON a.id = i.account_id AND a.key_version = i.key_version AND a.status ${account.is('valid')}
     WHERE z.id = i.id AND z.account_id = i.account_id AND z.status ${authorization.is('pending')} AND z.expires_at > now()
       AND (i.type = ANY (z.offered) OR z.offered[i.place] <> ALL ('{${Object.keys(CHALLENGE_TYPES)}}'::text[]))
       AND coalesce(z.attempts -> ${TRIGGERED} ->> 'status', ${challenge.of('pending')}) ${challenge.allows('claim')}
    RETURNING i.ord::integer, a.former_thumbprints, z.validating_by = i.instance_id AS mine, ${COLUMNS}`,
}

/** Reads the challenges that `TRIGGER` did not move, after it: another statement may have moved them. */
const TRIGGERED_BEFORE: Statement = {
  name: 'challenge-triggered-before',
  // accounts_pkey, authorizations_pkey
  text: `
    SELECT i.ord::integer, a.id IS NULL AS stale, a.former_thumbprints,
           coalesce(z.validating_by = i.instance_id, false) AS mine, ${COLUMNS}
      FROM unnest($1::uuid[], $2::uuid[], $3::integer[], $4::integer[]) WITH ORDINALITY
        AS i (id, account_id, key_version, instance_id, ord)
      LEFT JOIN accounts a ON a.id = i.account_id AND a.key_version = i.key_version AND a.status ${account.is('valid')}
      LEFT JOIN authorizations z ON z.id = i.id AND z.account_id = i.account_id`,
}

const RECORD_ATTEMPT: Statement = {
  name: 'challenge-record-attempt',
  // authorizations_pkey, accounts_pkey; a valid outcome also enters authorizations_reusable. Only without a claim may a
  // concurrent deactivation leave the authorization valid; `issuance-begin` still refuses that account.
  text: `
    UPDATE authorizations z
       SET attempts = z.attempts || jsonb_build_object(i.type, i.attempt),
           status = coalesce(i.outcome, z.status),
           approved = z.approved OR i.attempt ? 'accepted',
           evidence = coalesce(i.evidence, z.evidence),
           expires_at = least(z.expires_at, now() + make_interval(secs => i.valid_for)),
           validating_by = CASE WHEN i.outcome IS NULL THEN i.instance_id END,
           validating_since = CASE WHEN i.outcome IS NULL THEN now() + make_interval(secs => i.retry_in) END
      FROM unnest($1::uuid[], $2::text[], $3::jsonb[], $4::text[], $5::integer[], $6::float8[], $7::float8[], $8::jsonb[],
                  $9::text[])
             WITH ORDINALITY AS i (id, type, attempt, outcome, instance_id, valid_for, retry_in, evidence, thumbprint, ord),
           accounts a
     WHERE z.id = i.id AND z.status ${authorization.allows('validated')} AND z.expires_at > now()
       AND a.id = z.account_id AND a.status ${account.is('valid')}
       AND CASE coalesce(z.attempts -> i.type ->> 'status', ${challenge.of('pending')})
             WHEN ${challenge.of('processing')} THEN z.validating_by = i.instance_id
                                    AND coalesce(z.attempts -> i.type ->> 'thumbprint' = i.thumbprint, true)
             WHEN ${challenge.of('pending')} THEN a.thumbprint = i.thumbprint
                                 AND coalesce(nullif(z.validating_by, ${NOBODY}), i.instance_id) = i.instance_id
             ELSE false END
    RETURNING i.ord::integer`,
}

/** Attempts of an authorization `z`, after `event` on those that allow it. */
const movedAttempts = (event: EventOf<typeof CHALLENGE>) => `(
         SELECT jsonb_object_agg(type, CASE WHEN attempt ->> 'status' ${challenge.allows(event)}
                                            THEN attempt || '{"status": "${statusAfter(CHALLENGE, event)}"}' ELSE attempt END)
           FROM jsonb_each(z.attempts) AS t (type, attempt))`

/** Challenges of a lost claim are pending or processing; a new claim makes them processing. */
const CLAIM = `validating_by = $1, validating_since = now(), attempts = ${movedAttempts('claim')}`

/** Instances alive are those that hold their presence lock (instance-presence.ts). */
/** Which of several paths the client used is not known any more. */
const FORMER_PATH = '(SELECT min(p.path) FROM account_paths p WHERE p.account_id = a.id) AS account_path'

const ADOPT: Statement = {
  name: 'challenge-adopt',
  // authorizations_validating: as many rows as challenges are being validated.
  // Who is not alive itself judges nobody: the database may have ended all presence connections.
  text: `
    WITH abandoned AS (
      SELECT id FROM authorizations
       WHERE validating_by IS NOT NULL AND validating_by <> $1 AND status ${authorization.is('pending')} AND expires_at > now()
         AND attempts ?| $2
         AND (validating_by NOT IN (SELECT live_instances()) AND $1 IN (SELECT live_instances())
              OR validating_since < now() - make_interval(secs => $3))
       ORDER BY validating_since LIMIT $4 FOR UPDATE SKIP LOCKED
    )
    UPDATE authorizations z SET ${CLAIM}
      FROM abandoned, accounts a WHERE z.id = abandoned.id AND a.id = z.account_id AND a.status ${account.is('valid')}
    RETURNING a.thumbprint, a.former_thumbprints, ${FORMER_PATH}, ${COLUMNS}`,
}

/** A trigger reaches the dispatcher milliseconds after its commit; one unknown there after this long is lost. */
const OVERDUE_SECONDS = 5
/** Rows of a page; rows taken up are renewed, and so move to the end. */
const MAX_OVERDUE = 4096

const OVERDUE: Statement = {
  name: 'challenge-overdue',
  // authorizations_validating
  text: `
    SELECT id, attempts FROM authorizations
     WHERE validating_by = $1 AND validating_since < now() - interval '${OVERDUE_SECONDS} seconds'
       AND status ${authorization.is('pending')} AND expires_at > now()
     ORDER BY validating_since LIMIT ${MAX_OVERDUE}`,
}

const READOPT: Statement = {
  name: 'challenge-readopt',
  // authorizations_pkey, accounts_pkey
  text: `
    UPDATE authorizations z SET ${CLAIM}
      FROM accounts a
     WHERE z.id = ANY ($2::uuid[]) AND z.validating_by = $1 AND z.status ${authorization.is('pending')} AND z.expires_at > now()
       AND a.id = z.account_id AND a.status ${account.is('valid')}
    RETURNING a.thumbprint, a.former_thumbprints, ${FORMER_PATH}, ${COLUMNS}`,
}

const RENEW: Statement = {
  name: 'challenge-renew',
  // authorizations_pkey
  text: `
    UPDATE authorizations z SET validating_since = now()
      FROM unnest($1::uuid[], $2::integer[]) WITH ORDINALITY AS i (id, instance_id, ord)
     WHERE z.id = i.id AND z.validating_by = i.instance_id AND z.status ${authorization.is('pending')} AND z.expires_at > now()
    RETURNING i.ord::integer`,
}

const RELEASE: Statement = {
  name: 'challenge-release',
  // authorizations_validating
  text: `
    UPDATE authorizations z
       SET validating_by = ${NOBODY}, validating_since = now(), attempts = ${movedAttempts('release')}
     WHERE validating_by = $1 AND status ${authorization.is('pending')}
    RETURNING z.id`,
}

export function createChallengeStore(db: Database): ChallengeStore {
  const moveChallenge = batched(
    db,
    async (commands: readonly Trigger[]) => {
      const rows = await db.pipeline.run<TriggeredRow>(TRIGGER, [
        ...triggerParameters(commands),
        commands.map((c) => (typeof c.type === 'string' ? c.type : null)),
        commands.map((c) => (typeof c.type === 'number' ? c.type : null)),
      ])
      return resultsByOrd(rows, commands, (row) => decodeTriggered(row, true))
    },
    { keyOf: (command) => command.authorizationId },
  )

  const findUnmoved = batched(db, async (commands: readonly Trigger[]) => {
    const rows = await db.pipeline.run<TriggeredRow & { stale: boolean }>(TRIGGERED_BEFORE, triggerParameters(commands))
    const decodeUnmoved = (row: TriggeredRow) => decodeTriggered(row, false)
    return resultsByOrd(rows, commands, unlessStale(decodeUnmoved))
  })

  return {
    trigger: async (command) => (await moveChallenge(command)) ?? findUnmoved(command),

    recordAttempt: batched(
      db,
      async (commands: readonly AttemptResult[]) => {
        const rows = await db.pipeline.run<{ ord: number }>(RECORD_ATTEMPT, [
          commands.map((c) => c.authorizationId),
          commands.map((c) => c.type),
          commands.map((c) => JSON.stringify(c.attempt)),
          commands.map((c) => c.outcome),
          commands.map((c) => c.instanceId),
          commands.map((c) => c.validForSeconds ?? null),
          commands.map((c) => (c.retryInMs ?? 0) / 1000),
          commands.map((c) => (c.evidence ? JSON.stringify(c.evidence) : null)),
          commands.map((c) => c.unclaimed?.thumbprint ?? null),
        ])
        return movedByOrd(rows, commands)
      },
      { keyOf: (command) => command.authorizationId },
    ),

    renew: batched(
      db,
      async (commands) => {
        const rows = await db.pipeline.run<{ ord: number }>(RENEW, [
          commands.map((c) => c.authorizationId),
          commands.map((c) => c.instanceId),
        ])
        return movedByOrd(rows, commands)
      },
      { keyOf: (command) => command.authorizationId },
    ),

    async release(instanceId) {
      return (await db.query(RELEASE, [instanceId])).length
    },

    async adopt(instanceId, { types, staleSeconds, limit }) {
      return decodeAdopted(await db.query<AdoptedRow>(ADOPT, [instanceId, types, staleSeconds ?? null, limit]))
    },

    async overdue(instanceId) {
      const rows = await db.query<Pick<AuthorizationRow, 'attempts'> & { id: string }>(OVERDUE, [instanceId])
      return rows.map(({ id, attempts }) => ({ authorizationId: id, types: processing(attempts) }))
    },

    async readopt(instanceId, authorizationIds) {
      return decodeAdopted(await db.query<AdoptedRow>(READOPT, [instanceId, authorizationIds]))
    },
  }
}

type TriggeredRow = AuthorizationRow & { ord: number; mine: boolean; former_thumbprints: string[] }

const triggerParameters = (commands: readonly Trigger[]) => [
  commands.map((c) => c.authorizationId),
  commands.map((c) => c.requester.accountId),
  commands.map((c) => c.requester.keyVersion),
  commands.map((c) => c.instanceId),
]

function decodeTriggered(row: TriggeredRow, moved: boolean): Triggered {
  return { moved, mine: row.mine, authorization: decode(row), formerThumbprints: row.former_thumbprints }
}

type AdoptedRow = AuthorizationRow & { thumbprint: string; former_thumbprints: string[]; account_path: string | null }

function decodeAdopted(rows: readonly AdoptedRow[]): AdoptedChallenge[] {
  return rows.flatMap((row) =>
    processing(row.attempts).map((type) => {
      const thumbprint = row.attempts[type]?.thumbprint ?? row.thumbprint
      const formerThumbprints = [...row.former_thumbprints, row.thumbprint].filter((other) => other !== thumbprint)
      const accountPath = row.account_path ?? undefined
      return { authorization: decode(row), type, thumbprint, formerThumbprints, accountPath }
    }),
  )
}

function processing(attempts: AuthorizationRow['attempts']): ChallengeType[] {
  return keysOf(attempts as Record<ChallengeType, ChallengeAttempt>).filter(
    (type) => attempts[type]?.status === 'processing',
  )
}
