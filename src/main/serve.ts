/** The service's life: everything up in order, everything down in order. */

import { randomBytes } from 'node:crypto'
import path from 'node:path'
import type { Logger } from 'pino'
import { startBackgroundTasks } from '../background/tasks.ts'
import type { Config } from '../config/schema.ts'
import { assertPortFree } from '../http/port-check.ts'
import { createMetrics } from '../ops/metrics.ts'
import { type SupervisedThread, superviseThread } from '../runtime/thread.ts'
import { announcingAuthorizations } from '../services/flow-cache.ts'
import { allocateInstanceBoard, openInstanceBoard } from '../services/instance-board.ts'
import { ValidationDispatcher } from '../services/validation-dispatcher.ts'
import { allocateChangeCounters, openChangeCounters } from '../shared/lib/change-counters.ts'
import { allocateReplayWindow } from '../shared/lib/replay-window.ts'
import { allocateSharedTable } from '../shared/lib/shared-table.ts'
import { openDatabase } from '../store/database.ts'
import { durabilityWarnings } from '../store/durability.ts'
import { announceInstance, type InstancePresence } from '../store/instance-presence.ts'
import { migrate, requireCurrentSchema } from '../store/migrate.ts'
import { GROUP_DISTANCE_MS } from '../store/pipeline.ts'
import { awaitDatabase } from './await-database.ts'
import { backgroundEvents, backgroundTasks } from './background.ts'
import { loadBlockedKeys } from './blocked-keys.ts'
import { startCrls } from './crl.ts'
import { PINO_LEVELS } from './logging.ts'
import type { FrontMessages, FrontThreadData, SupervisorMessages } from './messages.ts'
import { keepNonceEpochs } from './nonces.ts'
import { followSwitches } from './server-switches.ts'
import { attemptNews, dispatcherEvents, threadEvents } from './service-events.ts'
import { eabSecretBox } from './settings/eab-secret.ts'
import { databaseSettings, liveSettings, urlSettings } from './settings/server.ts'
import { dispatchLimits, staleSeconds, validationPolicy } from './settings/validation.ts'
import { requireTestSignatures } from './signer-check.ts'
import { type SignerPlace, startSignerProcess } from './signer-process.ts'
import { spawnSupervisor } from './supervisor.ts'
import { refreshServerCertificate, renewServerCertificate, tlsFiles } from './tls.ts'
import { createCaaChecks, createCaaJobFactory } from './validation/caa-checks.ts'
import { loadChallengeMethods } from './validation/extensions.ts'
import { createJobFactory, sharedSettings } from './validation/jobs.ts'
import { createMailDomainChecks } from './validation/mail-domain-checks.ts'
import { corroborated } from './validation/perspectives.ts'
import { createValidationPools } from './validation/pools.ts'
import { connectCa, createStores, createThreadIssuance } from './wiring.ts'

export interface ServeOptions {
  config: Config
  version: string
  log: Logger
  /** Called as each step begins, with what it does. */
  onStep(title: string): void
  /** A part is beyond repair from inside; the process should stop and be started again. */
  onBroken(reason: string): void
  /** Ends the wait for a database that is away. */
  stopping: AbortSignal
}

export interface RunningService {
  directoryUrl: string
  signerPid(): number | undefined
  /** Puts the live keys of a configuration into effect in every thread, and in those that are started later. */
  apply(config: Config): Promise<void>
  /** Resolves when everything is down. */
  stop(): Promise<void>
}

/** A validation takes half a millisecond of CPU and up to seconds of waiting: few threads, many at once. */
const VALIDATION_THREADS = 2

/** For attempts that outlast `server.graceful_timeout`. */
const VALIDATION_STOP_MS = 1_000

const SIGNER_FIRST_ANSWER_MS = 15_000
const THREAD_READY_TIMEOUT_MS = 30_000
const SIGNER_STOP_MS = 10_000
const FRONT_APPLY_MS = 2_000
/** How long a predecessor's presence may outlast it: PostgreSQL notices the closed socket within this. */
const PREDECESSOR_GRACE_MS = 5_000

const FRONT_RESTART = { initialDelayMs: 50, maxDelayMs: 5_000, maxRestarts: 20, windowMs: 60_000 }

