/** Takes a CA backend through all steps of an issuance, as issuance does: the state is JSON in between. */

import { setTimeout as sleep } from 'node:timers/promises'
import type {
  BackendState,
  CsrBackend,
  IssuanceRequest,
  IssuanceStep,
  StepOptions,
} from '../../../src/ca/csr-backend.ts'
import { aCsr, P256_KEY } from '../../unit/shared/pki/support.ts'
import { WAIT_MS } from '../patience.ts'

export type Ended = Exclude<IssuanceStep, { status: 'pending' }>

export async function aRequest(
  names: readonly string[],
  more: Partial<IssuanceRequest> = {},
): Promise<IssuanceRequest> {
  const now = Date.now()
  return {
    certificateId: crypto.randomUUID(),
    orderId: crypto.randomUUID(),
    csr: await aCsr(P256_KEY, { names: names.map((value) => ({ type: 'dns', value })) }),
    identifiers: names.map((value) => ({ type: 'dns', value })),
    profile: 'default',
    notBefore: new Date(now),
    notAfter: new Date(now + 86_400_000),
    validityDays: 1,
    requested: {},
    replaces: undefined,
    ...more,
  }
}

export interface Driven {
  /** Called before each step; throwing stops, as a crash of the service would. */
  before?(state: BackendState | undefined): void
  state?: BackendState | undefined
  step?: Partial<StepOptions>
}

/** @throws Error when it takes too long */
export async function issueThrough(
  backend: CsrBackend,
  request: IssuanceRequest,
  { before, state: first, step }: Driven = {},
): Promise<Ended> {
  const deadline = Date.now() + 2 * WAIT_MS
  let state = first
  while (Date.now() < deadline) {
    before?.(state)
    const signal = AbortSignal.timeout(backend.stepTimeoutMs)
    const answer = await backend.advance(request, state, { signal, isRepeated: false, isAbandoned: false, ...step })
    if (answer.status !== 'pending') return answer
    state = JSON.parse(JSON.stringify(answer.state)) as BackendState
    await sleep(answer.retryAfterMs)
  }
  throw new Error(`not issued in time: ${JSON.stringify(state)}`)
}
