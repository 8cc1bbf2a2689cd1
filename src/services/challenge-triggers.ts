/**
 * Triggers challenges (RFC 8555 §7.5.1): claim in the database, then hand-over to the dispatcher.
 *
 * A new, unchanged authorization of this thread is handed over first. Most such attempts are
 * recorded within `AT_ONCE_MS` and need no claim. The others are claimed before the response, so
 * that `processing` in the response is also true in the database.
 */

import type { Authorization, ChallengeAttempt } from '../domain/records.ts'
import { sharedRuns } from '../shared/lib/caching.ts'
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
import { unlessStale } from './account-cache.ts'
import type { AttemptEnd, ValidationWaits } from './validation-waits.ts'

/** A challenge as the dispatcher validates it, claimed by this instance or not yet. Plain data. */
export interface ValidationRequest {
  authorizationId: string
  accountId: string
  type: ChallengeType
  /** Without the `*.` of a wildcard. */
  identifier: Identifier
  wildcard: boolean
  token: string
  /** The account key's at the time of the trigger. */
  thumbprint: string
  /** Thumbprints of former account keys, oldest first. */
  formerThumbprints: readonly string[]
  /** By which its client names the account, where that is a path of a former server. */
  accountPath?: string
  /** Failed tries so far. */
  tries: number
  requestId: string
  /** The claim is older than the request, so the attempt may have ended. */
  isRepeat?: boolean
  /** No claim yet: the record fails if another instance or key has the claim. */
  isUnclaimed?: boolean
}

type AttemptFacts =
  | 'thumbprint'
  | 'accountPath'
  | 'formerThumbprints'
  | 'tries'
  | 'requestId'
  | 'isRepeat'
  | 'isUnclaimed'

/** Tells a front thread that an attempt it handed over has ended. Plain data. */
export interface AttemptEnded {
  authorizationId: string
  /** Absent when the attempt was superseded. */
  recorded?: RecordedAttempt
}

export interface RecordedAttempt {
  type: ChallengeType
  attempt: ChallengeAttempt
  /** Null while another attempt will follow. */
  outcome: 'valid' | 'invalid' | null
  /** The attempt may have shortened the authorization's lifetime. */
  isBounded: boolean
}

/** Never waits or throws; the challenge worker adopts a claimed challenge that gets lost. */
export type DispatchValidation = (request: ValidationRequest) => void

interface ChallengeTriggerOptions {
  store: AuthorizationStore
  instanceId: number
  /** `auto_validate`; the challenge worker of some instance validates the other types. */
  isValidatedHere(type: ChallengeType): boolean
  dispatch: DispatchValidation
  /** The authorization from this thread's cache. */
  recall(requester: Requester, authorizationId: string): Authorization | undefined
  /** Updates the cached authorization with this result. */
  remember(authorizationId: string, recorded: RecordedAttempt): void
  waits: ValidationWaits
}

/** Short, because a client may serve the challenge only after this response. */
const AT_ONCE_MS = 100

interface Challenge {
  authorization: Authorization
  type: ChallengeType
}

/** The sender of a trigger request. */
interface TriggeredBy {
  requester: Requester
  thumbprint: string
  /** The same member of ValidationRequest. */
  accountPath?: string | undefined
  requestId: string
}

export class ChallengeTriggers {
  readonly #options: ChallengeTriggerOptions
  /** Concurrent equal requests would only queue for the same row. */
  readonly #runs = sharedRuns<Challenge>()

  constructor(options: ChallengeTriggerOptions) {
    this.#options = options
  }

