/** Turns what happens in the service's parts into log lines, metrics, and events of validation attempts. */

import type { Logger } from 'pino'
import type { EventData } from '../domain/event.ts'
import { retryDelayMs, type ValidationPolicy, type ValidationRecord } from '../domain/validation-attempt.ts'
import type { EventWriter } from '../events/event-writer.ts'
import { beginAtZero, type Metrics } from '../ops/metrics.ts'
import { type ActorRef, batchPerTick } from '../runtime/actor.ts'
import type { AttemptEnded, ValidationRequest } from '../services/challenge-triggers.ts'
import type { DispatcherEvents } from '../services/validation-dispatcher.ts'
import type { FrontMessages } from './messages.ts'

export interface Reporting {
  log: Logger
  metrics: Metrics
  eventWriter: Pick<EventWriter, 'write'>
}

/** An operator must look: the metric counts it, the log has it at any level, and the event goes to those who are told. */
export function raiseAlarm(
  { log, metrics, eventWriter }: Reporting,
  subject: string,
  data: EventData<'alarm'>,
  facts: object = {},
): void {
  const { message, reason } = data
  metrics.alarms.inc()
  log.fatal({ event: 'alarm', ...facts, ...(reason !== undefined && { reason }) }, message)
  eventWriter.write({ kind: 'alarm', subject, accountId: undefined, data })
}

export function dispatcherEvents(
  log: Logger,
  metrics: Metrics,
  challenges: ChallengeEvents,
): Omit<DispatcherEvents, 'ended'> {
  beginAtZero(metrics.caaChecks, { result: 'failed' })
  return {
    attempted(request, record) {
      const { type, result, ms, caa } = record
      metrics.challengesValidated.inc({ result })
      metrics.validationDuration.observe({ type }, ms / 1000)
      if (caa) metrics.caaChecks.inc({ result: caa })
      challenges.ended(request, record)
      if (!log.isLevelEnabled('info')) return
      const { steps: evidence, ...facts } = record
      log.info({ event: 'validation', ...subjectOf(request), ...facts, evidence }, 'validation attempt')
    },
    superseded(request) {
      log.debug(
        { event: 'validation_superseded', ...subjectOf(request) },
        'the challenge is not this instance’s any more',
      )
    },
    interrupted(request, error) {
      metrics.validationsInterrupted.inc()
      log.error({ ...subjectOf(request), err: error }, 'a validation attempt gave no verdict; it is repeated')
    },
  }
}

/**
 * Sends each front thread its validation results, one message per tick. A thread under replacement
 * misses them, and its waiting requests time out.
 */
export function endedAttemptsTo(
  fronts: number,
  refOf: (front: number) => ActorRef<FrontMessages> | undefined,
  log: Logger,
): DispatcherEvents['ended'] {
  const senders = Array.from({ length: fronts }, (_, front) =>
    batchPerTick<AttemptEnded>((attempts) => {
      try {
        refOf(front)?.tell('attempts', attempts)
      } catch (error) {
        log.debug({ front, err: error }, 'a front thread was not told how validations ended')
      }
    }),
  )
  return (front, attempt) => senders[front]?.(attempt)
}

function subjectOf({ authorizationId, accountId, type, identifier, requestId }: ValidationRequest) {
  return { authorizationId, accountId, type, identifier: identifier.value, requestId }
}

/** Events of validation attempts: before each, and how it ended. */
interface ChallengeEvents {
  begins(request: ValidationRequest): void
  /** Called once its record is in the database. */
  ended(request: ValidationRequest, record: ValidationRecord): void
}

export function createChallengeEvents(writer: Pick<EventWriter, 'write'>, policy: ValidationPolicy): ChallengeEvents {
  return {
    begins(request) {
      writer.write({ kind: 'challenge.before_validate', ...eventSubjectOf(request), data: attemptOf(request) })
    },
    ended(request, { result, attempt, problem, detail = '' }) {
      const subject = eventSubjectOf(request)
      const facts = attemptOf(request)
      const failed = { ...facts, error: detail, problem }
      if (result === 'success')
        writer.write({ kind: 'challenge.after_validate', ...subject, data: { ...facts, result } })
      else if (result === 'failure') writer.write({ kind: 'challenge.on_failure', ...subject, data: failed })
      else {
        const backoffSeconds = retryDelayMs(attempt, policy) / 1000
        const data = { ...failed, retry_count: attempt, backoff_seconds: backoffSeconds }
        writer.write({ kind: 'challenge.on_retry', ...subject, data })
      }
    },
  }
}

const eventSubjectOf = ({ authorizationId, accountId }: ValidationRequest) => ({ subject: authorizationId, accountId })

const attemptOf = ({ authorizationId, accountId, type, token, identifier }: ValidationRequest) => ({
  challenge_type: type,
  token,
  identifier_type: identifier.type,
  identifier_value: identifier.value,
  authorization_id: authorizationId,
  account_id: accountId,
})
