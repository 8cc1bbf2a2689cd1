/**
 * Entry of a front thread: its database and signer connections, caches, and HTTP server on the
 * shared port.
 */

import type { AdminMessages } from '../../admin/admin-message.ts'
import { overloadEvents } from '../../front/events.ts'
import type { HttpReply } from '../../http/http-message.ts'
import { trustedProxies } from '../../http/http-message.ts'
import { createLogger, PINO_LEVELS } from '../../ops/logging.ts'
import { createMetrics } from '../../ops/metrics.ts'
import { answerOf } from '../../ops/thread-metrics.ts'
import { OverloadControl } from '../../overload/overload-control.ts'
import { type Actor, spawn } from '../../runtime/actor.ts'
import { ActorError } from '../../runtime/errors.ts'
import { runThread, type ThreadContext } from '../../runtime/thread-entry.ts'
import { openSharedFlags } from '../../services/shared-state.ts'
import {
  liveSettings,
  overloadSettings,
  proxySettings,
  threadDatabaseSettings,
} from '../../settings/server-settings.ts'
import { openDatabase } from '../../store/database.ts'
import { connectCa } from '../ca/signer-connection.ts'
import type { FrontMessages, FrontThreadData, SupervisorMessages } from '../messages.ts'
import { createEventWriter } from '../start-event-writer.ts'
import { createStores } from '../stores.ts'
import { createAcmeContext } from './acme-context.ts'
import { startActivity } from './front-activity.ts'
import { createFrontCrls } from './front-crls.ts'
import { databaseTroubleTo, reportPoolTo, startTicks } from './front-load.ts'
import { openThreadNonces } from './front-nonces.ts'
import { startServers } from './front-servers.ts'
import {
  caaThrough,
  csrIssuancesThrough,
  decisionsThrough,
  mailDomainsOf,
  refusalsTo,
  validationsThrough,
} from './through-supervisor.ts'

type Context = ThreadContext<FrontThreadData, SupervisorMessages, AdminMessages>
type Parts = Awaited<ReturnType<typeof assemble>>
type Servers = Awaited<ReturnType<typeof startServers>>

/** The supervisor has had an answer of the signer by now, unless other backends issue. */
const FIRST_CONNECTION_MS = 5_000

runThread<FrontThreadData, FrontMessages, SupervisorMessages, AdminMessages>(async (thread) => {
  const parts = await assemble(thread)
  const servers = await startServers(thread, parts)
  startTicks(parts.overload, servers)
  const handIn = async () => {
    try {
      thread.supervisor.tell('lastMetrics', {
        front: thread.data.front,
        answer: await answerOf(parts.metrics, 'front'),
      })
    } catch (error) {
      parts.log.debug({ err: error }, 'the supervisor did not take the last metrics')
    }
  }
  return {
    actor: spawnActor(thread.name, parts, servers),
    async drain(deadlineMs) {
      // The thread may be ended at the deadline.
      await handIn()
      await drain(parts, servers, deadlineMs)
      await handIn()
    },
  }
})

/** Builds all parts of a front before it listens. */
async function assemble({ name, data, supervisor, atExit }: Context) {
  const { config, methods, instanceId } = data
  const metrics = createMetrics()
  const { log, flush } = createLogger(config.logging, name, { buffered: true, metrics })
  atExit(flush)
  const db = openDatabase(threadDatabaseSettings(config), (error) =>
    log.warn({ reason: error.message }, 'database connection lost'),
  )
  const flags = openSharedFlags(data.flags)
  reportPoolTo(flags, data.front, db)
  const eventWriter = createEventWriter(db, log, metrics)
  const ca = connectCa({ config, signer: data.signer, flags, metrics, log })
  // A front that knows no issuer yet refuses what it is asked to finalize. One that waits in vain begins without.
  if (data.signer) await ca.health({ timeoutMs: FIRST_CONNECTION_MS }).catch(() => undefined)
  const { nonces, close: closeNonces } = await openThreadNonces(config, data.nonce, db, log)
  const proxy = proxySettings(config)
  const isTrustedProxy = trustedProxies(proxy)
  const overload = new OverloadControl<HttpReply>({
    ...overloadSettings(config),
    isTrustedProxy,
    events: overloadEvents(log, metrics),
  })
  const context = createAcmeContext({
    thread: { config, methods, db, stores: createStores(db), ca, instanceId, metrics, log, eventWriter },
    memory: data,
    nonces,
    budget: overload.budget,
    dispatch: validationsThrough(supervisor, data.front, log, (lost) => context.challenges.ended(lost)),
    waitEvents: overload.admission,
    askForCaa: caaThrough(supervisor, config),
    note: decisionsThrough(supervisor),
    issueFromCsr: csrIssuancesThrough(supervisor, config, log),
    askForMailDomains: mailDomainsOf(supervisor, config, log),
  })
  const refusals = refusalsTo(supervisor, log)
  const { activity, close: closeActivity } = startActivity(db, log)
  const crls = createFrontCrls(data.crls, config.crl)
  /** Changes when the configuration is reloaded. */
  const live = { metricsPath: liveSettings(config).metricsPath }
  const errors = { isBusy: (error: unknown) => error instanceof ActorError, databaseTrouble: databaseTroubleTo(flags) }
  return {
    log,
    metrics,
    errors,
    db,
    eventWriter,
    refusals,
    activity,
    closeActivity,
    flags,
    ca,
    closeNonces,
    proxy,
    isTrustedProxy,
    overload,
    context,
    crls,
    live,
  }
}

/** Handles the supervisor's messages. */
function spawnActor(
  name: string,
  { log, metrics, context, crls, live }: Parts,
  servers: Servers,
): Actor<FrontMessages> {
  return spawn<FrontMessages>({
    name,
    mailboxLimit: 64,
    concurrency: 4,
    restart: { initialDelayMs: 10, maxDelayMs: 1_000, maxRestarts: 5, windowMs: 60_000 },
    onFailure: ({ error }) => log.error({ err: error }, 'front actor failed'),
    start: () => ({
      metrics: () => answerOf(metrics, 'front'),
      live: (settings) => {
        context.limits.apply(settings.rateLimits)
        log.level = PINO_LEVELS[settings.logLevel]
        live.metricsPath = settings.metricsPath
      },
      crls: crls.replace,
      closeAfterReplies: () => {
        for (const server of servers) server.closeAfterReplies()
        return undefined
      },
      attempts: (ended) => {
        context.challenges.ended(ended)
        return undefined
      },
    }),
  })
}

async function drain(parts: Parts, servers: Servers, deadlineMs: number): Promise<void> {
  const { overload, context, closeActivity, closeNonces, ca, db, eventWriter, refusals } = parts
  const deadline = performance.now() + deadlineMs
  overload.release()
  context.validationWaits.release()
  await Promise.all(servers.map((server) => server.drain(deadlineMs)))
  // A finalize whose reply has gone out as `processing` still records its certificate.
  while (context.issuance.inFlight() > 0 && performance.now() < deadline)
    await new Promise((resolve) => setTimeout(resolve, 10))
  refusals.report()
  await closeActivity()
  await closeNonces()
  await ca.close()
  await eventWriter.close()
  await db.close()
}