/** Where a service is taken apart: each part that came up leaves how to bring it down, last up first down. */
class Teardown {
  readonly #steps: (() => Promise<unknown>)[] = []

  add(step: () => Promise<unknown>): void {
    this.#steps.push(step)
  }

  /** A step that fails does not keep the others from their turn. */
  async run(onError: (error: unknown) => void): Promise<void> {
    for (let step = this.#steps.pop(); step; step = this.#steps.pop()) await step().catch(onError)
  }
}

/** @throws StartAbandoned; Error in a plain sentence when it cannot start; what was up by then is down again */
export async function serve(options: ServeOptions): Promise<RunningService> {
  const teardown = new Teardown()
  const takeApart = () => teardown.run((error) => options.log.error({ err: error }, 'a part did not stop cleanly'))
  try {
    return { ...(await start(options, teardown)), stop: takeApart }
  } catch (error) {
    await takeApart()
    throw error
  }
}

async function start({ config, version, log, onStep, onBroken, ...options }: ServeOptions, teardown: Teardown) {
  const metrics = createMetrics()
  let stopping = false

  await requireFreePorts(config)
  // Every front reads it for itself; what is wrong with it is said here, once, and refuses the start.
  eabSecretBox(config)
  const methods = await loadChallengeMethods(config)
  if (config.challenges.auto_accept)
    log.warn(
      { event: 'auto_accept' },
      'challenges.auto_accept is on: NO CONTROL OVER IDENTIFIERS IS CHECKED; every name that may be asked for is valid at once',
    )
  onStep('checking the database')
  await awaitDatabase(() => prepareSchema(config, log), log, options.stopping)
  // That may have taken hours.
  await requireFreePorts(config)
  const db = openDatabase(databaseSettings(config), (error) =>
    log.warn({ reason: error.message }, 'database connection lost'),
  )
  // Validations end one by one, and who waits for one waits some milliseconds more (docs/decisions/statement-groups.md, docs/decisions/first-attempt.md).
  db.pipeline.keepDistance(GROUP_DISTANCE_MS)
  teardown.add(() => db.close())
  for (const warning of await durabilityWarnings(db)) log.warn({ event: 'database_durability' }, warning)
  await loadBlockedKeys(config, db, log)
  const presence = await announceInstance(databaseSettings(config), (error) => {
    if (!stopping) log.warn({ reason: error.message }, 'presence connection lost')
  })
  teardown.add(() => presence.close())
  if (config.nonce.store === 'memory') await requireNonceOwnership(presence)
  else {
    const epochs = await keepNonceEpochs(config, db, (error) =>
      log.warn({ reason: (error as Error).message }, 'the key epoch of nonces could not be renewed'),
    )
    teardown.add(() => epochs.stop())
  }

  onStep('starting the signer')
  const signer = await signerPlace(config, log, teardown)
  const boardMemory = allocateInstanceBoard(config.server.workers)
  const board = openInstanceBoard(boardMemory)
  const ca = connectCa({ config, signer, board, metrics, log })
  teardown.add(() => ca.close())
  // Early and in words: a service that cannot sign answers orders it will never finish.
  await requireTestSignatures(ca, signer.socketPath, SIGNER_FIRST_ANSWER_MS)

  const changes = allocateChangeCounters()
  const plainStores = createStores(db)
  const stores = {
    ...plainStores,
    authorizations: announcingAuthorizations(plainStores.authorizations, openChangeCounters(changes)),
  }
  const { instanceId } = presence
  const issuance = createThreadIssuance({
    config,
    methods,
    db,
    stores,
    ca,
    instanceId,
    metrics,
    log,
  })
  if (config.server.tls.self_issued_names.length > 0) onStep('checking the server certificate')
  const refreshCertificate = () => refreshServerCertificate(config, issuance)
  await refreshCertificate()
  const tls = tlsFiles(config)

  // Once nothing is validated here any more: another instance takes up at once what is released.
  teardown.add(async () => {
    const released = await stores.authorizations.release(instanceId)
    if (released > 0) log.info({ released }, 'challenges in processing are pending again')
  })

  onStep('starting the validation workers')
  const limits = dispatchLimits(config)
  const pool = createValidationPools(
    methods,
    config.challenges.auto_accept,
    {
      threads: VALIDATION_THREADS,
      concurrentTasksPerThread: Math.ceil(limits.total / VALIDATION_THREADS),
      maxQueue: limits.total,
    },
    sharedSettings(config),
    (error) => log.error({ err: error }, 'validation thread failed'),
  )
  teardown.add(() => pool.close(VALIDATION_STOP_MS))
  const validators = await corroborated(pool, config, metrics)
  teardown.add(async () => validators.stop())
  const caaJob = createCaaJobFactory(config)
  const fronts: SupervisedThread<FrontMessages>[] = []
  const tellNews = attemptNews(config.server.workers, (front) => fronts[front]?.ref, log)
  const dispatcher = new ValidationDispatcher({
    validate: validators.validate,
    jobFor: createJobFactory(config, methods, version, caaJob),
    store: stores.authorizations,
    policy: validationPolicy(config, methods.extensions),
    instanceId,
    presentSince: presence.presentSince,
    limits,
    claimFreshMs: (staleSeconds(config, methods.extensions) / 2) * 1000,
    events: { ...dispatcherEvents(log, metrics), news: tellNews },
  })

  const switches = await followSwitches(db, board, log)
  teardown.add(() => switches.stop())

  const crl = config.crl.enabled
    ? await startCrls({ config, stores, ca, metrics, log, isStopping: () => stopping })
    : undefined
  if (crl) teardown.add(() => crl.stop())
  // Whoever gets a certificate may ask for its list at once. Another instance that leads is building it already.
  if (crl?.shared().length === 0) {
    onStep('building the first CRL')
    await presence.lead('crl', async () => void (await crl.builder.round()))
    await crl.refresh()
  }
  let current = config
  const background = startBackgroundTasks(
    backgroundTasks({
      config,
      live: () => current,
      extensions: methods.extensions,
      instanceId,
      stores,
      issuance,
      ca,
      dispatcher,
      onRecovered({ certificateId, accountId, orderId }, outcome) {
        metrics.issuancesRecovered.inc({ outcome })
        log.warn({ certificateId, accountId, orderId, outcome }, 'interrupted issuance recovered')
      },
      onExpired(kind, { expired, challenges }) {
        const counter = { order: metrics.ordersExpired, authorization: metrics.authorizationsExpired }[kind]
        counter.inc(expired)
        metrics.challengesExpired.inc(challenges)
      },
      onDeleted(table, { deleted }, seconds) {
        metrics.retentionDeleted.inc({ table }, deleted)
        metrics.retentionPageSeconds.observe({ table }, seconds)
      },
      presentSince: presence.presentSince,
      crls: crl?.builder,
      isStopping: () => stopping,
    }),
    presence.lead,
    backgroundEvents(log, metrics),
  )
  const supervisor = spawnSupervisor({
    log,
    metrics,
    db,
    ca,
    board,
    dispatcher,
    tellNews,
    checkCaa: createCaaChecks({ jobFor: caaJob, checkCaa: validators.checkCaa, metrics, log }),
    checkMailDomains: createMailDomainChecks({ config, checkMailDomains: pool.checkMailDomains, log }),
    fronts: () => fronts,
    workers: () => ({
      challenge: background.isHealthy('challenge'),
      // Doc 1 counts retention as clean-up, and names a worker of expiration warnings, which this version does not have.
      cleanup: background.isHealthy('cleanup') && background.isHealthy('retention'),
      expiration: false,
    }),
    crl: () => crl?.health(),
    isStopping: () => stopping,
  })
  teardown.add(async () => supervisor.stop())
  teardown.add(() => dispatcher.drain(config.server.graceful_timeout * 1000))
  // Before the release: a round of adoption would claim challenges again.
  teardown.add(() => background.stop())

  onStep(`starting ${config.server.workers} front threads`)
  // Read by the HTTP library when the first thread loads it: room for a proxy's headers beside a client's.
  process.env.UWS_HTTP_MAX_HEADERS_SIZE ??= '16384'
  const shared: Omit<FrontThreadData, 'front'> = {
    config,
    methods,
    version,
    instanceId,
    signer: { socketPath: signer.socketPath, secretFile: signer.secretFile },
    nonce: { key: randomBytes(32), epochMs: Date.now(), window: allocateReplayWindow() },
    changes,
    rateTable: allocateSharedTable(),
    board: boardMemory,
    crls: crl?.shared() ?? [],
    tls,
  }
  const threads = Array.from({ length: config.server.workers }, (_, front): FrontThreadData => ({ ...shared, front }))
  // For running threads, and for those that will be started in their place.
  crl?.follow((crls) => {
    for (const data of threads) data.crls = crls
    // A thread that is just being replaced gets them with its start, or the next time.
    void Promise.allSettled(fronts.map(({ ref }) => ref.ask('crls', crls, FRONT_APPLY_MS)))
  })
  const gracefulMs = config.server.graceful_timeout * 1000
  for (const data of threads) {
    fronts.push(
      superviseThread<FrontMessages, SupervisorMessages>({
        name: `front-${data.front + 1}`,
        entry: new URL('../front/thread.js', import.meta.url),
        data,
        supervisor,
        mailboxLimit: 4096,
        readyTimeoutMs: THREAD_READY_TIMEOUT_MS,
        stopTimeoutMs: gracefulMs,
        restart: FRONT_RESTART,
        onEvent: threadEvents(log, onBroken),
      }),
    )
  }
  teardown.add(async () => {
    stopping = true
    await Promise.all(fronts.map((front) => front.stop(gracefulMs)))
  })
  await Promise.all(fronts.map((front) => front.start()))
  if (tls) {
    const recycleFronts = async () => {
      for (const front of fronts) await front.recycle('server certificate renewed')
    }
    const renewal = renewServerCertificate(refreshCertificate, recycleFronts, log)
    teardown.add(() => renewal.stop())
  }

  return {
    directoryUrl: `${urlSettings(config).externalUrl}${config.api.base_path}${config.acme.paths.directory}`,
    signerPid: signer.pid,
    async apply(next: Config) {
      await loadBlockedKeys(next, db, log)
      for (const data of threads) data.config = next
      current = next
      background.wake()
      const settings = liveSettings(next)
      log.level = PINO_LEVELS[settings.logLevel]
      // A thread that is just being replaced reads the new configuration when it starts.
      await Promise.allSettled(fronts.map(({ ref }) => ref.ask('live', settings, FRONT_APPLY_MS)))
    },
  }
}

/** Fronts share a port among each other, and would share it with a stranger without a word. */
async function requireFreePorts({ server, crl }: Config): Promise<void> {
  for (const port of [server.port, ...(crl.enabled && crl.http_port !== null ? [crl.http_port] : [])]) {
    try {
      await assertPortFree(server.bind, port)
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      const reason = code === 'EADDRINUSE' ? 'it is in use' : `${code}`
      throw new Error(`cannot listen on ${server.bind}:${port}: ${reason}`, { cause })
    }
  }
}

async function prepareSchema(config: Config, log: Logger): Promise<void> {
  if (!config.database.auto_setup) return requireCurrentSchema(databaseSettings(config))
  for (const { name } of await migrate(databaseSettings(config))) log.info({ migration: name }, 'database migrated')
}

/**
 * `nonce.store: memory` keeps the used nonces in this process. Beside another instance that would refuse most requests
 * that reach it with the other's nonce, so the second one does not start.
 */
async function requireNonceOwnership(presence: InstancePresence): Promise<void> {
  const deadline = Date.now() + PREDECESSOR_GRACE_MS
  while ((await presence.liveInstances()).length > 1) {
    if (Date.now() > deadline)
      throw new Error(
        'another instance is running on this database, and nonce.store is memory: nonces of one instance mean nothing to the other; stop it first',
      )
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

async function signerPlace(
  config: Config,
  log: Logger,
  teardown: Teardown,
): Promise<SignerPlace & { pid(): number | undefined }> {
  const { socket, secret_file } = config.ca.signer
  if (socket !== null && secret_file !== null)
    return { socketPath: socket, secretFile: path.resolve(secret_file), pid: () => undefined }
  const child = await startSignerProcess(config, log)
  teardown.add(() => child.stop(SIGNER_STOP_MS))
  return child
}
