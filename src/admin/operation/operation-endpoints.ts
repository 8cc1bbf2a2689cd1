/**
 * `/settings`, `/maintenance`, `/signing` and `/workers`: the configuration in force, what administrators switch, and the
 * background tasks of all instances. Every instance follows a switch within seconds.
 */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import type { Actor, Role } from '../../domain/administrator.ts'
import { type ConsumerBacklog, isBehind } from '../../domain/alarms.ts'
import { isScoped } from '../../domain/permissions.ts'
import { MOST_WAITING, readWorkers } from '../../store/background-run-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import { createServerSettings, type ServerSwitch, type SwitchPosition } from '../../store/switch-store.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import type { AdminQuestions } from '../admin-message.ts'
import { resumeSigningAct } from '../approvals/acts.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { line, time, timeOrNull, timestamp } from '../schemas.ts'

const Json = z.unknown()

const Setting = z
  .strictObject({
    key: z.string(),
    value: Json.meta({ description: 'A secret that is set is "(hidden)".' }),
    default: Json,
    source: z.enum(['file', 'variable', 'default']).nullable().meta({ description: 'Null when no file is known.' }),
    variable: z.string().nullable(),
    reload: z.enum(['live', 'restart']).meta({ description: 'Whether a SIGHUP applies a change, or only a restart.' }),
    secret: z.boolean(),
    description: z.string(),
    unit: z.string().nullable(),
  })
  .meta({ id: 'Setting' })

const Settings = z
  .strictObject({
    settings: z.array(Setting),
    file: z
      .strictObject({
        path: z.string(),
        errors: z.array(z.string()).meta({ description: 'Why the file is not usable now; a SIGHUP changes nothing.' }),
        changes: z
          .array(z.strictObject({ key: z.string(), by: z.enum(['SIGHUP', 'restart']), value: Json }))
          .meta({ description: 'Keys of the file that differ from what is in force, and what applies them.' }),
      })
      .nullable()
      .meta({ description: 'Null when the service runs without a file.' }),
  })
  .meta({ id: 'Settings' })

function settingsBody({ settings, file }: AdminQuestions['settings']['reply']): z.input<typeof Settings> {
  return {
    settings: settings.map(({ source, variable, unit, ...setting }) => ({
      ...setting,
      source: source ?? null,
      variable: variable ?? null,
      unit: unit ?? null,
    })),
    file: file ? { ...file, errors: [...file.errors], changes: [...file.changes] } : null,
  }
}

/** Where a client finds the service, and which names an account gets. A registrar sees these alone. */
const OF_CLIENTS =
  /^(?:server\.external_url|api\.(?:base|roots)_path|acme\.paths\.\w+|acme\.eab_(?:required|reusable)|tos\.url|security\.identifier_policy\.enforce_account_allowlist)$/

/** A registrar sees what its clients need. */
export const isSettingFor = ({ role }: { role: Role }, key: string): boolean => !isScoped(role) || OF_CLIENTS.test(key)

export const SETTINGS = endpointGroup('Operation', {
  getSettings: endpoint({
    route: 'GET /settings',
    permission: 'read_accounts',
    scope: 'settings',
    reply: { status: 200, schema: Settings },
    async handle({ author }, { ask }) {
      const { settings, file } = await ask('settings')
      const shown = settings.filter(({ key }) => isSettingFor(author, key))
      return { body: settingsBody({ settings: shown, file: isScoped(author.role) ? undefined : file }) }
    },
  }),
})

const SINCE = {
  since: timestamp().nullable(),
  set_by: z.string().nullable().meta({ description: 'Username, or OS user of the command line.' }),
  reason: z.string().nullable(),
}
export const Maintenance = z.strictObject({ maintenance_mode: z.boolean(), ...SINCE }).meta({ id: 'Maintenance' })
export const Signing = z.strictObject({ signing_stopped: z.boolean(), ...SINCE }).meta({ id: 'Signing' })

const sinceBody = ({ since, by, reason }: SwitchPosition) => ({
  since: timeOrNull(since ?? null),
  set_by: by ?? null,
  reason: reason ?? null,
})
export const maintenanceBody = (position: SwitchPosition) => ({ maintenance_mode: position.on, ...sinceBody(position) })
export const signingBody = (position: SwitchPosition) => ({ signing_stopped: position.on, ...sinceBody(position) })

