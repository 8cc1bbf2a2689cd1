/** Events of validation attempts: before each, and how it ended. */

import type { EventKind } from '../domain/event.ts'
import type { ValidationRecord } from '../domain/validation-evidence.ts'
import { retryDelayMs, type ValidationPolicy } from '../domain/validation-policy.ts'
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
    this.#write('challenge.before_validate', request, {})
  }

  /** Once its record is in the database. */
  ended(request: ValidationRequest, { result, attempt, problem, detail }: ValidationRecord): void {
    const error = { error: detail ?? '', problem }
    if (result === 'success') this.#write('challenge.after_validate', request, { result })
    else if (result === 'failure') this.#write('challenge.on_failure', request, error)
    else {
      const backoffSeconds = retryDelayMs(attempt, this.#policy) / 1000
      this.#write('challenge.on_retry', request, { ...error, retry_count: attempt, backoff_seconds: backoffSeconds })
    }
  }

  #write(kind: EventKind, request: ValidationRequest, facts: object): void {
    const { authorizationId, accountId, type, token, identifier } = request
    const data = {
      challenge_type: type,
      token,
      identifier_type: identifier.type,
      identifier_value: identifier.value,
      authorization_id: authorizationId,
      account_id: accountId,
      ...facts,
    }
    this.#writer.write({ kind, subject: authorizationId, accountId, data })
  }
}
