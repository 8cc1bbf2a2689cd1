/** Validity periods of certificates (RFC 5280 §4.1.2.5; decisions 15): what an order may ask for and what it gets. */

import { Problem, type ProblemType } from '../shared/protocol/problem.ts'
import { renderTimestamp } from '../shared/protocol/timestamp.ts'

const DAY_MS = 86_400_000
const SECOND_MS = 1_000

export interface ValidityPolicy {
  validityDays: number
  maxValidityDays: number
  /** How far notBefore lies in the past, for clients whose clocks are slow. */
  backdateSeconds: number
}

export interface RequestedValidity {
  notBefore?: Date
  notAfter?: Date
}

export interface Validity {
  notBefore: Date
  notAfter: Date
}

/**
 * Checks at new-order what finalize will grant.
 * @param latestStart the order's expiry: a certificate that starts later could not be issued for it.
 * @param tooLong what a longer period than the policy's is: invalidProfile where the client chose the profile that forbids
 *   it (draft-ietf-acme-profiles §4).
 * @throws Problem malformed, or `tooLong`
 */
export function checkRequestedValidity(
  requested: RequestedValidity,
  policy: ValidityPolicy,
  now: Date,
  latestStart: Date,
  tooLong: ProblemType = 'malformed',
): void {
  const { notBefore, notAfter } = requested
  if (notBefore && notBefore < earliestStart(policy, now))
    throw new Problem('malformed', `notBefore may lie at most ${policy.backdateSeconds} seconds in the past`)
  if (notBefore && notBefore > latestStart)
    throw new Problem('malformed', 'notBefore lies after the expiry of the order')
  if (!notAfter) return
  const start = notBefore ?? earliestStart(policy, now)
  if (notAfter <= now || notAfter <= start)
    throw new Problem('malformed', 'notAfter must lie in the future and after notBefore')
  if (inclusiveMs({ notBefore: start, notAfter }) > policy.maxValidityDays * DAY_MS)
    throw new Problem(tooLong, `a certificate may be valid for at most ${policy.maxValidityDays} days`)
}

/** An order does not outlive the certificate it asks for: finalized later, it would get one that is over. */
export function orderExpiry({ notAfter }: RequestedValidity, lifetimeEnd: Date): Date {
  return notAfter && notAfter < lifetimeEnd ? notAfter : lifetimeEnd
}

/**
 * The period a certificate gets: the requested one, else the profile's days counted from a back-dated start, notAfter
 * inclusive, and never outside the issuer's own: a CA that is younger than the back-dating must be able to issue.
 * @throws Problem malformed when nothing is left of it, because the issuer does not live to see the requested start
 */
export function certificateValidity(
  requested: RequestedValidity,
  policy: ValidityPolicy,
  now: Date,
  issuer: Validity,
): Validity {
  const start = requested.notBefore ?? earliestStart(policy, now)
  const notBefore = new Date(Math.max(start.getTime(), issuer.notBefore.getTime()))
  const days = Math.min(policy.validityDays, policy.maxValidityDays)
  const wanted = requested.notAfter ?? new Date(notBefore.getTime() + days * DAY_MS - SECOND_MS)
  const notAfter = new Date(Math.min(wanted.getTime(), issuer.notAfter.getTime()))
  if (notBefore >= notAfter)
    throw new Problem(
      'malformed',
      `notBefore must lie before ${renderTimestamp(notAfter)}, where the certificate would end with its issuer; make a new order`,
    )
  return { notBefore, notAfter }
}

function earliestStart(policy: ValidityPolicy, now: Date): Date {
  return new Date(Math.floor(now.getTime() / SECOND_MS) * SECOND_MS - policy.backdateSeconds * SECOND_MS)
}

/** notAfter is part of the period (RFC 5280 §4.1.2.5). */
function inclusiveMs({ notBefore, notAfter }: Validity): number {
  return notAfter.getTime() - notBefore.getTime() + SECOND_MS
}
