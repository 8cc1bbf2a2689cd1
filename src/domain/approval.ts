/** Four eyes: acts that wait for another person's decision, and who may decide. Pure. */

import type { Actor, Role } from './administrator.ts'

/** By the names of their settings in `admin_api.approvals`. */
export const APPROVAL_ACTS = ['bulk_revocation', 'resume_signing', 'user_changes', 'new_names'] as const
type ApprovalAct = (typeof APPROVAL_ACTS)[number]

export const DECISIONS = ['approved', 'rejected', 'withdrawn'] as const
export type Decision = (typeof DECISIONS)[number]

export const APPROVAL_STATUSES = ['waiting', ...DECISIONS, 'expired'] as const
type ApprovalStatus = (typeof APPROVAL_STATUSES)[number]

export interface ApprovalPolicy {
  /** A bulk revocation of more certificates needs approval; undefined for none. */
  bulkRevocationAbove: number | undefined
  resumeSigning: boolean
  userChanges: boolean
  newNames: boolean
  /** Time for the decision. */
  expireAfterHours: number
}

/** A change to approve; `before` is null for what is new, `after` for what would be gone. */
export interface ApprovalFact {
  name: string
  before: string | null
  after: string | null
}

/** A request to the Admin API as it was sent; it is checked again when it is approved. */
export interface SentValues {
  params: Record<string, string>
  query: string
  body: unknown
}

/** An act as a request for approval describes it. */
export interface ActToApprove {
  act: ApprovalAct
  /** A sentence without its full stop, such as `Revoke 812 certificates`. */
  summary: string
  facts: readonly ApprovalFact[]
  /** How many things it may reach; more at the time of the decision are refused. */
  most?: number
}

interface Asked {
  maker: { id: string; email: string | undefined }
  decision: Decision | undefined
  expiresAt: Date
}

interface Decider {
  userId: string | undefined
  email: string | undefined
  role: Role
  apiTokenId?: string | undefined
}

export function approvalStatus({ decision, expiresAt }: Omit<Asked, 'maker'>, now: Date): ApprovalStatus {
  return decision ?? (expiresAt <= now ? 'expired' : 'waiting')
}

/** @returns why this decider may not decide; undefined when he may. Two users with one mail address are one person. */
export function obstacleToDecision(asked: Asked, decider: Decider, now: Date): string | undefined {
  const status = approvalStatus(asked, now)
  if (status !== 'waiting') return `the request is ${status} already`
  if (decider.userId === undefined || decider.apiTokenId !== undefined)
    return 'a person decides, by a login; neither an API token nor the command line of the host can'
  const isSamePerson =
    decider.userId === asked.maker.id ||
    (decider.email !== undefined && decider.email.toLowerCase() === asked.maker.email?.toLowerCase())
  return isSamePerson ? 'another person has to decide; this request is your own' : undefined
}

/** The two persons of an act share a reply with a secret. */
interface SharedReply {
  maker: unknown
  /** Undefined where the maker gets it all. */
  decider: string | undefined
}

/**
 * A password is a third person's. Maker and decider get one half each, so that neither can sign in as that person, and
 * then be another person for the own requests.
 */
export function shareReply(reply: unknown): SharedReply {
  const { password, ...others } = Object(reply) as Record<string, unknown>
  if (typeof password !== 'string') return { maker: reply, decider: undefined }
  const middle = Math.ceil(password.length / 2)
  return { maker: { ...others, password_first_half: password.slice(0, middle) }, decider: password.slice(middle) }
}

/** The person behind a request, and how; the act is not bound to the session, which may end before the decision. */
export function withoutSession({ sessionId: _, ...author }: Actor): Actor {
  return author
}
