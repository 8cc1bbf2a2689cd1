/**
 * Revocations at backends: asked for until the CA has confirmed or an administrator gives up. The
 * row is written in the transaction of the revocation (`revoke_at_backend`).
 *
 * Each backend has rounds of its own, so that one which hangs keeps no other from its revocations.
 */

import type { GuardedCsrBackend } from '../ca/guarded-csr-backend.ts'
import type { BackendRevocation, BackendRevocationStore } from '../store/backend-revocation-store.ts'

export interface BackendRevocationsOptions {
  backends: ReadonlyMap<string, Pick<GuardedCsrBackend, 'revoke'>>
  store: BackendRevocationStore
  /** Aborts when the service ends: what is under way is asked again after its lease. */
  signal: AbortSignal
  events: BackendRevocationEvents
}

export interface BackendRevocationEvents {
  confirmed(revocation: BackendRevocation): void
  /** It is tried again. */
  failed(error: unknown, revocation: BackendRevocation): void
}

/** Above the time limit of a revocation. */
const LEASE_SECONDS = 180
const BATCH = 16
const MAX_ERROR_CHARACTERS = 500

/**
 * One round of a backend. That of the first one fails those of backends which the configuration lacks.
 * @returns how many were asked for
 */
export async function revokeAtBackend(
  name: string,
  { backends, store, signal, events }: BackendRevocationsOptions,
): Promise<number> {
  const names = [...backends.keys()]
  const unlessOf = name === names[0] ? names : undefined
  const due = await store.claim({ backend: name, unlessOf, leaseSeconds: LEASE_SECONDS, limit: BATCH })
  await Promise.all(
    due.map(async (revocation) => {
      const { certificateId, certificate, reason, failures } = revocation
      try {
        const backend = backends.get(revocation.backend)
        if (!backend) throw new Error(`the configuration has no backend ${revocation.backend}`)
        await backend.revoke({ certificate, reason }, signal)
      } catch (error) {
        if (signal.aborted) return
        events.failed(error, revocation)
        const message = (error instanceof Error ? error.message : String(error)).slice(0, MAX_ERROR_CHARACTERS)
        await store.postpone(certificateId, message, revocationRestSeconds(failures + 1))
        return
      }
      await store.confirm(certificateId)
      events.confirmed(revocation)
    }),
  )
  return due.length
}

const LONGEST_REVOCATION_REST_SECONDS = 3_600
const FIRST_REVOCATION_REST_SECONDS = 2

/** @param failures attempts that have failed, this one included */
function revocationRestSeconds(failures: number): number {
  return Math.min(LONGEST_REVOCATION_REST_SECONDS, FIRST_REVOCATION_REST_SECONDS * 2 ** Math.min(failures - 1, 20))
}
