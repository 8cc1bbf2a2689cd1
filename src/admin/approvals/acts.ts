/**
 * Which acts need approval, by `admin_api.approvals`, and how a request describes them.
 *
 * What another person has approved is done by the endpoint's own handler, on values that are checked again.
 */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { AdminError } from '../../domain/admin-error.ts'
import type { AllowedIdentifier } from '../../domain/allowlist.ts'
import type { ActToApprove, ApprovalFact, SentValues } from '../../domain/approval.ts'
import { revocationReasonName } from '../../domain/revocation.ts'
import { plural } from '../../shared/lib/plural.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import type { AnyEndpoint } from '../admin-endpoint.ts'
import { readRequest } from '../admin-router.ts'
import type { AdminContext, ActMeans as Means } from '../context.ts'
import { findHits, nameOf } from '../incidents/incident-store.ts'
import { dryRun, wrongCount } from '../revocations/bulk-revocation-steps.ts'
import type { RevocationFilter } from '../revocations/revocation-filter.ts'
import type { SignedIn } from '../users/sign-in.ts'
import { requireUser } from '../users/users.ts'
import type { ApprovedAct, Operations } from './approvals.ts'

/** Undefined where one person is enough. */
type Act = Promise<ActToApprove | undefined>

/** A longer list is cut. */
const MOST_SHOWN = 100

const fact = (name: string, after: string | null, before: string | null = null): ApprovalFact => ({
  name,
  before,
  after,
})

interface RevocationToApprove {
  filter: RevocationFilter
  reason: number
  isDryRun: boolean
  /** A number that the request allows itself. */
  confirmed?: number
}

export async function bulkRevocationAct(
  { filter, reason, isDryRun, confirmed = 0 }: RevocationToApprove,
  { db, policy }: Means,
): Act {
  const above = policy.approvals.bulkRevocationAbove
  if (above === undefined || isDryRun) return undefined
  const { wouldRevoke } = await dryRun(db, filter)
  // A job may revoke as many as were confirmed: more than there are would be decided by one person.
  if (confirmed > above && confirmed > wouldRevoke)
    throw wrongCount(`at most ${wouldRevoke}, the number of certificates that would be revoked now`)
  if (wouldRevoke <= above) return undefined
  return {
    act: 'bulk_revocation',
    summary: `Revoke ${plural(wouldRevoke, 'certificate')}`,
    facts: [
      fact('certificates', String(wouldRevoke)),
      fact('reason', revocationReasonName(reason)),
      ...Object.entries(filter).map(([name, value]) => fact(name, shown(value))),
      ...(await ownersOf(db, filter)),
    ],
    most: wouldRevoke,
  }
}

const MOST_OWNERS_SHOWN = 20

/** Groups the certificates by account, the largest group first, with three names each. The approver sees what is revoked. */
async function ownersOf(db: Means['db'], filter: RevocationFilter): Promise<ApprovalFact[]> {
  const owners = (await findHits(db, filter)).owners.filter(({ unrevoked }) => unrevoked > 0)
  const rest = owners.length - MOST_OWNERS_SHOWN
  return [
    ...owners
      .slice(0, MOST_OWNERS_SHOWN)
      .map(({ account_id, owner, unrevoked, names }) =>
        fact(
          account_id === null ? 'of no account' : `of ${nameOf(owner) ?? ''} (…${account_id.slice(-8)})`,
          `${plural(unrevoked, 'certificate')}: ${shown(names)}${unrevoked > names.length ? ' …' : ''}`,
        ),
      ),
    ...(rest > 0 ? [fact('of others', plural(rest, 'owner'))] : []),
  ]
}

export async function resumeSigningAct({ stopped }: { stopped: boolean }, { policy }: Means): Act {
  if (!policy.approvals.resumeSigning || stopped) return undefined
  return { act: 'resume_signing', summary: 'Resume signing', facts: [fact('signing', 'running', 'stopped')] }
}

export async function newUserAct(
  { username, ...others }: { username: string; email: string; role: string },
  { db, policy }: Means,
): Act {
  // Nobody else exists yet who could approve the first user.
  if (!policy.approvals.userChanges || !(await db.exists(rowsOf(z.object({}))`SELECT FROM admin_users`)))
    return undefined
  return {
    act: 'user_changes',
    summary: `Create the ${others.role} ${username}`,
    facts: Object.entries({ username, ...others }).map(([name, value]) => fact(name, shown(value))),
  }
}

