/**
 * Triggering challenges (RFC 8555 §7.5.1): the claim in the database, then the hand-over to whoever validates.
 *
 * An authorization that this thread has just made, and that nobody has touched since, is handed over first. Most attempts are over
 * and recorded within `AT_ONCE_MS`, and then there is nothing to claim: the response says how it ended. The others are
 * claimed then, before anything is answered, so that what a client was told to be processing is in the database.
 */

import type { Authorization, ChallengeAttempt } from '../domain/records.ts'
import {
  type BuiltInType,
  type ChallengeType,
  keyedType,
  type OfferedPlace,
  parseChallengeId,
} from '../shared/protocol/challenge.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import { Problem } from '../shared/protocol/problem.ts'
import type { Requester } from '../store/account-store.ts'
import type { AuthorizationStore } from '../store/authorization-store.ts'
import { NOBODY } from '../store/challenge-store.ts'
import { unlessStale } from './stale-account.ts'
import type { AttemptEnd, ValidationWaits } from './validation-waits.ts'

/** What the dispatcher needs to validate a challenge, claimed by this instance or not yet. Plain data. */
export interface ValidationRequest {
  authorizationId: string
  accountId: string
  type: ChallengeType
  /** Without the `*.` of a wildcard. */
  identifier: Identifier
  wildcard: boolean
  token: string
  /** Of the account key at the time of the trigger. */
  thumbprint: string
  /** Of the keys it had before, oldest first. */
  formerThumbprints: readonly string[]
  /** Failed tries so far. */
  tries: number
  requestId: string
  /** The claim is older than the request, and what it was made for may be over. */
  isRepeat?: boolean
  /** Not claimed when it was handed over: the first attempt is recorded if nobody else, and no other key, has the claim. */
  isUnclaimed?: boolean
}

type AttemptFacts = 'thumbprint' | 'formerThumbprints' | 'tries' | 'requestId' | 'isRepeat' | 'isUnclaimed'

/** What a front thread is told when an attempt that it has handed over has ended. Plain data. */
export interface AttemptNews {
  authorizationId: string
  /** Absent when there was nothing to record any more. */
  recorded?: RecordedAttempt
}

export interface RecordedAttempt {
  type: ChallengeType
  attempt: ChallengeAttempt
  /** Null while another attempt will follow. */
  outcome: 'valid' | 'invalid' | null
  /** The authorization may expire sooner than it said before. */
  isBounded: boolean
}

/** Hands over without waiting and without throwing: what gets lost and is claimed is adopted by the challenge worker. */
export type DispatchValidation = (request: ValidationRequest) => void

export interface ChallengeTriggers {
  /** @throws Problem malformed 404 */
  find(requester: Requester, challengeId: string): Promise<{ authorization: Authorization; type: ChallengeType }>
  /** Starts validation; a repeat returns the challenge as it is and asks for the next attempt (RFC 8555 §8.2). */
  trigger(
    requester: Requester,
    challengeId: string,
    thumbprint: string,
    requestId: string,
  ): Promise<{ authorization: Authorization; type: ChallengeType }>
  /** What became of attempts that were handed over. */
  ended(news: readonly AttemptNews[]): void
}

export interface ChallengeTriggerOptions {
  store: AuthorizationStore
  instanceId: number
  /** `auto_validate`: of the others the challenge worker takes care, here or in another instance. */
  isValidatedHere(type: ChallengeType): boolean
  dispatch: DispatchValidation
  /** An authorization as this thread remembers it; undefined where it does not. */
  recall(requester: Requester, authorizationId: string): Authorization | undefined
  /** What it remembers is so now. */
  remember(authorizationId: string, recorded: RecordedAttempt): void
  waits: ValidationWaits
}

/** A client may answer a challenge from the thread that waits for this response, so it must be short beside a time-out. */
const AT_ONCE_MS = 100

