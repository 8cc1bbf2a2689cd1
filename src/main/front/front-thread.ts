/** Entry of a front thread: its database and signer connections, caches, and HTTP server on the shared port. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { AdminMessages } from '../../admin/admin-message.ts'
import { overloadEvents } from '../../front/events.ts'
import { type HttpReply, trustedProxies } from '../../http/http-message.ts'
import { PINO_LEVELS } from '../../ops/logging.ts'
import { answerOf } from '../../ops/thread-metrics.ts'
import { OverloadControl } from '../../overload/overload-control.ts'
import type { Actor } from '../../runtime/actor.ts'
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
import { beginThread, type ThreadBasics, threadActor } from '../parts.ts'
import { createEventWriter, createStores } from '../stores.ts'
import { createAcmeContext } from './acme-context.ts'
import { createFrontCrls } from './front-documents.ts'
import { databaseTroubleTo, openThreadNonces, reportPoolTo, startActivity, startTicks } from './front-rounds.ts'
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
type Assembled = Awaited<ReturnType<typeof assemble>>
type Servers = Awaited<ReturnType<typeof startServers>>

/** The supervisor has had an answer of the signer by now, unless other backends issue. */
const FIRST_CONNECTION_MS = 5_000
const DRAIN_POLL_MS = 10

runThread<FrontThreadData, FrontMessages, SupervisorMessages, AdminMessages>(async (thread) => {
  const basics = beginThread(thread)
  const { parts, log, metrics } = basics
  const assembled = await assemble(thread, basics)
  const { overload, context } = assembled
  const servers = await startServers(thread, { ...assembled, log, metrics })
  parts.add('servers', servers, async (all, deadlineMs) => {
    const deadline = performance.now() + deadlineMs
    overload.release()
    context.validationWaits.release()
    await Promise.all(all.map((server) => server.drain(deadlineMs)))
    // A finalize whose reply has gone out as `processing` still records its certificate.
    while (context.issuance.inFlight() > 0 && performance.now() < deadline) await sleep(DRAIN_POLL_MS)
  })
  startTicks(overload, servers)
  const handIn = async () => {
    try {
      const answer = await answerOf(metrics, 'front')
      thread.supervisor.tell('lastMetrics', { front: thread.data.front, answer })
    } catch (error) {
      log.debug({ err: error }, 'the supervisor did not take the last metrics')
    }
  }
  return {
    actor: spawnActor(thread.name, basics, assembled, servers),
    async drain(deadlineMs) {
      // The thread may be ended at the deadline.
      await handIn()
      await basics.drain(deadlineMs)
      await handIn()
    },
  }
})

/** Builds all parts of a front before it listens. */
async function assemble({ data, supervisor }: Context, { parts, log, metrics }: ThreadBasics) {
  const { config, methods, instanceId } = data
  const opened = openDatabase(threadDatabaseSettings(config), (error) =>
    log.warn({ reason: error.message }, 'database connection lost'),
  )
  const db = parts.add('database', opened, (one) => one.close())
  const flags = openSharedFlags(data.flags)
  reportPoolTo(flags, data.front, db)
  const eventWriter = parts.add('event writer', createEventWriter(db, log, metrics), (one) => one.close())
  const connected = connectCa({ config, signer: data.signer, flags, metrics, log })
  const ca = parts.add('signer connection', connected, (one) => one.close())
  // A front that knows no issuer yet refuses what it is asked to finalize. One that waits in vain begins without.
  if (data.signer) await ca.health({ timeoutMs: FIRST_CONNECTION_MS }).catch(() => undefined)
  const nonces = await openThreadNonces({ config, memory: data.nonce, db, log, parts })
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
  const activity = startActivity(db, log, parts)
  const refusals = parts.add('refusals', refusalsTo(supervisor, log), (one) => one.report())
  const crls = createFrontCrls(data.crls, config.crl)
  /** Changes when the configuration is reloaded. */
  const live = { metricsPath: liveSettings(config).metricsPath }
  const errors = { isBusy: (error: unknown) => error instanceof ActorError, databaseTrouble: databaseTroubleTo(flags) }
  return { errors, eventWriter, refusals, activity, flags, ca, proxy, isTrustedProxy, overload, context, crls, live }
}

/** Handles the supervisor's messages. */
function spawnActor(
  name: string,
  { log, metrics }: ThreadBasics,
  { context, crls, live }: Assembled,
  servers: Servers,
): Actor<FrontMessages> {
  return threadActor<FrontMessages>(log, {
    name,
    mailboxLimit: 64,
    concurrency: 4,
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