/** @param verb such as `Change the user` @param change members of the user; null for what will be gone */
export async function userAct(
  verb: string,
  id: string,
  change: Readonly<Record<string, unknown>>,
  { db, policy }: Means,
): Act {
  if (!policy.approvals.userChanges) return undefined
  const before: Readonly<Record<string, unknown>> = await requireUser(db, id)
  const facts = Object.entries(change).map(([name, value]) =>
    fact(name, value === null ? null : shown(value), name in before ? shown(before[name]) : null),
  )
  return { act: 'user_changes', summary: `${verb} ${String(before['username'])}`, facts }
}

/**
 * @param to says who is granted them, such as `the credential team-a` @param names in normal form
 * @param networks from which they need no challenge; then each name counts as new, and so do the networks
 */
export async function newNamesAct(
  to: () => string | Promise<string>,
  names: readonly AllowedIdentifier[],
  { db, policy }: Means,
  networks: readonly string[] = [],
): Act {
  const isPreApproval = networks.length > 0
  if (!policy.approvals.newNames || (names.length === 0 && !isPreApproval)) return undefined
  const granted = isPreApproval ? new Set() : await grantedAmong(db, names)
  const fresh = names.map(({ value }) => value).filter((value) => !granted.has(value))
  if (fresh.length === 0 && !isPreApproval) return undefined
  // The approver has to see each name.
  if (fresh.length > MOST_SHOWN)
    throw new AdminError(
      'invalid_request',
      `another person must approve this, and is shown at most ${MOST_SHOWN} new names: ask in parts`,
    )
  const what = isPreApproval ? `${plural(fresh.length, 'name')} without a challenge` : plural(fresh.length, 'new name')
  return {
    act: 'new_names',
    summary: `Grant ${what} to ${await to()}`,
    facts: isPreApproval
      ? [fact('names', shown(fresh)), fact('networks that need no challenge', shown(networks))]
      : [fact('new names', shown(fresh))],
    most: fresh.length,
  }
}

/** The values that a credential or an account has been granted. */
async function grantedAmong(db: CommonQueryMethods, names: readonly AllowedIdentifier[]): Promise<Set<string>> {
  const values = names.map(({ value }) => value)
  const rows = await db.any(rowsOf(z.object({ identifier_value: z.string() }))`
    SELECT i.identifier_value FROM allowed_identifiers i
     WHERE i.identifier_value = ANY (${sql.array(values, 'text')})
       AND (EXISTS (SELECT FROM eab_allowed_identifiers e WHERE e.identifier_id = i.id)
            OR EXISTS (SELECT FROM account_allowed_identifiers a WHERE a.identifier_id = i.id))`)
  return new Set(rows.map((row) => row.identifier_value))
}

function shown(value: unknown): string {
  if (!Array.isArray(value)) return typeof value === 'object' ? JSON.stringify(value) : String(value)
  const rest = value.length - MOST_SHOWN
  return value.slice(0, MOST_SHOWN).join(', ') + (rest > 0 ? ` and ${rest} more` : '')
}

/** @param context of all handlers; the act gets a log of its own */
export function approvedOperations(endpoints: readonly AnyEndpoint[], context: () => AdminContext): Operations {
  const find = (operation: string) => endpoints.find(({ id }) => id === operation)
  const require = (operation: string) => {
    const endpoint = find(operation)
    if (!endpoint) throw new AdminError('conflict', `this release has no operation ${operation}`)
    return endpoint
  }
  const requestOf = (endpoint: AnyEndpoint, input: SentValues, { id, maker }: Pick<ApprovedAct, 'id' | 'maker'>) => ({
    ...readRequest(endpoint, input),
    author: maker as SignedIn,
    address: maker.ipAddress ?? '',
    requestId: id,
    userAgent: undefined,
  })
  return {
    rolesOf(operation) {
      const roles = find(operation)?.roles
      return roles === undefined || roles === 'none' ? [] : roles
    },
    async describe(operation, input, by, db) {
      const endpoint = require(operation)
      return endpoint.approval?.(requestOf(endpoint, input, by), { policy: context().policy, db })
    },
    async perform(operation, input, { audit, most, ...by }) {
      const endpoint = require(operation)
      const request = { ...requestOf(endpoint, input, by), approved: { most } }
      const { body } = await endpoint.handle(request, { ...context(), audit })
      return { secret: endpoint.showsOnce ? body : undefined }
    },
  }
}
