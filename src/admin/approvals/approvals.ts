/**
 * Four eyes. An act that needs approval is kept as it was sent; another person's decision checks it
 * again and lets it happen, under its maker's name. Decision and act are one transaction.
 */

import { isDeepStrictEqual } from 'node:util'
import type { CommonQueryMethods, DatabasePool } from 'slonik'
import { AdminError, notFound } from '../../domain/admin-error.ts'
import type { Actor, Role } from '../../domain/administrator.ts'
import {
  type ActToApprove,
  obstacleToDecision,
  type SentValues,
  shareReply,
  withoutSession,
} from '../../domain/approval.ts'
import { isScoped } from '../../domain/permissions.ts'
import type { SecretBox } from '../../shared/lib/secret-box.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { findUser } from '../../store/user-store.ts'
import type { AuditLog, Permit } from '../audit/audit-log.ts'
import { requireSameAuthority } from '../users/sessions.ts'
import type { SignedIn } from '../users/sign-in.ts'
import {
  type ApprovalRow,
  countWaitingOf,
  findApproval,
  forgetOld,
  insertApproval,
  keepResult,
  lockApproval,
  noteDecision,
  readInput,
  takeResult,
} from './approval-store.ts'

interface WantedApproval {
  /** operationId. */
  operation: string
  input: SentValues
  wanted: ActToApprove
  reason: string | undefined
}

/** An act that another person has approved. */
export interface ApprovedAct {
  /** The request has this id. */
  id: string
  maker: Actor
  most: number | null
  /** The log that permits it. */
  audit: AuditLog
}

/** The operations of the Admin API. */
export interface Operations {
  /** None for an operation that this release does not know. */
  rolesOf(operation: string): readonly Role[]
  /** The act as it would be now; undefined when nobody has to approve it any more. */
  describe(
    operation: string,
    input: SentValues,
    by: Pick<ApprovedAct, 'id' | 'maker'>,
    db: CommonQueryMethods,
  ): Promise<ActToApprove | undefined>
  /** @returns the reply, where it has what can be shown only once */
  perform(operation: string, input: SentValues, act: ApprovedAct): Promise<{ secret: unknown }>
}

interface ApprovalsOptions {
  db: DatabasePool
  audit: AuditLog
  operations: Operations
  expireAfterHours: number
  /** For replies that wait for their maker; they may have a password. */
  box(): SecretBox
}

/** More would bury what another person has to read. */
const MOST_WAITING_OF_ONE = 20
const KEPT_DAYS = 90
const HOUR_MS = 3_600_000

/** A registrar sees only its own requests: another request may name a team that is not its own. @returns the maker, or undefined for all */
export const makerSeenBy = ({ role, userId }: SignedIn): string | undefined => (isScoped(role) ? userId : undefined)

export class Approvals {
  readonly #options: ApprovalsOptions

  constructor(options: ApprovalsOptions) {
    this.#options = options
  }

  /** Keeps the act for another person. @throws AdminError approval_needed without a reason */
  async request(author: SignedIn, { operation, input, wanted, reason }: WantedApproval): Promise<ApprovalRow> {
    const { audit, expireAfterHours } = this.#options
    if (reason === undefined)
      throw new AdminError('approval_needed', `another person must approve this: ${wanted.summary}`)
    const id = uuidv7(Date.now())
    return audit.transaction(author, async (tx, note) => {
      await forgetOld(tx, KEPT_DAYS)
      if ((await countWaitingOf(tx, author.userId)) >= MOST_WAITING_OF_ONE)
        throw new AdminError(
          'conflict',
          `you have ${MOST_WAITING_OF_ONE} requests that wait for a decision; withdraw one first`,
        )
      const row = await insertApproval(tx, {
        ...wanted,
        id,
        operation,
        input,
        reason,
        maker: { ...withoutSession(author), userId: author.userId },
        expiresAt: new Date(Date.now() + expireAfterHours * HOUR_MS),
      })
      note('approval.request', { ...factsOf(row), changes: row.facts, reason })
      return row
    })
  }