const reason = line(500).optional()
export const SWITCHES = endpointGroup('Operation', {
  getMaintenance: endpoint({
    route: 'GET /maintenance',
    permission: 'operate',
    reply: { status: 200, schema: Maintenance },
    handle: async (_request, { db }) => ({
      body: maintenanceBody((await switchPositions(db)).maintenance),
    }),
  }),
  setMaintenance: endpoint({
    route: 'POST /maintenance',
    permission: 'operate',
    body: z.strictObject({ enabled: z.boolean(), reason }),
    reply: { status: 200, schema: Maintenance },
    audit: 'maintenance.set',
    handle: async ({ author, body }, { audit }) => ({
      body: maintenanceBody(await setSwitch(audit, author, 'maintenance', body.enabled, body.reason)),
    }),
  }),
  getSigning: endpoint({
    route: 'GET /signing',
    permission: 'operate',
    reply: { status: 200, schema: Signing },
    handle: async (_request, { db }) => ({ body: signingBody((await switchPositions(db)).stopSigning) }),
  }),
  setSigning: endpoint({
    route: 'POST /signing',
    permission: 'operate',
    body: z.strictObject({ stopped: z.boolean(), reason }),
    reply: { status: 200, schema: Signing },
    audit: 'signing.stop',
    recentSignIn: ({ body }) => !body.stopped,
    approval: ({ body }, context) => resumeSigningAct(body, context),
    handle: async ({ author, body }, { audit }) => ({
      body: signingBody(await setSwitch(audit, author, 'stopSigning', body.stopped, body.reason)),
    }),
  }),
})

export function switchPositions(db: CommonQueryMethods): Promise<Record<ServerSwitch, SwitchPosition>> {
  return createServerSettings(queriesOf(db)).switches()
}

function setSwitch(
  audit: AuditLog,
  actor: Actor,
  name: ServerSwitch,
  on: boolean,
  reason: string | undefined,
): Promise<SwitchPosition> {
  return audit.transaction(actor, async (tx, note) => {
    const by = actor.operator ?? actor.username
    if (await createServerSettings(queriesOf(tx)).setSwitch(name, on, { by, reason })) {
      if (name === 'maintenance') note('maintenance.set', { enabled: on, reason })
      else note(on ? 'signing.stop' : 'signing.resume', { reason })
    }
    return (await switchPositions(tx))[name]
  })
}

/** The events that wait for a consumer, in this reply and in `/overview`. */
export const Backlog = z.strictObject({
  name: z.string(),
  waiting: z.int().meta({ description: `Events that wait, at most ${MOST_WAITING}.` }),
  more: z.boolean().meta({ description: 'True when more may wait than were counted.' }),
  oldest_seconds: z.int(),
  behind: z.boolean().meta({ description: 'True when the oldest has waited longer than between any two attempts.' }),
})

export const backlogBody = (backlog: ConsumerBacklog): z.input<typeof Backlog> => ({
  name: backlog.name,
  waiting: backlog.waiting,
  more: backlog.waiting >= MOST_WAITING,
  oldest_seconds: backlog.oldestSeconds,
  behind: isBehind(backlog),
})

const Workers = z
  .strictObject({
    tasks: z.array(
      z.strictObject({
        name: z.string(),
        leader: z.int().meta({ description: 'Instance that ran it last.' }),
        leader_is_alive: z.boolean(),
        last_run: timestamp(),
        next_run: timestamp(),
        errors: z.int().meta({ description: 'Failed runs.' }),
        last_error: z.string().nullable(),
        failed_at: timestamp().nullable(),
      }),
    ),
    consumers: z.array(Backlog),
  })
  .meta({ id: 'Workers' })

export const WORKERS = endpointGroup('Operation', {
  getWorkers: endpoint({
    route: 'GET /workers',
    permission: 'read',
    reply: { status: 200, schema: Workers },
    async handle(_request, { db }) {
      const { tasks, consumers } = await readWorkers(queriesOf(db))
      return {
        body: {
          tasks: tasks.map(({ name, leader, leaderIsAlive, lastRunAt, nextRunAt, errors, lastError, failedAt }) => ({
            name,
            leader,
            leader_is_alive: leaderIsAlive,
            last_run: time(lastRunAt),
            next_run: time(nextRunAt),
            errors,
            last_error: lastError,
            failed_at: timeOrNull(failedAt),
          })),
          consumers: consumers.map(backlogBody),
        },
      }
    },
  }),
})
