/** The admin thread: the Admin API's application, its database pool, and perhaps its own listener. */

import type { Logger } from 'pino'
import { AdminApplication } from '../../admin/admin-application.ts'
import { AdminGate, type AdminPort } from '../../admin/admin-gate.ts'
import type { AdminQuestions, AdminRequest } from '../../admin/admin-message.ts'
import { readConsole } from '../../admin/console-files.ts'
import type { AdminContext, AdminEvents } from '../../admin/context.ts'
import { recordThrough } from '../../admin/decisions/record-decisions.ts'
import { ENDPOINTS } from '../../admin/endpoints.ts'
import { type AdminServer, listenForAdministrators } from '../../admin/listener.ts'
import { bulkRevocationEvents, revocationEvents } from '../../admin/revocations/revocation-events.ts'
import { ReplyStreams } from '../../admin/streams.ts'
import { hashingInThread } from '../../admin/users/passwords.ts'
import { createFirstUser } from '../../admin/users/users.ts'
import { createLogger } from '../../ops/logging.ts'
import { createMetrics, type Metrics } from '../../ops/metrics.ts'
import { answerOf } from '../../ops/thread-metrics.ts'
import { spawn } from '../../runtime/actor.ts'
import { lowerPriority, runThread } from '../../runtime/thread-entry.ts'
import { adminDatabaseSettings, adminSettings, adminTls } from '../../settings/admin-settings.ts'
import { proxySettings } from '../../settings/server-settings.ts'
import { openCheckedDatabase } from '../../store/slonik.ts'
import { listUsers } from '../../store/user-store.ts'
import type { AdminThreadData, AdminThreadMessages } from '../messages.ts'
import { AuditUpkeep, createAudit } from './audit-upkeep.ts'
import { createAdminContext } from './create-context.ts'

/** Requests of all fronts together; the application answers what exceeds its own bound. */
const MAILBOX_LIMIT = 1_024
const DRAIN_POLL_MS = 10
/** Exceeds the supervisor's own deadline. */
const ANSWER_MS = 5_000
/** A thirtieth of a processor where clients want all of it. */
const LOWERED_BY = 15

runThread<AdminThreadData, AdminThreadMessages, AdminQuestions>(async ({ name, data, atExit, supervisor }) => {
  const metrics = createMetrics()
  const { log, flush } = createLogger(data.config.logging, name, { buffered: true, metrics })
  atExit(flush)
  giveWay(log)
  const db = await openCheckedDatabase(adminDatabaseSettings(data.config))
  const streams = new ReplyStreams()
  const { baseUrl } = adminSettings(data.config)
  const { key, audit, watch, eventWriter } = createAudit(
    data,
    db,
    { log, metrics },
    recordThrough((decisions) => supervisor.ask('noteDecisions', decisions, ANSWER_MS)),
  )
  const context = createAdminContext(data, {
    db,
    audit,
    auditKey: () => key,
    events: eventsFor({ log, metrics }),
    hashing: hashingInThread(log),
    // What is not told is on the next list.
    noteRevocations: (ids) =>
      supervisor
        .ask('noteRevocations', ids, ANSWER_MS)
        .catch((error) => log.warn({ err: error }, 'revocations not noted')),
    ask: (question) => supervisor.ask(question, undefined, ANSWER_MS),
  })
  await makeFirstAdministrator(data, context, log)
  context.bulkRevocations.start()
  const application = new AdminApplication({ endpoints: ENDPOINTS, context, streams, baseUrl, log })
  const consoleFiles = data.config.admin_api.console ? readConsole(log, data.config.admin_api.environment) : undefined
  const answer = async (request: AdminRequest) => consoleFiles?.answer(request) ?? application.handle(request)
  const port: AdminPort = {
    request: answer,
    next: (stream) => streams.next(stream),
    cancel: (stream) => streams.cancel(stream),
  }
  const server = listenIfWanted(data, port, metrics, log)
  atExit(() => server?.close())
  const upkeep = new AuditUpkeep({ db, key, audit, watch, log, metrics })
  const actor = spawn<AdminThreadMessages>({
    name,
    mailboxLimit: MAILBOX_LIMIT,
    concurrency: MAILBOX_LIMIT,
    restart: { initialDelayMs: 10, maxDelayMs: 1_000, maxRestarts: 5, windowMs: 60_000 },
    onFailure: ({ error }) => log.error({ err: error }, 'admin actor failed'),
    start: () => ({
      request: answer,
      next: (stream) => streams.next(stream),
      cancel: (stream) => {
        streams.cancel(stream)
        return undefined
      },
      metrics: () => answerOf(metrics, 'admin'),
      cutAuditLog: (before) => upkeep.cut(before),
      noteReload: (changes) => upkeep.noteReload(changes),
      noteReconciled: (facts) => upkeep.noteReconciled(facts),
    }),
  })
  return {
    actor,
    async drain(deadlineMs) {
      const deadline = performance.now() + deadlineMs
      // A request that waits for its job is answered with the job's URL.
      const jobs = Promise.all([context.bulkRevocations.stop(), context.auditVerifications.stop()])
      await server?.drain(deadlineMs)
      while (application.running > 0 && performance.now() < deadline)
        await new Promise((resolve) => setTimeout(resolve, DRAIN_POLL_MS))
      await jobs
      await upkeep.stop()
      await eventWriter.close()
      await db.end()
    },
  }
})

