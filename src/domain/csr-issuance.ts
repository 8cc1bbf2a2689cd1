/**
 * The next step of an issuance from a CSR, by the outcome of the last one. Pure.
 *
 * Its states are `CSR_ISSUANCE` in states.ts; services/csr-issuances.ts takes the steps.
 */

import { type ProblemDocument, problemDocument } from '../shared/protocol/problem.ts'
import { CSR_ISSUANCE, type CsrRowStatus } from './states.ts'

/** A source of a profile's certificates; a profile asks several in order. */
export type BackendName = string

/** The signer, whose key is in a file or in a token (`ca.internal`, `ca.hsm`). */
const SIGNER_BACKENDS: readonly BackendName[] = ['internal', 'hsm']

export const isSigner = (name: BackendName): boolean => SIGNER_BACKENDS.includes(name)

const LONGEST_REST_SECONDS = 60
/** A backend may ask for more patience, within reason. */
const LONGEST_ASKED_SECONDS = 3_600

/** @param failures steps in a row that have failed, this one included */
export function restSeconds(failures: number, askedMs: number | undefined): number {
  if (askedMs !== undefined) return Math.min(LONGEST_ASKED_SECONDS, Math.max(0, askedMs / 1000))
  return Math.min(LONGEST_REST_SECONDS, 2 ** Math.min(failures - 1, 10))
}

/** Until what may have been issued for an order that has ended is asked for again: a tenth longer each time. */
function abandonedRestSeconds(abandonedSeconds: number): number {
  return Math.min(LONGEST_ASKED_SECONDS, abandonedSeconds / 10)
}

/** A certificate that is missing after a week will not come; the row leaves with an alarm. */
const LONGEST_ABANDONED_SECONDS = 7 * 86_400

export const OVERDUE = problemDocument('serverInternal', 'the CA did not issue the certificate in time')
const REFUSED = problemDocument('serverInternal', 'the CA did not issue this certificate')

/** Rest of a row whose backend the configuration no longer has, or while the operator stops signing. */
const LONG_REST_SECONDS = 15

/** A row that this instance holds. */
export interface HeldIssuance {
  status: CsrRowStatus
  /** The answer of a step that was begun before is not recorded. */
  isRepeated: boolean
  backend: BackendName
  /** Steps in a row that have failed. */
  failures: number
  ageSeconds: number
  /** Seconds since the order failed; undefined while it is processing. */
  abandonedSeconds: number | undefined
}

/** Milliseconds until a backend may be asked; 0 is now. */
export interface Waits {
  /** For the first step of an issuance, which a rate limit of the CA keeps back. */
  first: number
  next: number
}

export interface Surroundings {
  /** The backends of the row's profile in order, the signer's name among them; empty for an unknown one. */
  candidates: readonly BackendName[]
  /**
   * Waits of the row's backend and of the candidates; backends that are not configured and a missing signer have none.
   */
  waits: ReadonlyMap<BackendName, Waits>
  /** The operator has stopped signing. */
  isStopped: boolean
  /** The instance begins nothing more. */
  isClosing: boolean
  /** Why the order gets no certificate any more, other than by its age. */
  lapsed: ProblemDocument | undefined
  /** Age at which an order fails. */
  timeoutSeconds: number
}

export type StepOutcome =
  /** The row was claimed, or the last step is committed. */
  | { status: 'claimed' }
  | { status: 'moved'; to: BackendName }
  | { status: 'pending'; retryAfterMs: number; mayHaveIssued: boolean }
  | { status: 'issued' }
  | { status: 'refused'; problem: ProblemDocument }
  | { status: 'error'; retryable: boolean; mayHaveIssued: boolean; retryAfterMs: number | undefined }
  /** The signer has surely not signed. */
  | { status: 'unsigned' }
  /** The signer was not asked. */
  | { status: 'not given' }

