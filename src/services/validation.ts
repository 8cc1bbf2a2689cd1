/** Triggering challenges (RFC 8555 §7.5.1): the claim in the database, then the hand-over to whoever validates. */

import type { Authorization } from '../domain/records.ts'
import {
  type BuiltInType,
  type ChallengeType,
  keyedType,
  type OfferedPlace,
  parseChallengeId,
} from '../protocol/challenge.ts'
import type { Identifier } from '../protocol/identifier.ts'
import { Problem } from '../protocol/problem.ts'
import type { Requester } from '../store/account-store.ts'
import type { AuthorizationStore } from '../store/authorization-store.ts'
import { NOBODY } from '../store/challenge-store.ts'
import { unlessStale } from './stale-account.ts'

/** What the dispatcher needs to validate a challenge that this instance has claimed. Plain data. */
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
}

/** Hands over without waiting and without throwing: what gets lost is adopted by the challenge worker. */
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
}

export interface ChallengeTriggerOptions {
  store: AuthorizationStore
  instanceId: number
  /** `auto_validate`: of the others the challenge worker takes care, here or in another instance. */
  isValidatedHere(type: ChallengeType): boolean
  dispatch: DispatchValidation
}

export function createChallengeTriggers(options: ChallengeTriggerOptions): ChallengeTriggers {
  const { store, dispatch } = options

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

  return {
    find,
    async trigger(requester, challengeId, requesterThumbprint, requestId) {
      const { authorizationId, key } = locate(challengeId)
      // A module's own methods, which have a place for a key, are always validated where they are asked for.
      const isHere = typeof key === 'number' || options.isValidatedHere(key)
      const instanceId = isHere ? options.instanceId : NOBODY
      const triggered = unlessStale(await store.trigger({ requester, authorizationId, type: key, instanceId }))
      // Not this account's, or not there: the plain look-up tells which.
      if (!triggered) return find(requester, challengeId)
      const { authorization, type } = offered(triggered.authorization, key)
      const { status, identifier, wildcard, token, accountId } = authorization
      const attempt = authorization.attempts[type]
      // Also on a repeat: the client asks for a retry (RFC 8555 §8.2), or it was told of a failure when the claim stood.
      if (instanceId !== NOBODY && triggered.mine && status === 'pending' && attempt?.status === 'processing') {
        const { tries, thumbprint = requesterThumbprint } = attempt
        const isRepeat = !triggered.moved
        const { formerThumbprints } = triggered
        dispatch({
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
          isRepeat,
        })
      }
      return { authorization, type }
    },
  }
}

function noSuchChallenge(): Problem {
  return new Problem('malformed', 'there is no such challenge', { status: 404 })
}