/** Administrators can wait; ACME clients come first. */
function giveWay(log: Logger): void {
  try {
    lowerPriority(LOWERED_BY)
  } catch (error) {
    log.warn({ event: 'priority_kept', err: error }, 'the admin thread could not lower its priority')
  }
}

const eventsFor = (reporting: { log: Logger; metrics: Metrics }): AdminEvents => ({
  certificates: revocationEvents(reporting),
  bulkRevocations: bulkRevocationEvents(reporting),
  credentials: { accountsRevoked: (count) => reporting.metrics.accountsRevoked.inc(count) },
  oidc: {
    failed: (reason) => reporting.log.warn({ event: 'oidc_failed', reason }, 'a sign-in by OpenID Connect has failed'),
  },
  auditVerifications: {
    failed: (error) => reporting.log.error({ err: error }, 'a check of the audit log did not reach its end'),
  },
})

/** A password must not reach a log, so that only a terminal is told one. */
async function makeFirstAdministrator(
  { config, isInteractive }: AdminThreadData,
  context: AdminContext,
  log: Logger,
): Promise<void> {
  const email = config.admin_api.initial_admin_email
  if (!isInteractive || email === null) {
    if ((await listUsers(context.db)).length === 0)
      log.warn({ event: 'no_administrator' }, 'there is no administrator; make one with: chancery admin create-user')
    return
  }
  const service = { userId: undefined, username: 'bootstrap', role: 'admin', ipAddress: undefined } as const
  const made = await createFirstUser(context, service, email)
  if (made)
    process.stderr.write(
      `\nThe first administrator:\n  username  admin\n  password  ${made.password}\nIt is not shown again.\n\n`,
    )
}

/** @returns undefined when the fronts hand the requests over */
function listenIfWanted(
  { config }: AdminThreadData,
  port: AdminPort,
  metrics: Metrics,
  log: Logger,
): AdminServer | undefined {
  const { listen } = config.admin_api
  if (!listen) return undefined
  return listenForAdministrators({
    bind: listen.bind,
    port: listen.port,
    tls: adminTls(config),
    proxy: proxySettings(config),
    metrics,
    log,
    gate: new AdminGate({ port, ...adminSettings(config) }),
    hstsMaxAgeSeconds: config.security.hsts_max_age_seconds,
    isGuarded: config.server.overload.enabled,
  })
}
