/** Rules of issuances from a CSR: when an order is given up, and how long a failed step rests. */

/** What a profile's certificates come from, in the order in which they are asked. */
export type BackendName = string

/** The signer, whose key is in a file or in a token (`ca.internal`, `ca.hsm`). */
export const SIGNER_BACKENDS: readonly BackendName[] = ['internal', 'hsm']

export const isSigner = (name: BackendName): boolean => SIGNER_BACKENDS.includes(name)

const LONGEST_REST_SECONDS = 60
/** A backend may ask for more patience, within reason. */
const LONGEST_ASKED_SECONDS = 3_600

/** @param failures steps in a row that have failed, this one included */
export function restSeconds(failures: number, askedMs: number | undefined): number {
  if (askedMs !== undefined) return Math.min(LONGEST_ASKED_SECONDS, Math.max(0, askedMs / 1000))
  return Math.min(LONGEST_REST_SECONDS, 2 ** Math.min(failures - 1, 10))
}

const LONGEST_REVOCATION_REST_SECONDS = 3_600
const FIRST_REVOCATION_REST_SECONDS = 2

/** @param failures attempts that have failed, this one included */
export function revocationRestSeconds(failures: number): number {
  return Math.min(LONGEST_REVOCATION_REST_SECONDS, FIRST_REVOCATION_REST_SECONDS * 2 ** Math.min(failures - 1, 20))
}

/** Until what may have been issued for an order that has ended is asked for again: a tenth longer each time. */
export function abandonedRestSeconds(abandonedSeconds: number): number {
  return Math.min(LONGEST_ASKED_SECONDS, abandonedSeconds / 10)
}

/** What is still not there by then will not come; the row leaves with an alarm. */
export const LONGEST_ABANDONED_SECONDS = 7 * 86_400
