/** Asks the CA behind this service when it would have its certificates renewed (RFC 9773 §4.3). */

import type { GuardedCsrBackend } from '../ca/guarded-csr-backend.ts'
import type { DueRenewal, UpstreamRenewalStore } from '../store/upstream-renewal-store.ts'

export interface UpstreamRenewalsOptions {
  backends: ReadonlyMap<string, Pick<GuardedCsrBackend, 'renewalInfo' | 'retryAfterMs'>>
  store: UpstreamRenewalStore
  /** Aborts when the service ends: what is under way is asked again later. */
  signal: AbortSignal
  onFailed(error: Error, renewal: DueRenewal): void
}

/** Asked at the same time, and in one round. */
const BATCH = 16
/** After a failure, or when this process ends while asking. */
const RETRY_SECONDS = 1800
/** Where the CA suggests nothing for this one. */
const SILENT_SECONDS = 86_400

/** One round of a backend. @returns how many certificates were asked for */
export async function askUpstreamRenewals(name: string, options: UpstreamRenewalsOptions): Promise<number> {
  const backend = options.backends.get(name)
  if (!backend || backend.retryAfterMs() > 0) return 0
  const due = await options.store.claimDue(name, BATCH, RETRY_SECONDS)
  await Promise.all(due.map((renewal) => ask(renewal, backend.renewalInfo, options)))
  return due.length
}

async function ask(
  renewal: DueRenewal,
  renewalInfo: GuardedCsrBackend['renewalInfo'],
  { store, signal, onFailed }: UpstreamRenewalsOptions,
): Promise<void> {
  const { certificateId, der } = renewal
  if (!renewalInfo) return store.drop(certificateId)
  try {
    const answer = await renewalInfo(der, signal)
    if (!answer) return await store.save(certificateId, undefined, SILENT_SECONDS)
    const { start, end, explanationUrl, retryAfterMs } = answer
    await store.save(certificateId, { window: { start, end }, explanationUrl }, retryAfterMs / 1000)
  } catch (error) {
    if (!signal.aborted) onFailed(error as Error, renewal)
  }
}