export type NextStep =
  /** The row's backend takes a step. */
  | { do: 'ask' }
  /** The row's backend withdraws what it has published, and another one is asked. */
  | { do: 'hand over'; to: BackendName; hasFailed: boolean }
  | { do: 'give to signer' }
  /** The row comes back from the signer; at once when `to` is asked in its place. */
  | { do: 'take from signer'; signer: BackendName; to: BackendName | undefined; failures: number; restSeconds: number }
  /** The answer is committed; without a rest the next step follows. */
  | { do: 'commit'; event: 'open' | 'promise'; restSeconds: number | undefined }
  | { do: 'rest'; event: 'rest' | 'promise'; isRepeated: boolean; failures: number; restSeconds: number }
  | { do: 'record' }
  | { do: 'abandon'; error: ProblemDocument }
  | { do: 'fail'; error: ProblemDocument; alarm?: string }

const WITHHELD = 'an order failed, and the CA may have issued its certificate; look there'
const NEVER_FETCHED = 'a certificate that may exist at the CA has not been fetched; look there'

export function nextStep(row: HeldIssuance, outcome: StepOutcome, around: Surroundings): NextStep {
  switch (outcome.status) {
    case 'claimed':
      return row.abandonedSeconds === undefined ? afterClaim(row, around) : afterEnd(row, row.abandonedSeconds, around)
    case 'moved':
      return isSigner(outcome.to) ? { do: 'give to signer' } : { do: 'ask' }
    case 'pending':
      return afterPending(row, outcome, around)
    case 'issued':
      return { do: 'record' }
    case 'refused':
      return { do: 'fail', error: outcome.problem }
    case 'error':
      return afterError(row, outcome, around)
    case 'unsigned':
      return afterSigner(row, around)
    case 'not given':
      return rest(row, LONG_REST_SECONDS, around)
  }
}

/** Whether the backend hears that an earlier try left no answer, or failed while a certificate may exist. */
export function isRepetition(row: HeldIssuance): boolean {
  return row.isRepeated || (mayExist(row.status) && row.failures > 0)
}

/** Events after which the row is still one of a backend. */
export type ProgressEvent = 'rest' | 'open' | 'promise' | 'move'

/** @throws Error for an event that the status does not allow */
export function statusOnEvent(status: CsrRowStatus, event: ProgressEvent | 'abandon'): CsrRowStatus {
  const next = (CSR_ISSUANCE[status] as Partial<Record<typeof event, CsrRowStatus>>)[event]
  if (next === undefined) throw new Error(`an issuance from a CSR that is ${status} has no event ${event}`)
  return next
}

export const isAbandoned = (status: CsrRowStatus): boolean => status === 'abandoned' || status === 'awaited'

const mayExist = (status: CsrRowStatus): boolean => status === 'promised' || status === 'awaited'

function afterClaim(row: HeldIssuance, around: Surroundings): NextStep {
  const error = around.lapsed ?? (row.ageSeconds > around.timeoutSeconds ? OVERDUE : undefined)
  if (error) return isUntouched(row) ? { do: 'fail', error } : { do: 'abandon', error }
  if (around.isStopped) return rest(row, LONG_REST_SECONDS, around)
  return isBound(row) ? byItsBackend(row, around) : byFirst(row, around)
}

function afterEnd(row: HeldIssuance, abandonedSeconds: number, around: Surroundings): NextStep {
  if (abandonedSeconds > LONGEST_ABANDONED_SECONDS)
    return { do: 'fail', error: OVERDUE, ...(isBound(row) && { alarm: NEVER_FETCHED }) }
  return around.isStopped ? rest(row, LONG_REST_SECONDS, around) : byItsBackend(row, around)
}

/** No backend has done anything for it, so nothing is to be cleaned up. */
const isUntouched = ({ status, isRepeated }: HeldIssuance) => status === 'fresh' && !isRepeated

/** A certificate may exist, or an answer is lost. */
const isBound = ({ status, isRepeated }: HeldIssuance) => mayExist(status) || isRepeated

function byItsBackend(row: HeldIssuance, around: Surroundings): NextStep {
  const waitMs = around.waits.get(row.backend)?.next ?? LONG_REST_SECONDS * 1000
  return waitMs === 0 ? { do: 'ask' } : rest(row, Math.min(LONG_REST_SECONDS, waitMs / 1000), around)
}

