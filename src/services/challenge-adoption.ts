/**
 * The challenge worker's round (doc 1, lock 712003): takes up challenges that nobody works on any more.
 *
 * Three ways lead there. The instance is gone: killed, or stopped and its challenges pending again; then any other takes
 * them, and a lone instance does when it starts. The hand-over got lost between the commit and the dispatcher: the same
 * instance takes it up again. And, where the challenge worker is enabled, an instance that lives and is silent for
 * `stale_seconds`, and the challenges of methods that are not validated where they are triggered (`auto_validate`).
 */

import { uuidv7 } from '../shared/lib/uuid.ts'
import type { AdoptedChallenge, AdoptionRules, ChallengeStore } from '../store/challenge-store.ts'
import type { ValidationDispatcher } from './validation-dispatcher.ts'

export interface ChallengeWorkerOptions {
  store: Pick<ChallengeStore, 'adopt' | 'overdue' | 'readopt'>
  instanceId: number
  rules: Omit<AdoptionRules, 'limit'>
  dispatcher: Pick<ValidationDispatcher, 'dispatch' | 'knows'>
  /** Since when this instance is known to live, by `performance.now()`; undefined while it is not. */
  presentSince(): number | undefined
}

const BATCH = 256
/**
 * After a restart of the database every instance looks dead until it is connected again, which takes about as long for all:
 * whoever is back first does not judge the others at once.
 */
const JUDGE_AFTER_MS = 2_000

/** One round. @returns how many challenges were taken up. */
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
  // What does not fit is under our claim and unknown here: it is overdue in a later round.
  return [...adopted, ...found].filter((challenge) => take(challenge, dispatcher)).length
}

function take(
  { authorization, type, thumbprint, formerThumbprints }: AdoptedChallenge,
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
    tries,
    requestId,
  })
}
