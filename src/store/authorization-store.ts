/** SQL of authorizations and of the challenges inside them. */

import type { AuthorizationStatus } from '../domain/authorization-state.ts'
import type { Authorization, ChallengeAttempt } from '../domain/records.ts'
import type { Batched } from '../lib/batcher.ts'
import {
  type BuiltInType,
  CHALLENGE_TYPES,
  type ChallengeType,
  keyedType,
  type OfferedPlace,
} from '../protocol/challenge.ts'
import type { IdentifierType } from '../protocol/identifier.ts'
import { type Requester, STALE_ACCOUNT, type StaleAccount } from './account-store.ts'
import { batched, type Database, inRounds, type Statement } from './database.ts'
import type { AuthorizationCandidate } from './order-store.ts'

/** What became of a triggered challenge after one more attempt. */
export interface AttemptResult {
  authorizationId: string
  type: ChallengeType
  attempt: ChallengeAttempt
  /** Null while another attempt will follow. */
  outcome: 'valid' | 'invalid' | null
}

/** A challenge whose validation nobody is working on any more, with what a new attempt needs. */
export interface AbandonedChallenge {
  authorization: Authorization
  type: ChallengeType
  accountThumbprint: string
}

export interface AuthorizationStore {
  find: Batched<{ requester: Requester; authorizationId: string }, Authorization | StaleAccount | undefined>
  /** Pre-authorization (RFC 8555 §7.4.1). */
  create(requester: Requester, candidate: AuthorizationCandidate): Promise<Authorization | StaleAccount>
  /**
   * Challenge pending → processing, claimed by this instance. `moved` is true for exactly one of several callers; the
   * authorization is as it is after the call. Undefined when there is none, or it is another account's. `type` is as in
   * the challenge's id.
   */
  trigger: Batched<
    { requester: Requester; authorizationId: string; type: BuiltInType | OfferedPlace; instanceId: number },
    { authorization: Authorization; moved: boolean } | StaleAccount | undefined
  >
  /** Challenge processing → valid or invalid, or one try more; true where the authorization was still pending. */
  recordAttempt: Batched<AttemptResult, boolean>
  /** Gives up this instance's claims: its processing challenges are pending again (doc 1, Signals). @returns how many authorizations. */
  release(instanceId: number): Promise<number>
  /** Pending or valid → deactivated (RFC 8555 §7.5.2); undefined when it was neither. */
  deactivate(requester: Requester, authorizationId: string): Promise<Authorization | undefined>
  /** Takes over up to `limit` challenges of instances that are gone, and of this one's those without news for `staleSeconds`. */
  adopt(instanceId: number, staleSeconds: number, limit: number): Promise<AbandonedChallenge[]>
}

const COLUMNS = `z.id, z.account_id, z.identifier_type, z.identifier_value, z.wildcard, z.expires_at, z.token, z.offered,
           z.attempts,
           CASE WHEN z.status IN ('pending', 'valid') AND z.expires_at <= now() THEN 'expired' ELSE z.status END AS status`

const FIND: Statement = {
  name: 'authorization-find',
  // accounts_pkey, authorizations_pkey
  text: `
    SELECT i.ord::integer, a.id IS NULL AS stale, ${COLUMNS}
      FROM unnest($1::uuid[], $2::uuid[], $3::integer[]) WITH ORDINALITY AS i (id, account_id, key_version, ord)
      LEFT JOIN accounts a ON a.id = i.account_id AND a.key_version = i.key_version AND a.status = 'valid'
      LEFT JOIN authorizations z ON z.id = i.id`,
}

const CREATE: Statement = {
  name: 'authorization-create',
  text: `
    INSERT INTO authorizations AS z
           (id, account_id, identifier_type, identifier_value, wildcard, expires_at, token, offered)
    SELECT $3, a.id, $4, $5, $6, $7, $8, $9 FROM accounts a WHERE a.id = $1 AND a.key_version = $2 AND a.status = 'valid'
    RETURNING ${COLUMNS}`,
}

