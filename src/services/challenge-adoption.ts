/**
 * A round of the challenge worker adopts challenges that no instance works on any more:
 *
 * - The instance has ended. Another adopts them, or the same one after its restart.
 * - The hand-over was lost between commit and dispatcher. The same instance adopts them again.
 * - If the worker is enabled: an instance was silent for `stale_seconds`, or the method has no
 *   `auto_validate`.
 */

import { uuidv7 } from '../shared/lib/uuid.ts'
import type { AdoptedChallenge, AdoptionRules, ChallengeStore } from '../store/challenge-store.ts'
import type { ValidationDispatcher } from './validation-dispatcher.ts'

interface ChallengeWorkerOptions {
  store: Pick<ChallengeStore, 'adopt' | 'overdue' | 'readopt'>
  instanceId: number
  rules: Omit<AdoptionRules, 'limit'>
  dispatcher: Pick<ValidationDispatcher, 'dispatch' | 'knows'>
  /** Since when others see this instance as alive (`performance.now()`); undefined: they do not. */
  presentSince(): number | undefined
}

const BATCH = 256
/**
 * After a restart of the database every instance looks dead until it reconnects.
 * The first to reconnect waits this long before it adopts from others.
 */
const JUDGE_AFTER_MS = 2_000

/** One round. @returns how many challenges were adopted. */
export async function adoptChallenges(options: ChallengeWorkerOptions): Promise<number> {
  const { store, instanceId, rules, dispatcher, presentSince } = options
  const since = presentSince()
  if (since === undefined || performance.now() - since < JUDGE_AFTER_MS) return 0
  const adopted = await store.adopt(instanceId, { ...rules, limit: BATCH })

  const overdue = await store.overdue(instanceId)
  const lost = overdue.filter(({ authorizationId, types }) =>
    types.some((type) => !dispatcher.knows({ authorizationId, type })),
  )
  const lostIds = lost.slice(0, BATCH).map(({ authorizationId }) => authorizationId)
  const found = lostIds.length === 0 ? [] : await store.readopt(instanceId, lostIds)
  // A challenge that the dispatcher rejects stays claimed, and is overdue in a later round.
  return [...adopted, ...found].filter((challenge) => take(challenge, dispatcher)).length
}

function take(
  { authorization, type, thumbprint, formerThumbprints, accountPath }: AdoptedChallenge,
  dispatcher: ChallengeWorkerOptions['dispatcher'],
): boolean {
  const { id: authorizationId, accountId, identifier, wildcard, token, attempts } = authorization
  if (dispatcher.knows({ authorizationId, type })) return false
  const tries = attempts[type]?.tries ?? 0
  const requestId = uuidv7(Date.now())
  return dispatcher.dispatch({
    authorizationId,
    accountId,
    type,
    identifier,
    wildcard,
    token,
    thumbprint,
    formerThumbprints,
    ...(accountPath !== undefined && { accountPath }),
    tries,
    requestId,
  })
}
