/**
 * Validity periods of certificates (RFC 5280 §4.1.2.5; docs/decisions/certificate-content.md): what
 * an order may request, and what it gets.
 */

import { Problem, type ProblemType } from '../shared/protocol/problem.ts'
import { renderTimestamp } from '../shared/protocol/timestamp.ts'

const DAY_MS = 86_400_000
const SECOND_MS = 1_000

/**
 * notBefore lies within 48 hours of the signature (CA/Browser Forum BR §7.1.2.7); one hour is for
 * clocks.
 */
const MAX_START_DISTANCE_MS = 47 * 3_600_000

export interface ValidityPolicy {
  validityDays: number
  maxValidityDays: number
  /** How far notBefore is in the past, for clients with slow clocks. */
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
 * @param lifetimeEnd latest expiry of the order; it cannot get a certificate that starts later
 * @param tooLong problem for too long a period: invalidProfile where the client chose the profile
 *   (draft-ietf-acme-profiles §4)
 * @throws Problem malformed, or `tooLong`
 */
export function checkRequestedValidity(
  requested: RequestedValidity,
  policy: ValidityPolicy,
  now: Date,
  lifetimeEnd: Date,
  tooLong: ProblemType = 'malformed',
): void {
  const { notBefore, notAfter } = requested
  if (notBefore && notBefore < earliestStart(policy, now))
    throw new Problem('malformed', `notBefore may lie at most ${policy.backdateSeconds} seconds in the past`)
  if (notBefore && notBefore > lifetimeEnd)
    throw new Problem('malformed', 'notBefore lies after the expiry of the order')
  if (notBefore && notBefore.getTime() > now.getTime() + MAX_START_DISTANCE_MS)
    throw new Problem('malformed', 'notBefore may lie at most 47 hours in the future')
  if (!notAfter) return
  const start = notBefore ?? earliestStart(policy, now)
  if (notAfter <= now || notAfter <= start)
    throw new Problem('malformed', 'notAfter must lie in the future and after notBefore')
  if (inclusiveMs({ notBefore: start, notAfter }) > policy.maxValidityDays * DAY_MS)
    throw new Problem(tooLong, `a certificate may be valid for at most ${policy.maxValidityDays} days`)
}

/** Finalized later, an order would get an expired certificate, or a notBefore too far back. */
export function orderExpiry({ notBefore, notAfter }: RequestedValidity, lifetimeEnd: Date): Date {
  const latestSignature = notBefore && new Date(notBefore.getTime() + MAX_START_DISTANCE_MS)
  return [notAfter, latestSignature].reduce<Date>((end, at) => (at && at < end ? at : end), lifetimeEnd)
}

/**
 * The requested period, otherwise the profile's days from a back-dated start, notAfter included. It
 * stays within the issuer's period, so that a CA younger than the back-dating can issue.
 * @throws Problem malformed when nothing is left, because the issuer ends before the requested
 *   start
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

/** notAfter is included (RFC 5280 §4.1.2.5). */
function inclusiveMs({ notBefore, notAfter }: Validity): number {
  return notAfter.getTime() - notBefore.getTime() + SECOND_MS
}
