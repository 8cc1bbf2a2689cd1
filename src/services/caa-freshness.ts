/**
 * CAA at finalize (RFC 8659 §3, BR 3.2.2.8). CAA records are first checked at validation.
 * A check that is missing or older than eight hours is repeated before signing.
 */

import type { CaaFinding, CaaSubject } from '../../workers/job.ts'
import type { Authorization, ChallengeAttempt, Order } from '../domain/records.ts'
import { isCaaCheckFresh } from '../shared/protocol/caa.ts'
import type { ChallengeType } from '../shared/protocol/challenge.ts'
import { Problem, type Subproblem } from '../shared/protocol/problem.ts'
import type { Requester } from '../store/account-store.ts'
import type { AuthorizationStore } from '../store/authorization-store.ts'
import { unlessStale } from './account-cache.ts'

/** Plain data, because the supervisor has the check done. */
export interface CaaCheckRequest {
  accountId: string
  /** By which its client names the account, where that is a path of a former server. */
  accountPath?: string
  orderId: string
  subjects: readonly CaaSubject[]
}

/** One finding per subject, in their order; undefined when the checkers are busy. */
export type AskForCaa = (request: CaaCheckRequest) => Promise<readonly CaaFinding[] | undefined>

/**
 * Undefined at once, without a promise, while every check is fresh. Rejects with StaleAccountError or Problem caa, dns
 * 503, compound, serverInternal 503; the order is unchanged.
 */
export type RequireFreshCaa = (by: CaaRequester, order: Order, now: Date) => Promise<void> | undefined

type CaaRequester = Requester & { accountPath?: string | undefined }

/** Outages of name servers are often over within a minute, and an order lives for days. */
const LOOKUP_RETRY_SECONDS = 60
const BUSY_RETRY_SECONDS = 5
/** Reads of all requests share a queue, which one order of many names must not fill. */
const READ_AT_ONCE = 8

export function createCaaFreshness(authorizations: Pick<AuthorizationStore, 'find'>, ask: AskForCaa): RequireFreshCaa {
  async function recheck({ accountPath, ...requester }: CaaRequester, order: Order, now: Date): Promise<void> {
    const subjects: CaaSubject[] = []
    for (let begin = 0; begin < order.authorizationIds.length; begin += READ_AT_ONCE) {
      const ids = order.authorizationIds.slice(begin, begin + READ_AT_ONCE)
      const found = await Promise.all(ids.map((authorizationId) => authorizations.find({ requester, authorizationId })))
      for (const result of found) {
        const authorization = unlessStale(result)
        if (authorization) subjects.push(...staleSubject(authorization, now))
      }
    }
    if (subjects.length === 0) return
    const path = accountPath !== undefined && { accountPath }
    const findings = await ask({ accountId: order.accountId, ...path, orderId: order.id, subjects })
    if (!findings)
      throw new Problem('serverInternal', 'the CAA records cannot be checked at the moment; try again soon', {
        status: 503,
        retryAfterSeconds: BUSY_RETRY_SECONDS,
      })
    const obstacles = subjects.flatMap((subject, index) => obstacle(subject, findings[index]) ?? [])
    if (obstacles.length > 0) throw refusal(obstacles, order.identifiers.length > 1)
  }

  return (requester, order, now) => {
    if (order.caaCheckedAt && isCaaCheckFresh(order.caaCheckedAt, now)) return undefined
    return order.identifiers.some(({ type }) => type === 'dns') ? recheck(requester, order, now) : undefined
  }
}

function staleSubject({ identifier, wildcard, attempts }: Authorization, now: Date): CaaSubject[] {
  if (identifier.type !== 'dns') return []
  const [method, attempt] = (Object.entries(attempts) as [ChallengeType, ChallengeAttempt][]).find(
    ([, { status }]) => status === 'valid',
  ) ?? [undefined, undefined]
  if (attempt?.caaChecked !== undefined && isCaaCheckFresh(new Date(attempt.caaChecked), now)) return []
  return [{ name: identifier.value, wildcard, ...(method && !attempt.accepted && { method }) }]
}

function obstacle({ name, wildcard }: CaaSubject, finding: CaaFinding | undefined): Subproblem | undefined {
  const identifier = { type: 'dns', value: wildcard ? `*.${name}` : name }
  if (!finding) return { type: 'dns', detail: `the CAA records of ${name} were not checked`, identifier }
  if (finding.result === 'forbidden') return { type: 'caa', detail: finding.detail, identifier }
  if (finding.result === 'failed') return { type: 'dns', detail: finding.detail, identifier }
  return undefined
}

/** Several names make a compound problem, one its own (docs/decisions/problem-types.md). */
function refusal(obstacles: readonly Subproblem[], isOneOfSeveral: boolean): Problem {
  const [first, ...more] = obstacles as [Subproblem, ...Subproblem[]]
  // Retry-After only if every obstacle may pass by itself.
  const later = obstacles.every(({ type }) => type === 'dns')
    ? { status: 503, retryAfterSeconds: LOOKUP_RETRY_SECONDS }
    : {}
  const options = { ...later, ...(isOneOfSeveral && { subproblems: obstacles }) }
  if (more.length === 0) return new Problem(first.type, first.detail, options)
  return new Problem('compound', `CAA stands against ${obstacles.length} of the names`, options)
}