  /** @throws Problem malformed 404 */
  async find(requester: Requester, challengeId: string): Promise<Challenge> {
    const { authorizationId, key } = locate(challengeId)
    const found = offered(unlessStale(await this.#options.store.find({ requester, authorizationId })), key)
    if (found.authorization.accountId !== requester.accountId)
      throw new Problem('unauthorized', 'this challenge belongs to another account')
    return found
  }

  /** Starts validation; a repeat asks for the next attempt (RFC 8555 §8.2). */
  trigger(challengeId: string, by: TriggeredBy): Promise<Challenge> {
    const { accountId, keyVersion } = by.requester
    return this.#runs(`${challengeId} ${accountId} ${keyVersion}`, () => this.#trigger(challengeId, by))
  }

  /** Called when attempts that were handed over have ended. */
  ended(attempts: readonly AttemptEnded[]): void {
    const { remember, waits } = this.#options
    for (const { authorizationId, recorded } of attempts) {
      if (recorded) remember(authorizationId, recorded)
      waits.over(authorizationId, recorded ? 'recorded' : 'void')
    }
  }

  async #trigger(challengeId: string, by: TriggeredBy): Promise<Challenge> {
    const { isValidatedHere } = this.#options
    const { authorizationId, key } = locate(challengeId)
    // A number is a module's own method, which is always validated in this instance.
    const isHere = typeof key === 'number' || isValidatedHere(key)
    const first = isHere ? this.#untouched(by.requester, authorizationId, key) : undefined
    if (first && (await this.#attemptAtOnce(first, by)) === 'recorded') {
      const found = await this.find(by.requester, challengeId)
      const { authorization, type } = found
      // The record may be of another type, which will be retried while this attempt runs.
      if (authorization.status !== 'pending' || authorization.attempts[type]) return found
    }
    return (await this.#claim(authorizationId, key, isHere, by)) ?? this.find(by.requester, challengeId)
  }

  /** @returns undefined when it does not exist or is another account's; `find` tells which */
  async #claim(
    authorizationId: string,
    key: BuiltInType | OfferedPlace,
    isHere: boolean,
    by: TriggeredBy,
  ): Promise<Challenge | undefined> {
    const { store } = this.#options
    const { requester } = by
    const instanceId = isHere ? this.#options.instanceId : NOBODY
    const triggered = unlessStale(await store.trigger({ requester, authorizationId, type: key, instanceId }))
    if (!triggered) return undefined
    const { authorization, type } = offered(triggered.authorization, key)
    const attempt = authorization.attempts[type]
    const isOpen = triggered.mine && authorization.status === 'pending' && attempt?.status === 'processing'
    // A repeat too, as it asks for a retry (RFC 8555 §8.2). The dispatcher ignores duplicates.
    if (isHere && isOpen) {
      const { tries, thumbprint = by.thumbprint } = attempt
      const { formerThumbprints, moved } = triggered
      this.#handOver(authorization, type, { ...facts(by), thumbprint, formerThumbprints, tries, isRepeat: !moved })
    }
    return { authorization, type }
  }

  /** The challenge, if it is cached and no challenge of its authorization was tried. */
  #untouched(requester: Requester, authorizationId: string, key: BuiltInType | OfferedPlace): Challenge | undefined {
    const authorization = this.#options.recall(requester, authorizationId)
    if (authorization?.status !== 'pending' || Object.keys(authorization.attempts).length > 0) return undefined
    const type = keyedType(key, authorization.offered)
    // dns-persist-01 also accepts former account keys, and only the claim returns them.
    return type === undefined || type === 'dns-persist-01' ? undefined : { authorization, type }
  }

  /** @returns undefined when the attempt is still running */
  async #attemptAtOnce({ authorization, type }: Challenge, by: TriggeredBy): Promise<AttemptEnd | undefined> {
    this.#handOver(authorization, type, { ...facts(by), formerThumbprints: [], tries: 0, isUnclaimed: true })
    return this.#options.waits.untilOver(authorization.id, authorization.accountId, AT_ONCE_MS)
  }

  #handOver(
    { id, accountId, identifier, wildcard, token }: Authorization,
    type: ChallengeType,
    attempt: Pick<ValidationRequest, AttemptFacts>,
  ): void {
    const { waits, dispatch } = this.#options
    waits.began(id, accountId)
    dispatch({ authorizationId: id, accountId, type, identifier, wildcard, token, ...attempt })
  }
}

const facts = ({ thumbprint, accountPath, requestId }: TriggeredBy) => ({
  thumbprint,
  requestId,
  ...(accountPath !== undefined && { accountPath }),
})

function locate(challengeId: string) {
  const located = parseChallengeId(challengeId)
  if (!located) throw noSuchChallenge()
  return located
}

function offered(authorization: Authorization | undefined, key: BuiltInType | OfferedPlace): Challenge {
  const type = authorization && keyedType(key, authorization.offered)
  if (!authorization || type === undefined) throw noSuchChallenge()
  return { authorization, type }
}

function noSuchChallenge(): Problem {
  return new Problem('malformed', 'there is no such challenge', { status: 404 })
}
