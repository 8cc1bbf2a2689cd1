/** `/maintenance` and `/signing`: what administrators switch. Every instance follows within seconds. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import type { Actor } from '../../domain/administrator.ts'
import { queriesOf } from '../../store/slonik.ts'
import type { ServerSwitch } from '../../store/switch-store.ts'
import { createServerSettings, type SwitchPosition } from '../../store/switch-store.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { resumeSigningAct } from '../approvals/acts.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { line, timeOrNull, timestamp } from '../schemas.ts'

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
