/** The challenge worker's round (doc 1, lock 712003): takes up challenges whose validation got lost with its instance. */

import { uuidv7 } from '../lib/uuid.ts'
import type { AuthorizationStore } from '../store/authorization-store.ts'
import type { ValidationRequest } from './validation.ts'

export interface ChallengeWorkerOptions {
  store: Pick<AuthorizationStore, 'adopt'>
  instanceId: number
  /** `challenges.background_worker.stale_seconds`. */
  staleSeconds: number
  /** False when the queue is full: the challenge is adopted again in a later round. */
  dispatch(request: ValidationRequest): boolean
}

const BATCH = 256

/** One round. @returns how many challenges were taken up. */
export async function adoptChallenges({
  store,
  instanceId,
  staleSeconds,
  dispatch,
}: ChallengeWorkerOptions): Promise<number> {
  const abandoned = await store.adopt(instanceId, staleSeconds, BATCH)
  const taken = abandoned.filter(({ authorization, type, accountThumbprint }) =>
    dispatch({
      authorizationId: authorization.id,
      accountId: authorization.accountId,
      type,
      identifier: authorization.identifier,
      wildcard: authorization.wildcard,
      token: authorization.token,
      thumbprint: accountThumbprint,
      tries: authorization.attempts[type]?.tries ?? 0,
      requestId: uuidv7(Date.now()),
    }),
  )
  return taken.length
}
