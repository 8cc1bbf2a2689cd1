/**
 * Validation in the supervisor: the pools, the remote perspectives, and the dispatcher with its
 * queue.
 */

import { availableParallelism } from 'node:os'
import { ChallengeEvents } from '../events/challenge-events.ts'
import { corroborated } from '../mpic/perspectives.ts'
import type { AskForCaa } from '../services/caa-freshness.ts'
import type { AskForMailDomains } from '../services/registration.ts'
import { type DispatcherEvents, ValidationDispatcher } from '../services/validation-dispatcher.ts'
import { dispatchLimits, staleSeconds, validationPolicy } from '../settings/validation.ts'
import { createCaaChecks, createCaaJobFactory } from '../validation/caa-checks.ts'
import type { ChallengeMethods } from '../validation/extensions.ts'
import { createJobFactory } from '../validation/jobs.ts'
import { createMailDomainChecks } from '../validation/mail-domain-checks.ts'
import { createValidationPools } from '../validation/pools.ts'
import type { IssuancePart } from './ca/start-ca.ts'
import { dispatcherEvents, endedAttemptsTo } from './service-events.ts'
import type { StartContext } from './start-context.ts'
import type { DatabasePart } from './start-database.ts'

/**
 * A validation takes 0.5 ms of CPU and up to seconds of waiting, so few threads run many at once.
 */
const VALIDATION_THREADS = Math.min(2, availableParallelism())

/** Extra time for attempts that outlast `server.graceful_timeout`. */
const VALIDATION_STOP_MS = 1_000

export interface ValidationPart {
  dispatcher: ValidationDispatcher
  sendEnded: DispatcherEvents['ended']
  checkCaa: AskForCaa
  checkMailDomains: AskForMailDomains
}

export async function startValidation(
  context: StartContext,
  { presence: { instanceId, presentSince }, eventWriter }: DatabasePart,
  { stores }: IssuancePart,
  methods: ChallengeMethods,
): Promise<ValidationPart> {
  const { config, version, metrics, log, teardown, fronts } = context
  const limits = dispatchLimits(config)
  const pool = startPools(context, methods, limits.total)
  const validators = await corroborated(pool, config, metrics)
  teardown.add(async () => validators.stop())
  const caaJob = createCaaJobFactory(config)
  const jobOf = createJobFactory(config, methods, version, caaJob)
  const policy = validationPolicy(config, methods.extensions)
  const challenges = new ChallengeEvents(eventWriter, policy)
  const sendEnded = endedAttemptsTo(config.server.workers, (front) => fronts[front]?.ref, log)
  const dispatcher = new ValidationDispatcher({
    validate: validators.validate,
    jobFor(request) {
      challenges.begins(request)
      return jobOf(request)
    },
    store: stores.authorizations,
    policy,
    instanceId,
    presentSince,
    limits,
    claimFreshMs: (staleSeconds(config, methods.extensions) / 2) * 1000,
    events: { ...dispatcherEvents(log, metrics, challenges), ended: sendEnded },
  })
  return {
    dispatcher,
    sendEnded,
    checkCaa: createCaaChecks({ jobFor: caaJob, checkCaa: validators.checkCaa, metrics, log }),
    checkMailDomains: createMailDomainChecks({ config, checkMailDomains: pool.checkMailDomains, log }),
  }
}

function startPools({ config, log, teardown }: StartContext, methods: ChallengeMethods, total: number) {
  const pool = createValidationPools(
    methods,
    config.challenges.auto_accept,
    {
      threads: VALIDATION_THREADS,
      concurrentTasksPerThread: Math.ceil(total / VALIDATION_THREADS),
      maxQueue: total,
    },
    (error) => log.error({ err: error }, 'validation thread failed'),
  )
  teardown.add(() => pool.close(VALIDATION_STOP_MS))
  return pool
}
