/** The admin thread: the Admin API's application, its database pool, and perhaps its own listener. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { AdminApplication } from '../../admin/admin-application.ts'
import { AdminGate, type AdminPort, type AdminServer, listenForAdministrators } from '../../admin/admin-gate.ts'
import type { AdminQuestions } from '../../admin/admin-message.ts'
import { recordThrough } from '../../admin/audit/audit-log.ts'
import { readConsole } from '../../admin/console-files.ts'
import type { AdminContext, AdminEvents } from '../../admin/context.ts'
import { ENDPOINTS } from '../../admin/endpoints.ts'
import { bulkRevocationEvents, revocationEvents } from '../../admin/revocations/revocation-events.ts'
import { ReplyStreams } from '../../admin/streams.ts'
import { hashingInThread } from '../../admin/users/passwords.ts'
import { createFirstUser } from '../../admin/users/users.ts'
import type { Metrics } from '../../ops/metrics.ts'
import { answerOf } from '../../ops/thread-metrics.ts'
import { lowerPriority, runThread } from '../../runtime/thread-entry.ts'
import { adminDatabaseSettings, adminSettings, adminTls } from '../../settings/admin-settings.ts'
import { proxySettings } from '../../settings/server-settings.ts'
import { openCheckedDatabase } from '../../store/slonik.ts'
import { listUsers } from '../../store/user-store.ts'
import type { AdminThreadData, AdminThreadMessages } from '../messages.ts'
import { beginThread, threadActor } from '../parts.ts'
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
  const { parts, log, metrics, drain } = beginThread({ name, data, atExit })
  giveWay(log)
  const opened = await openCheckedDatabase(adminDatabaseSettings(data.config))
  const db = parts.add('database', opened, (one) => one.end())
  const streams = new ReplyStreams()
  const { baseUrl } = adminSettings(data.config)
  const { key, audit, watch, eventWriter } = createAudit(
    data,
    db,
    { log, metrics },
    recordThrough((decisions) => supervisor.ask('noteDecisions', decisions, ANSWER_MS)),
  )
  parts.add('event writer', eventWriter, (one) => one.close())
  const context = createAdminContext(data, {
    db,
    audit,
    auditKey: () => key,
    events: eventsFor({ log, metrics }),
    hashing: hashingInThread(log),
    // The next list has what is not noted.
    noteRevocations: (ids) =>
      supervisor
        .ask('noteRevocations', ids, ANSWER_MS)
        .catch((error) => log.warn({ err: error }, 'revocations not noted')),
    ask: (question) => supervisor.ask(question, undefined, ANSWER_MS),
  })
  await makeFirstAdministrator(data, context, log)
  const watching = new AuditUpkeep({ db, key, audit, watch, log, metrics })
  const upkeep = parts.add('upkeep of the audit log', watching, (one) => one.stop())
  context.bulkRevocations.start()
  const application = new AdminApplication({ endpoints: ENDPOINTS, context, streams, baseUrl, log })
  const consoleFiles = data.config.admin_api.console ? readConsole(log, data.config.admin_api.environment) : undefined
  const port: AdminPort = {
    request: async (request) => consoleFiles?.answer(request) ?? application.handle(request),
    next: (stream) => streams.next(stream),
    cancel: (stream) => streams.cancel(stream),
  }
  const server = listenIfWanted(data, port, metrics, log)
  atExit(() => server?.close())
  parts.add('requests', server, async (listening, deadlineMs) => {
    const deadline = performance.now() + deadlineMs
    // A request that waits for its job is answered with the job's URL.
    const jobs = Promise.all([context.bulkRevocations.stop(), context.auditVerifications.stop()])
    await listening?.drain(deadlineMs)
    while (application.running > 0 && performance.now() < deadline) await sleep(DRAIN_POLL_MS)
    await jobs
  })
  const actor = threadActor<AdminThreadMessages>(log, {
    name,
    mailboxLimit: MAILBOX_LIMIT,
    concurrency: MAILBOX_LIMIT,
    start: () => ({
      ...port,
      cancel: (stream) => {
        port.cancel(stream)
        return undefined
      },
      metrics: () => answerOf(metrics, 'admin'),
      cutAuditLog: (before) => upkeep.cut(before),
      noteReload: (changes) => upkeep.noteReload(changes),
      noteReconciled: (facts) => upkeep.noteReconciled(facts),
    }),
  })
  return { actor, drain }
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
