/** What a client has done about a certificate since its renewal window opened. Pure. */

/** `failed`: the last that is known is a failure; `ordered`: an order that has not failed; `none`: nothing. */
export const RENEWAL_ATTEMPTS = ['none', 'ordered', 'failed'] as const
export type RenewalAttempt = (typeof RENEWAL_ATTEMPTS)[number]

/** A refused order leaves a failure alone, so one without the other says enough. */
export function renewalAttempt(orderedAt: Date | undefined, failedAt: Date | undefined): RenewalAttempt {
  if (failedAt && (!orderedAt || failedAt >= orderedAt)) return 'failed'
  return orderedAt ? 'ordered' : 'none'
}
