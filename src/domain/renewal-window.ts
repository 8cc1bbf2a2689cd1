/**
 * When a certificate should be renewed (RFC 9773 §4.2; docs/decisions/renewal-information.md).
 * Pure: the clock is an argument.
 *
 * The operator's advice comes first, then revocation, then the CA behind this service, then the lifetime. Every window
 * ends after it starts, as §4.2 demands, however late the request.
 */

export interface RenewalFacts {
  notBefore: Date
  notAfter: Date
  revokedAt: Date | undefined
  /** Set by the operator for this certificate. */
  advice: RenewalAdvice | undefined
  /** The suggestion of the CA behind this service. */
  upstream?: RenewalAdvice | undefined
}

export interface WindowPolicy {
  /** Share of the lifetime after which the window opens, 0 to 1. */
  renewalPercentage: number
  /** Length of a revoked certificate's window; undefined ends it with the certificate. */
  revokedWindowSeconds: number | undefined
}

export interface RenewalAdvice {
  window: RenewalWindow
  explanationUrl: string | undefined
}

export interface RenewalWindow {
  start: Date
  end: Date
}

const SECOND_MS = 1000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** Shortest Retry-After. */
const MIN_RETRY_AFTER_SECONDS = 3600

export function renewalWindow(facts: RenewalFacts, policy: WindowPolicy, now: Date): RenewalWindow {
  const { notBefore, notAfter, revokedAt, advice, upstream } = facts
  if (advice) return openedBefore(advice.window.start, earlier(advice.window.end, notAfter))
  if (revokedAt) {
    // Clients renew at a random time of the window (RFC 9773 §4.2): with 90 days left, after 45 on average.
    const lengthMs = (policy.revokedWindowSeconds ?? Number.POSITIVE_INFINITY) * SECOND_MS
    return openedBefore(now, new Date(Math.min(now.getTime() + lengthMs, notAfter.getTime())))
  }
  if (upstream) return openedBefore(upstream.window.start, earlier(upstream.window.end, notAfter))
  // notAfter is part of the lifetime (RFC 5280 §4.1.2.5).
  const lifetimeMs = notAfter.getTime() + SECOND_MS - notBefore.getTime()
  return openedBefore(new Date(notBefore.getTime() + lifetimeMs * policy.renewalPercentage), notAfter)
}

/**
 * Whether a certificate is due, so that limits of new orders do not count its renewal (RFC 9773
 * §5). Ignores what a subscriber can cause at any time: a revocation, or a lifetime of minutes.
 */
export function isDueForRenewal(facts: RenewalFacts & { issuedAt: Date }, policy: WindowPolicy, now: Date): boolean {
  if (facts.advice) return facts.advice.window.start <= now
  const { start } = renewalWindow({ ...facts, revokedAt: undefined }, policy, now)
  return start <= now && now.getTime() - facts.issuedAt.getTime() >= DAY_MS
}

/** Seconds until the window opens, at least an hour. */
export function renewalRetryAfter({ start }: RenewalWindow, now: Date): number {
  const untilStart = Math.ceil((start.getTime() - now.getTime()) / SECOND_MS)
  return Math.max(MIN_RETRY_AFTER_SECONDS, untilStart)
}

/**
 * The window of advice to renew now; with an end, clients spread until then. Without one it is
 * wholly past, so that even clients with slow clocks (one hour) renew at once.
 */
export function advisedWindow(now: Date, end: Date | undefined): RenewalWindow {
  if (end) return { start: now, end }
  return { start: new Date(now.getTime() - 2 * HOUR_MS), end: new Date(now.getTime() - HOUR_MS) }
}

/** Rounds to whole seconds, and makes the window at least one second long. */
function openedBefore(start: Date, end: Date): RenewalWindow {
  const endMs = Math.floor(end.getTime() / SECOND_MS) * SECOND_MS
  const startMs = Math.floor(start.getTime() / SECOND_MS) * SECOND_MS
  return { start: new Date(Math.min(startMs, endMs - SECOND_MS)), end: new Date(endMs) }
}

function earlier(a: Date, b: Date): Date {
  return a < b ? a : b
}

/** `failed`: the last that is known is a failure; `ordered`: an order that has not failed; `none`: nothing. */
export const RENEWAL_ATTEMPTS = ['none', 'ordered', 'failed'] as const
type RenewalAttempt = (typeof RENEWAL_ATTEMPTS)[number]

/** A refused order leaves a failure alone, so one without the other says enough. */
export function renewalAttempt(orderedAt: Date | undefined, failedAt: Date | undefined): RenewalAttempt {
  if (failedAt && (!orderedAt || failedAt >= orderedAt)) return 'failed'
  return orderedAt ? 'ordered' : 'none'
}