/** The backend of the row, unless all have failed and the first is asked again; else the first that is there. */
function byFirst(row: HeldIssuance, around: Surroundings): NextStep {
  const { candidates, waits } = around
  const beginsAgain = row.status === 'fresh' && row.failures > 0 && candidates.length > 0
  const names = beginsAgain ? candidates : [row.backend, ...candidates]
  let restMs = LONG_REST_SECONDS * 1000
  for (const name of names) {
    const continues = row.status === 'opened' && name === row.backend
    const waitMs = waits.get(name)?.[continues ? 'next' : 'first'] ?? restMs
    if (waitMs === 0) return begin(row, name)
    restMs = Math.min(restMs, waitMs)
  }
  return rest(row, restMs / 1000, around)
}

function begin({ status, backend }: HeldIssuance, to: BackendName): NextStep {
  if (to === backend) return { do: 'ask' }
  return isSigner(to) && status === 'fresh' ? { do: 'give to signer' } : { do: 'hand over', to, hasFailed: false }
}

function afterPending(
  row: HeldIssuance,
  { retryAfterMs, mayHaveIssued }: StepOutcome & { status: 'pending' },
  around: Surroundings,
): NextStep {
  const isAtOnce = retryAfterMs <= 0 && !around.isClosing
  const restSeconds = isAtOnce ? undefined : inTime(row, Math.max(0, retryAfterMs / 1000), around)
  return { do: 'commit', event: mayHaveIssued ? 'promise' : 'open', restSeconds }
}

/** By the table of `CsrBackend`. A later error does not settle whether an earlier step has issued. */
function afterError(row: HeldIssuance, error: StepOutcome & { status: 'error' }, around: Surroundings): NextStep {
  if (error.mayHaveIssued || mayExist(row.status))
    return error.retryable
      ? restAfterFailure(row, error.retryAfterMs, 'promise', around)
      : { do: 'fail', error: REFUSED, alarm: WITHHELD }
  if (!error.retryable || isAbandoned(row.status)) return { do: 'fail', error: REFUSED }
  const to = nextBackend(row.backend, around)
  return to === undefined
    ? restAfterFailure(row, error.retryAfterMs, 'rest', around)
    : { do: 'hand over', to, hasFailed: true }
}

function afterSigner(row: HeldIssuance, around: Surroundings): NextStep {
  const signer = around.candidates.find(isSigner) ?? ''
  const to = nextBackend(signer, around)
  if (to !== undefined) return { do: 'take from signer', signer, to, failures: 0, restSeconds: 0 }
  const failures = row.failures + 1
  return {
    do: 'take from signer',
    signer,
    to,
    failures,
    restSeconds: inTime(row, restSeconds(failures, undefined), around),
  }
}

/** The next one after `name` that is there. The first is asked again only when the last has failed as well. */
function nextBackend(name: BackendName, { candidates, waits }: Surroundings): BackendName | undefined {
  return candidates.slice(candidates.indexOf(name) + 1).find((one) => waits.get(one)?.first === 0)
}

function restAfterFailure(
  row: HeldIssuance,
  askedMs: number | undefined,
  event: 'rest' | 'promise',
  around: Surroundings,
): NextStep {
  const failures = row.failures + 1
  return {
    do: 'rest',
    event,
    isRepeated: false,
    failures,
    restSeconds: inTime(row, restSeconds(failures, askedMs), around),
  }
}

function rest(row: HeldIssuance, seconds: number, around: Surroundings): NextStep {
  const { isRepeated, failures } = row
  return { do: 'rest', event: 'rest', isRepeated, failures, restSeconds: inTime(row, seconds, around) }
}

/** An order ends in its time, however long a backend is away or wants to be left alone. After it there is no hurry. */
function inTime(row: HeldIssuance, seconds: number, { timeoutSeconds }: Surroundings): number {
  if (row.abandonedSeconds !== undefined) return Math.max(seconds, abandonedRestSeconds(row.abandonedSeconds))
  return Math.min(seconds, Math.max(0, timeoutSeconds - row.ageSeconds) + 1)
}