  /**
   * Lets the act happen, once.
   * @returns with the decider's half of a password
   * @throws AdminError conflict, forbidden, and what the act itself throws
   */
  async approve(decider: SignedIn, id: string): Promise<{ row: ApprovalRow; half: string | undefined }> {
    const { db, audit, operations } = this.#options
    const { found, input } = await audit.transaction(decider, async (tx) => {
      const row = await this.require(tx, id)
      await this.#requireDecider(tx, row, decider)
      return { found: row, input: await readInput(tx, id) }
    })
    const permit: Permit = {
      author: decider,
      details: { approval_id: id, approved_by: decider.username },
      work: async (tx, note) => {
        const row = await this.#lock(tx, id)
        await this.#requireDecider(tx, row, decider)
        await requireSameAuthority(tx, row.maker)
        await this.#requireSameAct(tx, row, input)
        await noteDecision(tx, id, { decision: 'approved', by: decider, reason: undefined })
        note('approval.approve', factsOf(row))
      },
    }
    const { operation, maker, most } = found
    const { secret } = await operations.perform(operation, input, { id, maker, most, audit: audit.permitted(permit) })
    const row = await this.require(db, id)
    if (row.decision === null) throw new Error(`${operation} changed nothing in a transaction of its own`)
    const { maker: kept, decider: half } = shareReply(secret)
    // A crash before this loses a reply, as a broken connection would; what was done stays done, once.
    if (kept !== undefined) await keepResult(db, id, this.#options.box().seal(Buffer.from(JSON.stringify(kept)), id))
    return { row: await this.require(db, id), half }
  }

  /** All of what was asked for, as it was sent. @throws AdminError not_found */
  async input(id: string, makerId?: string): Promise<{ operation: string; input: SentValues }> {
    const { db } = this.#options
    const { operation } = await this.require(db, id, makerId)
    return { operation, input: await readInput(db, id) }
  }

  reject(decider: SignedIn, id: string, reason: string): Promise<ApprovalRow> {
    return this.#options.audit.transaction(decider, async (tx, note) => {
      const row = await this.#lock(tx, id)
      await this.#requireDecider(tx, row, decider)
      await noteDecision(tx, id, { decision: 'rejected', by: decider, reason })
      note('approval.reject', { ...factsOf(row), reason })
      return this.require(tx, id)
    })
  }

  /** @throws AdminError forbidden for the request of another person */
  withdraw(author: SignedIn, id: string): Promise<ApprovalRow> {
    return this.#options.audit.transaction(author, async (tx, note) => {
      const row = await this.#lock(tx, id, makerSeenBy(author))
      if (row.maker_id !== author.userId) throw new AdminError('forbidden', 'only who has asked for it may withdraw it')
      if (row.decision !== null) throw new AdminError('conflict', `the request is ${row.decision} already`)
      await noteDecision(tx, id, { decision: 'withdrawn', by: author, reason: undefined })
      note('approval.withdraw', factsOf(row))
      return this.require(tx, id)
    })
  }

  /** The reply of an approved act, for its maker, once. A token's maker sees it by a login, too. */
  collect(author: SignedIn, id: string): Promise<{ operation: string; reply: unknown }> {
    return this.#options.audit.transaction(author, async (tx, note) => {
      const row = await this.#lock(tx, id, makerSeenBy(author))
      // A stolen token must not learn a password that its maker has asked for by a login.
      const isMaker = row.maker_id === author.userId
      if (!isMaker || (author.apiTokenId !== undefined && author.apiTokenId !== row.maker.apiTokenId))
        throw new AdminError('forbidden', 'only who has asked for it may collect it')
      if (!this.#options.operations.rolesOf(row.operation).includes(author.role))
        throw new AdminError('forbidden', 'only who may still do this may collect the reply')
      const sealed = await takeResult(tx, id)
      const opened = sealed && this.#options.box().open(sealed, id)
      if (!opened) throw new AdminError('conflict', 'there is no reply, or it was collected already')
      note('approval.collect', factsOf(row))
      return { operation: row.operation, reply: JSON.parse(opened.toString()) }
    })
  }

  /** @throws AdminError not_found */
  async require(db: CommonQueryMethods, id: string, makerId?: string): Promise<ApprovalRow> {
    return (await findApproval(db, id, makerId)) ?? Promise.reject(notFound('request for approval'))
  }

  async #lock(tx: CommonQueryMethods, id: string, makerId?: string): Promise<ApprovalRow> {
    return (await lockApproval(tx, id, makerId)) ?? Promise.reject(notFound('request for approval'))
  }

  /** A bulk revocation counts for itself: its number may shrink. */
  async #requireSameAct(tx: CommonQueryMethods, row: ApprovalRow, input: SentValues): Promise<void> {
    const { act, operation, summary, facts } = row
    if (act === 'bulk_revocation') return
    const now = await this.#options.operations.describe(operation, input, row, tx)
    if (!now || isDeepStrictEqual([now.summary, now.facts], [summary, facts])) return
    throw new AdminError(
      'conflict',
      `this is no longer what was asked for; it would now be: ${now.summary}; reject it, so that it is asked for again`,
    )
  }

  async #requireDecider(db: CommonQueryMethods, row: ApprovalRow, decider: Actor): Promise<void> {
    const user = decider.userId === undefined ? null : await findUser(db, decider.userId)
    const maker = { id: row.maker_id, email: row.maker_email ?? undefined }
    const asked = { maker, decision: row.decision ?? undefined, expiresAt: row.expires_at }
    if (!this.#options.operations.rolesOf(row.operation).includes(decider.role))
      throw new AdminError('forbidden', 'only who may do this may decide it')
    const obstacle = obstacleToDecision(asked, { ...decider, email: user?.email }, new Date())
    if (obstacle !== undefined) throw new AdminError('conflict', obstacle)
  }
}

/** An emergency on the host: the act happens, and its entry makes everybody hear of it. */
export const emergencyPermit = (author: Actor, { act, summary }: ActToApprove, reason: string): Permit => ({
  author,
  details: { emergency: true },
  work: async (_tx, note) => note('approval.emergency', { act, summary, reason }),
})

const factsOf = ({ id, act, operation, summary, most, maker }: ApprovalRow) => ({
  approval_id: id,
  act,
  operation,
  summary,
  most,
  maker: maker.username,
})