const TRIGGER: Statement = {
  name: 'challenge-trigger',
  // accounts_pkey, authorizations_pkey; one heap-only update each.
  text: `
    WITH i AS (
      SELECT n.*, a.id IS NULL AS stale
        FROM unnest($1::uuid[], $2::uuid[], $3::integer[], $4::text[], $5::integer[], $6::integer[]) WITH ORDINALITY
          AS n (id, account_id, key_version, type, place, instance_id, ord)
        LEFT JOIN accounts a ON a.id = n.account_id AND a.key_version = n.key_version AND a.status = 'valid'
    ), moved AS (
      UPDATE authorizations z
         SET attempts = z.attempts || jsonb_build_object(coalesce(i.type, z.offered[i.place]),
                                                         '{"status": "processing", "tries": 0}'::jsonb),
             validating_by = i.instance_id, validating_since = now()
        FROM i
       WHERE z.id = i.id AND z.account_id = i.account_id AND NOT i.stale
         AND z.status = 'pending' AND z.expires_at > now()
         AND (i.type = ANY (z.offered) OR z.offered[i.place] <> ALL ('{${Object.keys(CHALLENGE_TYPES)}}'::text[]))
         AND NOT z.attempts ? coalesce(i.type, z.offered[i.place])
      RETURNING i.ord, z.attempts
    )
    SELECT i.ord::integer, i.stale, moved.ord IS NOT NULL AS moved, moved.attempts AS new_attempts, ${COLUMNS}
      FROM i LEFT JOIN moved USING (ord) LEFT JOIN authorizations z ON z.id = i.id AND z.account_id = i.account_id`,
}

const RECORD_ATTEMPT: Statement = {
  name: 'challenge-record-attempt',
  // authorizations_pkey; a valid outcome also enters authorizations_reusable.
  text: `
    UPDATE authorizations z
       SET attempts = z.attempts || jsonb_build_object(i.type, i.attempt),
           status = coalesce(i.outcome, z.status),
           validating_by = CASE WHEN i.outcome IS NULL THEN z.validating_by END,
           validating_since = CASE WHEN i.outcome IS NULL THEN now() END
      FROM unnest($1::uuid[], $2::text[], $3::jsonb[], $4::text[]) WITH ORDINALITY AS i (id, type, attempt, outcome, ord)
     WHERE z.id = i.id AND z.status = 'pending' AND z.expires_at > now()
       AND z.attempts -> i.type ->> 'status' = 'processing'
    RETURNING i.ord::integer`,
}

const DEACTIVATE: Statement = {
  name: 'authorization-deactivate',
  text: `
    UPDATE authorizations z SET status = 'deactivated', validating_by = NULL, validating_since = NULL
      FROM accounts a
     WHERE z.id = $3 AND z.account_id = $1 AND a.id = $1 AND a.key_version = $2 AND a.status = 'valid'
       AND z.status IN ('pending', 'valid') AND z.expires_at > now()
    RETURNING ${COLUMNS}`,
}

/** Instances alive are those that hold their presence lock (instance-presence.ts). */
const ADOPT: Statement = {
  name: 'challenge-adopt',
  // authorizations_validating: as many rows as challenges are being validated.
  text: `
    WITH abandoned AS (
      SELECT id FROM authorizations
       WHERE validating_by IS NOT NULL AND status = 'pending' AND expires_at > now()
         AND CASE WHEN validating_by = $1 THEN validating_since < now() - make_interval(secs => $2)
                  ELSE validating_by NOT IN (SELECT live_instances()) END
       ORDER BY validating_since LIMIT $3 FOR UPDATE SKIP LOCKED
    )
    UPDATE authorizations z SET validating_by = $1, validating_since = now()
      FROM abandoned, accounts a WHERE z.id = abandoned.id AND a.id = z.account_id
    RETURNING a.thumbprint, ${COLUMNS}`,
}

const RELEASE: Statement = {
  name: 'challenge-release',
  // authorizations_validating
  text: `
    UPDATE authorizations z
       SET validating_by = NULL, validating_since = NULL,
           attempts = (SELECT coalesce(jsonb_object_agg(type, attempt), '{}') FROM jsonb_each(z.attempts) AS t (type, attempt)
                        WHERE attempt ->> 'status' <> 'processing')
     WHERE validating_by = $1 AND status = 'pending'
    RETURNING z.id`,
}

interface AuthorizationRow {
  id: string | null
  account_id: string
  identifier_type: IdentifierType
  identifier_value: string
  wildcard: boolean
  status: AuthorizationStatus
  expires_at: Date
  token: string
  offered: ChallengeType[]
  attempts: Partial<Record<ChallengeType, ChallengeAttempt>>
}

