/** What the steps of a CA module have in common: how it is called, what is kept, what errors mean. */

import { ModuleError } from '../../../workers/module/module-thread.ts'
import { CaError } from '../backend.ts'
import type { BackendState, IssuanceStep } from '../csr-backend.ts'
import { refusal, WrongAnswer } from './answers.ts'

/** @throws ModuleError */
export type ModuleCaller = (method: string, argument: unknown, context: object, signal: AbortSignal) => Promise<unknown>

/** The state of an issuance, as JSON in the database. */
export interface Held {
  /** The module's own; undefined before its first answer. */
  own?: BackendState
  /** Base64 of what is to be signed, and of the issuer's chain. */
  tbs?: string
  chain?: readonly string[]
  mayHaveIssued?: true
  /** The step that is waiting for a thread was begun before. */
  isRepeated?: true
}

export const heldOf = (state: BackendState | undefined): Held => (state ?? {}) as Held

export const nothingToCome = (): IssuanceStep => ({
  ...refusal('the order had failed before the module was asked'),
  contact: 'none',
})

/** A step that waits until the module has a thread free. */
export function waiting(held: Held, isRepeated: boolean): IssuanceStep {
  const state = { ...held, ...(isRepeated && { isRepeated }) }
  return {
    status: 'pending',
    state: state as BackendState,
    retryAfterMs: BUSY_WAIT_MS,
    mayHaveIssued: isRepeated || held.mayHaveIssued === true,
    contact: 'none',
  }
}
const BUSY_WAIT_MS = 1_000

/** @param canIssue whether a certificate may exist once the module has been called */
export function asCaError(name: string, cause: unknown, canIssue: boolean): CaError {
  if (cause instanceof CaError) return cause
  const said = cause instanceof Error ? cause.message : String(cause)
  // Asked again it would give the same answer, and issue once more.
  if (cause instanceof WrongAnswer)
    return new CaError(`${name}: the answer ${said}`, { retryable: !canIssue, mayHaveIssued: canIssue, cause })
  if (!(cause instanceof ModuleError)) return new CaError(`${name}: ${said}`, { retryable: true, cause })
  const { kind, facts } = cause
  const retryAfter = facts['retryAfterSeconds']
  return new CaError(`${name} ${said}`, {
    retryable: facts['retryable'] !== false,
    // Only the module knows that nothing was issued, and it has to say so.
    mayHaveIssued: canIssue && (kind === 'lost' || (kind === 'failed' && facts['mayHaveIssued'] !== false)),
    retryAfterMs: typeof retryAfter === 'number' ? Math.max(0, retryAfter) * 1000 : undefined,
    cause,
  })
}
