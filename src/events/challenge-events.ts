/** Events of validation attempts: before each, and how it ended. */

import type { ValidationRecord } from '../domain/validation-attempt.ts'
import { retryDelayMs, type ValidationPolicy } from '../domain/validation-attempt.ts'
import type { ValidationRequest } from '../services/challenge-triggers.ts'
import type { EventWriter } from './event-writer.ts'

export class ChallengeEvents {
  readonly #writer: Pick<EventWriter, 'write'>
  readonly #policy: ValidationPolicy

  constructor(writer: Pick<EventWriter, 'write'>, policy: ValidationPolicy) {
    this.#writer = writer
    this.#policy = policy
  }

  begins(request: ValidationRequest): void {
    this.#writer.write({ kind: 'challenge.before_validate', ...subjectOf(request), data: attemptOf(request) })
  }

  /** Once its record is in the database. */
  ended(request: ValidationRequest, { result, attempt, problem, detail = '' }: ValidationRecord): void {
    const subject = subjectOf(request)
    const facts = attemptOf(request)
    const failed = { ...facts, error: detail, problem }
    if (result === 'success')
      this.#writer.write({ kind: 'challenge.after_validate', ...subject, data: { ...facts, result } })
    else if (result === 'failure') this.#writer.write({ kind: 'challenge.on_failure', ...subject, data: failed })
    else {
      const backoffSeconds = retryDelayMs(attempt, this.#policy) / 1000
      const data = { ...failed, retry_count: attempt, backoff_seconds: backoffSeconds }
      this.#writer.write({ kind: 'challenge.on_retry', ...subject, data })
    }
  }
}

const subjectOf = ({ authorizationId, accountId }: ValidationRequest) => ({ subject: authorizationId, accountId })

const attemptOf = ({ authorizationId, accountId, type, token, identifier }: ValidationRequest) => ({
  challenge_type: type,
  token,
  identifier_type: identifier.type,
  identifier_value: identifier.value,
  authorization_id: authorizationId,
  account_id: accountId,
})
