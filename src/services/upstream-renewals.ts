/** Asks the CA behind this service when it would have its certificates renewed (RFC 9773 §4.3). */

import type { GuardedCsrBackend } from '../ca/guarded-csr-backend.ts'
import type { DueRenewal, UpstreamRenewalStore } from '../store/upstream-renewal-store.ts'

export interface UpstreamRenewalsOptions {
  backends: ReadonlyMap<string, Pick<GuardedCsrBackend, 'renewalInfo'>>
  store: UpstreamRenewalStore
  onFailed(error: Error, renewal: DueRenewal): void
}

/** Asked at the same time, and in one round. */
const BATCH = 16
/** After a failure, or when this process ends while asking. */
const RETRY_SECONDS = 1800
/** Where the CA suggests nothing for this one. */
const SILENT_SECONDS = 86_400

/** One round. @returns how many certificates were asked for */
export async function askUpstreamRenewals(options: UpstreamRenewalsOptions): Promise<number> {
  const due = await options.store.claimDue(BATCH, RETRY_SECONDS)
  await Promise.all(due.map((renewal) => ask(renewal, options)))
  return due.length
}

async function ask(renewal: DueRenewal, { backends, store, onFailed }: UpstreamRenewalsOptions): Promise<void> {
  const { certificateId, backend, der } = renewal
  const known = backends.get(backend)
  // A backend that is not configured at the moment may come back.
  if (!known) return
  if (!known.renewalInfo) return store.drop(certificateId)
  try {
    const answer = await known.renewalInfo(der)
    if (!answer) return await store.save(certificateId, undefined, SILENT_SECONDS)
    const { start, end, explanationUrl, retryAfterMs } = answer
    await store.save(certificateId, { window: { start, end }, explanationUrl }, retryAfterMs / 1000)
  } catch (error) {
    onFailed(error as Error, renewal)
  }
}
