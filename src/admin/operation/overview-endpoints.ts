/** `/overview`: what administrators look at first. */

import { z } from 'zod/v4'
import type { InstanceState } from '../../domain/alarms.ts'
import { ALARM_CODES } from '../../domain/alarms.ts'
import { BOTH_ROLES, endpoint, endpointGroup } from '../endpoint.ts'
import { time, timestamp } from '../schemas.ts'
import { Crls, crlsBody, Maintenance, maintenanceBody, Signing, signingBody } from './operation-endpoints.ts'
import type { Overview as Facts } from './overview.ts'
import { MOST_COUNTED } from './overview-store.ts'

const upTo = (what: string) => z.int().meta({ description: `${what} Counted up to ${MOST_COUNTED}.` })

const Instance = z
  .strictObject({
    database: z.enum(['ok', 'error', 'pool_exhausted']),
    pool: z.strictObject({ max: z.int(), size: z.int(), available: z.int(), waiting: z.int() }),
    ca_backend: z.strictObject({
      status: z.enum(['ok', 'error', 'stopped']),
      reason: z.string().nullable(),
      tokens: z.array(z.strictObject({ issuer: z.string(), status: z.string(), since: z.string() })),
    }),
    dns_resolver: z.enum(['ok', 'error']).nullable(),
  })
  .meta({ id: 'Instance' })

const Alarm = z
  .strictObject({ severity: z.enum(['error', 'warning']), code: z.enum(ALARM_CODES), message: z.string() })
  .meta({ id: 'Alarm' })

const Overview = z
  .strictObject({
    at: timestamp(),
    version: z.string(),
    alarms: z.array(Alarm).meta({ description: 'The worst first.' }),
    issued: z
      .array(z.strictObject({ hour: timestamp(), certificates: z.int() }))
      .meta({ description: 'Of the last 24 hours, the oldest first; an hour without certificates is left out.' }),
    issued_of_day: z.int(),
    revoked_of_day: z.int(),
    revoked: z.int().meta({ description: 'Since the database was made.' }),
    failures: z
      .array(z.strictObject({ kind: z.string(), events: z.int() }))
      .meta({ description: 'Of the last 24 hours.' }),
    expiring: z.array(
      z.strictObject({
        days: z.int(),
        certificates: z.int().meta({ description: 'Unrevoked ones that end within so many days.' }),
        more: z.boolean().meta({ description: `True when only the first ${MOST_COUNTED} were looked at.` }),
      }),
    ),
    crl: Crls,
    issuers: z.array(
      z.strictObject({ id: z.string(), subject: z.string(), fingerprint: z.string(), not_after: timestamp() }),
    ),
    instance: Instance.nullable().meta({ description: 'The one that answers; null when it does not say how it is.' }),
    maintenance: Maintenance,
    signing: Signing,
    validations: z.strictObject({ running: upTo('On all instances.'), oldest_seconds: z.int() }),
    notifications: z.strictObject({ waiting: upTo('Pending ones.'), failed: upTo('Those of all time.') }),
    dead_letters: upTo('Events that could not be delivered.'),
  })
  .meta({ id: 'Overview' })

function instanceBody({ database, pool, caBackend, dnsResolver }: InstanceState): z.input<typeof Instance> {
  const { status, reason, tokens } = caBackend
  return {
    database,
    pool,
    dns_resolver: dnsResolver ?? null,
    ca_backend: { status, reason: reason ?? null, tokens: [...tokens] },
  }
}

function overviewBody(facts: Facts, version: string): z.input<typeof Overview> {
  const { numbers, alarms, failures, instance } = facts
  return {
    at: time(numbers.now),
    version,
    alarms,
    failures,
    issued: facts.issued.map(({ hour, certificates }) => ({ hour: time(hour), certificates })),
    issued_of_day: facts.issuedOfDay,
    revoked_of_day: facts.revokedOfDay,
    revoked: numbers.revoked,
    expiring: facts.expiring.map(({ days, certificates, isMore }) => ({ days, certificates, more: isMore })),
    crl: crlsBody(facts.crl),
    issuers: facts.issuers.map(({ notAfter, ...issuer }) => ({ ...issuer, not_after: time(notAfter) })),
    instance: instance ? instanceBody(instance) : null,
    maintenance: maintenanceBody(facts.maintenance),
    signing: signingBody(facts.signing),
    validations: { running: numbers.validations, oldest_seconds: numbers.oldest_validation_seconds },
    notifications: { waiting: numbers.notifications_waiting, failed: numbers.notifications_failed },
    dead_letters: numbers.dead_letters,
  }
}

export const OVERVIEW = endpointGroup('Operation', {
  getOverview: endpoint({
    route: 'GET /overview',
    roles: BOTH_ROLES,
    summary:
      'Shows what to look at first: alarms, numbers of the last day, and the state of all parts. It costs little.',
    reply: { status: 200, schema: Overview },
    handle: async (_request, { overview, version }) => ({ body: overviewBody(await overview(), version) }),
  }),
})