export function createChallengeTriggers(options: ChallengeTriggerOptions): ChallengeTriggers {
  const { store, waits } = options

  function locate(challengeId: string) {
    const located = parseChallengeId(challengeId)
    if (!located) throw noSuchChallenge()
    return located
  }

  function offered(authorization: Authorization | undefined, key: BuiltInType | OfferedPlace) {
    const type = authorization && keyedType(key, authorization.offered)
    if (!authorization || type === undefined) throw noSuchChallenge()
    return { authorization, type }
  }

  async function find(requester: Requester, challengeId: string) {
    const { authorizationId, key } = locate(challengeId)
    const found = offered(unlessStale(await store.find({ requester, authorizationId })), key)
    if (found.authorization.accountId !== requester.accountId)
      throw new Problem('unauthorized', 'this challenge belongs to another account')
    return found
  }

  /** What an attempt needs of an authorization of which nothing has been tried. */
  function untouched(requester: Requester, authorizationId: string, key: BuiltInType | OfferedPlace) {
    const authorization = options.recall(requester, authorizationId)
    if (authorization?.status !== 'pending' || Object.keys(authorization.attempts).length > 0) return undefined
    const type = keyedType(key, authorization.offered)
    // This method alone looks at the keys that the account had before, and only the claim tells them.
    return type === undefined || type === 'dns-persist-01' ? undefined : { authorization, type }
  }

  function handOver(
    { id, accountId, identifier, wildcard, token }: Authorization,
    type: ChallengeType,
    attempt: Pick<ValidationRequest, AttemptFacts>,
  ): void {
    waits.began(id, accountId)
    options.dispatch({ authorizationId: id, accountId, type, identifier, wildcard, token, ...attempt })
  }

  /** @returns undefined while the attempt is under way */
  async function attemptAtOnce(
    { authorization, type }: { authorization: Authorization; type: ChallengeType },
    thumbprint: string,
    requestId: string,
  ): Promise<AttemptEnd | undefined> {
    handOver(authorization, type, { thumbprint, formerThumbprints: [], tries: 0, requestId, isUnclaimed: true })
    return waits.untilOver(authorization.id, authorization.accountId, AT_ONCE_MS)
  }

  return {
    find,
    async trigger(requester, challengeId, requesterThumbprint, requestId) {
      const { authorizationId, key } = locate(challengeId)
      // A module's own methods, which have a place for a key, are always validated where they are asked for.
      const isHere = typeof key === 'number' || options.isValidatedHere(key)
      const first = isHere ? untouched(requester, authorizationId, key) : undefined
      if (first && (await attemptAtOnce(first, requesterThumbprint, requestId)) === 'recorded') {
        const found = await find(requester, challengeId)
        const { authorization, type } = found
        // Or it was that of another type, which will be tried again, and this one is under way.
        if (authorization.status !== 'pending' || authorization.attempts[type]) return found
      }

      const instanceId = isHere ? options.instanceId : NOBODY
      const triggered = unlessStale(await store.trigger({ requester, authorizationId, type: key, instanceId }))
      // Not this account's, or not there: the plain look-up tells which.
      if (!triggered) return find(requester, challengeId)
      const { authorization, type } = offered(triggered.authorization, key)
      const attempt = authorization.attempts[type]
      const isOpen = triggered.mine && authorization.status === 'pending' && attempt?.status === 'processing'
      // Also on a repeat: the client asks for a retry (RFC 8555 §8.2), or it was told of a failure when the claim stood. And
      // after a first attempt: where that is under way it is known, and where it was given up nobody else would begin another.
      if (isHere && isOpen) {
        const { tries, thumbprint = requesterThumbprint } = attempt
        const { formerThumbprints, moved } = triggered
        handOver(authorization, type, { thumbprint, formerThumbprints, tries, requestId, isRepeat: !moved })
      }
      return { authorization, type }
    },
    ended(news) {
      for (const { authorizationId, recorded } of news) {
        if (recorded) options.remember(authorizationId, recorded)
        waits.over(authorizationId, recorded ? 'recorded' : 'void')
      }
    },
  }
}

function noSuchChallenge(): Problem {
  return new Problem('malformed', 'there is no such challenge', { status: 404 })
}
