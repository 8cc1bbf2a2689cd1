/** Options of a new order beside its identifiers, and when two requests are equal. Pure. */

import { hash } from 'node:crypto'
import type { Identifier } from '../shared/protocol/identifier.ts'
import { Problem, type ProblemType } from '../shared/protocol/problem.ts'
import {
  type CertificateProfile,
  DEFAULT_PROFILE,
  earliestStart,
  hasChoiceOfProfiles,
  type RequestedValidity,
  type Validity,
  type ValidityPolicy,
} from './certificate-profile.ts'

const DAY_MS = 86_400_000
const SECOND_MS = 1_000

/**
 * @param allowed profiles of the account's credential, its default first; undefined allows any
 * @throws Problem invalidProfile for a profile that the directory does not advertise, or that this
 *   account may not use (draft-ietf-acme-profiles)
 */
export function chooseProfile(
  profiles: ReadonlyMap<string, CertificateProfile>,
  name: string | undefined,
  allowed?: readonly string[],
): CertificateProfile {
  if (name !== undefined && !hasChoiceOfProfiles(profiles))
    throw new Problem('invalidProfile', 'this server has no profiles to choose from; leave profile out')
  const unchosen = allowed === undefined || allowed.includes(DEFAULT_PROFILE) ? DEFAULT_PROFILE : (allowed[0] as string)
  const profile = profiles.get(name ?? unchosen)
  if (!profile)
    throw new Problem('invalidProfile', `there is no such profile; this server has ${[...profiles.keys()].join(', ')}`)
  if (allowed && !allowed.includes(profile.name))
    throw new Problem(
      'invalidProfile',
      `this account may not order ${profile.name}; it may order ${allowed.join(', ')}`,
    )
  return profile
}

/** notBefore lies within 48 hours of the signature (CA/Browser Forum BR §7.1.2.7); one hour is for clocks. */
const MAX_START_DISTANCE_MS = 47 * 3_600_000

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

/** notAfter is included (RFC 5280 §4.1.2.5). */
function inclusiveMs({ notBefore, notAfter }: Validity): number {
  return notAfter.getTime() - notBefore.getTime() + SECOND_MS
}

/* Equal requests (docs/decisions/equal-orders.md). */

export interface OrderRequestFacts {
  accountId: string
  identifiers: readonly Identifier[]
  profile: string
  notBefore: Date | undefined
  notAfter: Date | undefined
  /** certID of the predecessor. */
  replaces: string | undefined
  /** Type of the approval without a challenge; such an order differs from one that needs challenges. */
  approval?: string | undefined
}

/**
 * A key in the form of a UUID that equal requests share; the order of identifiers does not matter. It hashes the
 * account first (128 bits of SHA-256), so a collision could only return another order of the same account.
 */
export function orderRequestKey(request: OrderRequestFacts): string {
  const names = request.identifiers.map(({ type, value }) => `${type}:${value}`).sort()
  const validity = [request.notBefore?.getTime() ?? '', request.notAfter?.getTime() ?? '']
  // Line feeds separate safely: identifiers are normalised, and profile names come from the configuration.
  const text = [
    request.accountId,
    request.profile,
    ...validity,
    request.replaces ?? '',
    ...names,
    ...(request.approval ? [request.approval] : []),
  ].join('\n')
  const digest = hash('sha256', text, 'hex')
  return `${digest.slice(0, 8)}-${digest.slice(8, 12)}-${digest.slice(12, 16)}-${digest.slice(16, 20)}-${digest.slice(20, 32)}`
}
