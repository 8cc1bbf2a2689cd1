/** `/maintenance`, `/signing` and `/crl`: what administrators switch for all instances. */

import { z } from 'zod/v4'
import type { SwitchPosition } from '../../store/server-settings.ts'
import { ADMINS, BOTH_ROLES, endpoint, endpointGroup } from '../endpoint.ts'
import { line, time, timeOrNull, timestamp } from '../schemas.ts'
import type { CrlStatus } from './crl-lists.ts'

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
const CrlHealth = z
  .strictObject({
    last_rebuild: z.number().nullable().meta({ description: 'Seconds since the oldest current list was begun.' }),
    stale: z.boolean(),
    error: z.string().nullable().meta({ description: 'Why there is no new list yet.' }),
    revoked_count: z.int().meta({ description: 'Entries of all current lists.' }),
  })
  .meta({ id: 'CrlHealth' })

function crlBody({ lists, isStale, obstacle }: CrlStatus): z.input<typeof CrlHealth> {
  const oldest = Math.min(...lists.map(({ startedAt }) => startedAt.getTime()))
  return {
    last_rebuild: lists.length === 0 ? null : Math.max(0, (Date.now() - oldest) / 1000),
    stale: isStale,
    error: obstacle ?? null,
    revoked_count: lists.reduce((sum, { entries }) => sum + entries, 0),
  }
}

const Crl = z
  .strictObject({
    issuer: z.string().meta({ description: 'Its name in the path of the list.' }),
    shard: z.int(),
    shards: z.int(),
    number: z.string().meta({ description: 'CRL number (RFC 5280 §5.2.3), which may exceed a JSON number.' }),
    this_update: timestamp(),
    next_update: timestamp(),
    entries: z.int(),
    bytes: z.int(),
  })
  .meta({ id: 'Crl' })

export const Crls = z
  .strictObject({
    enabled: z.boolean(),
    stale: z.boolean(),
    error: z.string().nullable().meta({ description: 'Why there is no new list yet.' }),
    rebuilding: z.boolean().meta({ description: 'Lists that were asked for are not all there yet.' }),
    lists: z.array(Crl),
  })
  .meta({ id: 'Crls' })

export const crlsBody = ({ lists, isStale, isPublished, isAwaited, obstacle }: CrlStatus): z.input<typeof Crls> => ({
  enabled: isPublished,
  stale: isPublished && isStale,
  error: obstacle ?? null,
  rebuilding: isAwaited,
  lists: lists.map(({ issuerId, shard, shards, number, thisUpdate, nextUpdate, entries, bytes }) => ({
    issuer: issuerId,
    shard,
    shards,
    number: String(number),
    entries,
    bytes,
    this_update: time(thisUpdate),
    next_update: time(nextUpdate),
  })),
})

/** Less than the 30 s that clients wait. */
const CRL_WAIT_SECONDS = 20

export const OPERATION = endpointGroup('Operation', {
  getMaintenance: endpoint({
    route: 'GET /maintenance',
    roles: ADMINS,
    summary: 'Shows whether new orders are refused.',
    reply: { status: 200, schema: Maintenance },
    handle: async (_request, { switches }) => ({ body: maintenanceBody(await switches.position('maintenance')) }),
  }),
  setMaintenance: endpoint({
    route: 'POST /maintenance',
    roles: ADMINS,
    summary: 'Refuses new orders and pre-authorizations on all instances, or takes them again.',
    body: z.strictObject({ enabled: z.boolean(), reason }),
    reply: { status: 200, schema: Maintenance },
    audit: 'maintenance.set',
    handle: async ({ author, body }, { switches }) => ({
      body: maintenanceBody(await switches.set(author, 'maintenance', body.enabled, body.reason)),
    }),
  }),
  getSigning: endpoint({
    route: 'GET /signing',
    roles: ADMINS,
    summary: 'Shows whether signing is stopped.',
    reply: { status: 200, schema: Signing },
    handle: async (_request, { switches }) => ({ body: signingBody(await switches.position('stopSigning')) }),
  }),
  setSigning: endpoint({
    route: 'POST /signing',
    roles: ADMINS,
    summary: 'Stops all signing on all instances, certificates and CRLs, or lets it go on.',
    body: z.strictObject({ stopped: z.boolean(), reason }),
    reply: { status: 200, schema: Signing },
    audit: 'signing.stop',
    handle: async ({ author, body }, { switches }) => ({
      body: signingBody(await switches.set(author, 'stopSigning', body.stopped, body.reason)),
    }),
  }),
  listCrls: endpoint({
    route: 'GET /crl',
    roles: BOTH_ROLES,
    summary: 'Shows the CRLs that are served.',
    reply: { status: 200, schema: Crls },
    handle: async (_request, { crls }) => ({ body: crlsBody(await crls.status()) }),
  }),
  rebuildCrl: endpoint({
    route: 'POST /crl/rebuild',
    roles: ADMINS,
    summary: 'Has new CRLs built and waits for them, up to 20 seconds; the request stands when the reply comes first.',
    body: z.strictObject({ wait_seconds: z.int().min(0).max(CRL_WAIT_SECONDS).default(CRL_WAIT_SECONDS) }),
    bodyIsOptional: true,
    reply: { status: 200, schema: CrlHealth },
    errors: ['unavailable'],
    audit: 'crl.rebuild',
    handle: async ({ author, body }, { crls }) => ({
      body: crlBody(await crls.rebuild(author, body.wait_seconds * 1000)),
    }),
  }),
})