export function createAuthorizationStore(db: Database): AuthorizationStore {
  const find: AuthorizationStore['find'] = batched(async (commands) => {
    const rows = await db.query<AuthorizationRow & { ord: number; stale: boolean }>(FIND, [
      commands.map((c) => c.authorizationId),
      commands.map((c) => c.requester.accountId),
      commands.map((c) => c.requester.keyVersion),
    ])
    const results: (Authorization | StaleAccount | undefined)[] = commands.map(() => undefined)
    for (const row of rows) results[row.ord - 1] = row.stale ? STALE_ACCOUNT : row.id === null ? undefined : decode(row)
    return results
  })

  return {
    find,

    async create({ accountId, keyVersion }, candidate) {
      const rows = await db.query<AuthorizationRow>(CREATE, [
        accountId,
        keyVersion,
        candidate.id,
        candidate.identifier.type,
        candidate.identifier.value,
        candidate.wildcard,
        candidate.expiresAt,
        candidate.token,
        candidate.offered,
      ])
      return rows[0] ? decode(rows[0]) : STALE_ACCOUNT
    },

    trigger: batched(
      inRounds(
        async (commands) => {
          type Row = AuthorizationRow & {
            ord: number
            stale: boolean
            moved: boolean
            new_attempts: AuthorizationRow['attempts'] | null
          }
          const rows = await db.query<Row>(TRIGGER, [
            commands.map((c) => c.authorizationId),
            commands.map((c) => c.requester.accountId),
            commands.map((c) => c.requester.keyVersion),
            commands.map((c) => (typeof c.type === 'string' ? c.type : null)),
            commands.map((c) => (typeof c.type === 'number' ? c.type : null)),
            commands.map((c) => c.instanceId),
          ])
          const results: ({ authorization: Authorization; moved: boolean } | StaleAccount | undefined)[] = commands.map(
            () => undefined,
          )
          for (const row of rows) {
            if (row.stale) results[row.ord - 1] = STALE_ACCOUNT
            else if (row.id !== null)
              results[row.ord - 1] = {
                moved: row.moved,
                authorization: decode({ ...row, attempts: row.new_attempts ?? row.attempts }),
              }
          }
          // What could have moved and did not was changed while the statement waited for its row, which it read before.
          await Promise.all(
            results.map(async (result, i) => {
              const command = commands[i]
              if (
                typeof result !== 'object' ||
                result.moved ||
                !command ||
                !isPending(result.authorization, command.type)
              )
                return
              const current = await find(command)
              results[i] = typeof current === 'object' ? { moved: false, authorization: current } : current
            }),
          )
          return results
        },
        (command) => command.authorizationId,
      ),
    ),

    recordAttempt: batched(
      inRounds(
        async (commands: readonly AttemptResult[]) => {
          const rows = await db.query<{ ord: number }>(RECORD_ATTEMPT, [
            commands.map((c) => c.authorizationId),
            commands.map((c) => c.type),
            commands.map((c) => JSON.stringify(c.attempt)),
            commands.map((c) => c.outcome),
          ])
          const moved = new Set(rows.map((row) => row.ord))
          return commands.map((_, i) => moved.has(i + 1))
        },
        (command) => command.authorizationId,
      ),
    ),

    async release(instanceId) {
      return (await db.query(RELEASE, [instanceId])).length
    },

    async deactivate({ accountId, keyVersion }, authorizationId) {
      const rows = await db.query<AuthorizationRow>(DEACTIVATE, [accountId, keyVersion, authorizationId])
      return rows[0] && decode(rows[0])
    },

    async adopt(instanceId, staleSeconds, limit) {
      const rows = await db.query<AuthorizationRow & { thumbprint: string }>(ADOPT, [instanceId, staleSeconds, limit])
      return rows.flatMap((row) =>
        (Object.keys(row.attempts) as ChallengeType[])
          .filter((type) => row.attempts[type]?.status === 'processing')
          .map((type) => ({ authorization: decode(row), type, accountThumbprint: row.thumbprint })),
      )
    },
  }
}

function isPending({ status, offered, attempts }: Authorization, key: BuiltInType | OfferedPlace): boolean {
  const type = keyedType(key, offered)
  return status === 'pending' && type !== undefined && !(type in attempts)
}

function decode(row: AuthorizationRow): Authorization {
  return {
    id: row.id as string,
    accountId: row.account_id,
    identifier: { type: row.identifier_type, value: row.identifier_value },
    wildcard: row.wildcard,
    status: row.status,
    expiresAt: row.expires_at,
    token: row.token,
    offered: row.offered,
    attempts: row.attempts,
  }
}
