/** `/crl`: the CRLs that are served, and new ones on request. The leader builds them. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { AdminError } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { createCrlStore, type PublishedCrl } from '../../store/crl-store.ts'
import { isAnyInstanceAlive } from '../../store/instance-presence.ts'
import { queriesOf } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import type { AdminContext } from '../context.ts'
import { time, timestamp } from '../schemas.ts'

interface CrlStatus {
  /** False when no CRL is published. */
  isPublished: boolean
  lists: readonly PublishedCrl[]
  /** A list of the present is older than `staleAfterMs` or over, or there is none. */
  isStale: boolean
  /** Lists that were asked for are not all there yet. */
  isAwaited: boolean
  /** Why there is no new list yet. */
  obstacle: string | undefined
}

const CrlHealth = z
  .strictObject({
    last_rebuild: z.number().nullable().meta({ description: 'Seconds since the oldest current list was begun.' }),
    stale: z.boolean(),
    error: z.string().nullable().meta({ description: 'Why there is no new list yet.' }),
    revoked_count: z.int().meta({ description: 'Entries of all current lists.' }),
  })
  .meta({ id: 'CrlHealth' })

function healthBody({ lists, isStale, obstacle }: CrlStatus): z.input<typeof CrlHealth> {
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

export const CRLS = endpointGroup('Operation', {
  listCrls: endpoint({
    route: 'GET /crl',
    permission: 'read',
    reply: { status: 200, schema: Crls },
    handle: async (_request, { db, policy }) => ({ body: crlsBody(await readCrlStatus(db, policy.staleCrlAfterMs)) }),
  }),
  rebuildCrl: endpoint({
    route: 'POST /crl/rebuild',
    permission: 'operate',
    body: z.strictObject({ wait_seconds: z.int().min(0).max(CRL_WAIT_SECONDS).default(CRL_WAIT_SECONDS) }),
    bodyIsOptional: true,
    reply: { status: 200, schema: CrlHealth },
    errors: ['unavailable'],
    audit: 'crl.rebuild',
    handle: async ({ author, body }, context) => ({
      body: healthBody(await rebuildCrls(context, author, body.wait_seconds * 1000)),
    }),
  }),
})

const LOOK_MS = 200

/** Asks for new lists and waits for them, so long. @throws AdminError unavailable when no instance builds them */
async function rebuildCrls({ db, audit, policy }: AdminContext, actor: Actor, waitMs: number): Promise<CrlStatus> {
  const { staleCrlAfterMs } = policy
  if (staleCrlAfterMs === undefined)
    throw new AdminError('unavailable', 'crl.enabled is false: there is no CRL to rebuild')
  await audit.transaction(actor, async (tx, note) => {
    note('crl.rebuild')
    await createCrlStore(queriesOf(tx)).requestRebuild()
  })
  if (!(await isAnyInstanceAlive(queriesOf(db))))
    throw new AdminError(
      'unavailable',
      'no service is running on this database; the first one that starts builds the CRL',
    )
  const deadline = performance.now() + waitMs
  for (;;) {
    const status = await readCrlStatus(db, staleCrlAfterMs)
    if (!status.isAwaited || performance.now() >= deadline) return status
    await sleep(LOOK_MS)
  }
}

/** @param staleAfterMs after how long without a new list one is stale; undefined when no CRL is published */
export async function readCrlStatus(db: CommonQueryMethods, staleAfterMs: number | undefined): Promise<CrlStatus> {
  const store = createCrlStore(queriesOf(db))
  const now = Date.now()
  // First: a request that was answered between the two reads would come beside the lists from before it.
  const request = await store.lastRequest()
  // An expired list belongs to an issuer that is gone.
  const lists = (await store.published()).filter(({ nextUpdate }) => nextUpdate.getTime() > now)
  const staleAt = now - (staleAfterMs ?? 0)
  const isPublished = staleAfterMs !== undefined
  return {
    isPublished,
    lists,
    obstacle: request?.obstacle,
    isStale: lists.length === 0 || lists.some(({ startedAt }) => startedAt.getTime() < staleAt),
    isAwaited: isPublished && request?.isOpen === true,
  }
}
