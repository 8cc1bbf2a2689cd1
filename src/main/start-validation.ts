/** Validation in the supervisor: the pools, the remote perspectives, and the dispatcher with its queue. */

import { readFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import path from 'node:path'
import type { Config } from '../config/schema.ts'
import { Corroboration } from '../mpic/corroboration.ts'
import { createRemotePerspective, type RemotePerspective } from '../mpic/remote-perspective.ts'
import { beginAtZero, type Metrics } from '../ops/metrics.ts'
import { ValidationDispatcher } from '../services/validation-dispatcher.ts'
import {
  caaSettings,
  corroborationMs,
  dispatchLimits,
  jobSettings,
  mailDomainSettings,
  staleSeconds,
  validationPolicy,
} from '../settings/validation-settings.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import { createCaaChecks, createCaaJobFactory, createMailDomainChecks } from '../validation/dns-checks.ts'
import type { ChallengeMethods } from '../validation/extensions.ts'
import { createJobFactory, createValidationPools, type ValidationPools } from '../validation/jobs.ts'
import type { IssuancePart } from './ca/start-ca.ts'
import { createChallengeEvents, dispatcherEvents, endedAttemptsTo } from './service-events.ts'
import type { StartContext } from './start-context.ts'
import type { DatabasePart } from './start-database.ts'

/** A validation takes 0.5 ms of CPU and up to seconds of waiting, so few threads run many at once. */
const VALIDATION_THREADS = Math.min(2, availableParallelism())

/** Extra time for attempts that outlast `server.graceful_timeout`. */
const VALIDATION_STOP_MS = 1_000

export type ValidationPart = Awaited<ReturnType<typeof startValidation>>

export async function startValidation(
  context: StartContext,
  { presence: { instanceId, presentSince }, eventWriter }: DatabasePart,
  { stores }: IssuancePart,
  methods: ChallengeMethods,
) {
  const { config, version, metrics, log, parts, fronts } = context
  const limits = dispatchLimits(config)
  const pool = startPools(context, methods, limits.total)
  const validators = parts.add('perspectives', await corroborated(pool, config, metrics), (one) => one.stop())
  const settings = jobSettings(config, version)
  const caaJob = createCaaJobFactory(caaSettings(config), settings.urls)
  const jobOf = createJobFactory(settings, methods, caaJob)
  const policy = validationPolicy(config, methods.extensions)
  const challenges = createChallengeEvents(eventWriter, policy)
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
    checkCaa: createCaaChecks({
      jobFor: caaJob,
      checkCaa: validators.checkCaa,
      onResult: (result) => metrics.caaChecks.inc({ result }),
      log,
    }),
    checkMailDomains: createMailDomainChecks({
      settings: mailDomainSettings(config),
      checkMailDomains: pool.checkMailDomains,
      log,
    }),
  }
}

function startPools({ config, log, parts }: StartContext, methods: ChallengeMethods, total: number) {
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
  return parts.add('validation pools', pool, (one) => one.close(VALIDATION_STOP_MS))
}

interface CorroboratedValidators extends Pick<ValidationPools, 'validate' | 'checkCaa'> {
  stop(): void
}

/**
 * Adds remote perspectives to the validators, when `challenges.perspectives` lists any.
 * @throws Error when a perspective's file cannot be read
 */
async function corroborated(pools: ValidationPools, config: Config, metrics: Metrics): Promise<CorroboratedValidators> {
  const { perspectives: configured, corroboration: rule, auto_accept } = config.challenges
  // auto_accept checks nothing here, so there is nothing to corroborate.
  if (configured.length === 0 || auto_accept) return { ...pools, stop() {} }

  const perspectives = await Promise.all(configured.map(remotePerspective))
  for (const { name: perspective } of configured)
    for (const check of ['dcv', 'caa']) beginAtZero(metrics.perspectiveChecks, { perspective, check, result: 'failed' })
  const corroboration = new Corroboration({
    perspectives,
    policy: { maxNonCorroborations: rule.max_non_corroborations ?? undefined, minRegions: rule.min_regions },
    timeoutMs: corroborationMs(config),
    newTraceId: () => uuidv7(Date.now()),
    onAnswer: (perspective, check, result) => metrics.perspectiveChecks.inc({ perspective, check, result }),
  })
  return {
    validate: async (job) => corroboration.verdict(job, await pools.validate(job)),
    checkCaa: async (job) => corroboration.findings(job, await pools.checkCaa(job)),
    stop() {
      for (const perspective of perspectives) perspective.close()
    },
  }
}

async function remotePerspective(settings: Config['challenges']['perspectives'][number]): Promise<RemotePerspective> {
  const { name, url, region, token, ca_path, client_cert_path, client_key_path } = settings
  const text = async (file: string) => {
    try {
      return await readFile(path.resolve(file), 'utf8')
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      throw new Error(`the perspective ${name}: ${file} cannot be read (${code})`, { cause })
    }
  }
  return createRemotePerspective({
    name,
    url,
    region: region ?? undefined,
    token: token ?? undefined,
    ca: ca_path === null ? undefined : await text(ca_path),
    clientCertificate:
      client_cert_path === null || client_key_path === null
        ? undefined
        : { cert: await text(client_cert_path), key: await text(client_key_path) },
  })
}
