/** Incidents (table incidents): which certificates they concern and whose those are, what was begun, and how its mails fare. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { ACCOUNT_STATUSES } from '../../domain/states.ts'
import { constantSql, rowsOf, sql } from '../../store/slonik.ts'
import { authorization } from '../../store/status-sql.ts'
import { accountName } from '../certificates/account-list.ts'
import { FIRST_ID, matching, nextWindow, RevocationFilter, type Window } from '../revocations/revocation-filter.ts'

export const Actions = z.strictObject({
  revoke: z.boolean(),
  /** CRLReason. */
  reason: z.int(),
  block_key: z.boolean(),
  advise_renewal: z.boolean(),
  tell_owners: z.boolean(),
})
export type Actions = z.infer<typeof Actions>

const Incident = z.object({
  id: z.string(),
  filter: RevocationFilter,
  actions: Actions,
  certificates: z.int(),
  issuers: z.array(z.string()),
  job_id: z.string().nullable(),
  advised: z.int().nullable(),
  notifications: z.array(z.string()),
  without_contact: z.int(),
  created_by: z.string(),
  created_at: z.date(),
})
export type Incident = z.infer<typeof Incident>

const columns = sql.fragment`
  id, filter, actions, certificates, issuers, job_id, advised, notifications, without_contact, created_by, created_at`
const None = z.object({})

export function insertIncident(tx: CommonQueryMethods, one: Omit<Incident, 'created_at'>): Promise<Incident> {
  return tx.one(rowsOf(Incident)`
    INSERT INTO incidents (id, filter, actions, certificates, issuers, job_id, advised, notifications, without_contact,
                           created_by)
    VALUES (${one.id}, ${JSON.stringify(one.filter)}::jsonb, ${JSON.stringify(one.actions)}::jsonb, ${one.certificates},
            ${sql.array([...one.issuers], 'text')}, ${one.job_id}, ${one.advised},
            ${sql.array([...one.notifications], 'uuid')}, ${one.without_contact}, ${one.created_by})
    RETURNING ${columns}`)
}

export function findIncident(db: CommonQueryMethods, id: string): Promise<Incident | null> {
  return db.maybeOne(rowsOf(Incident)`SELECT ${columns} FROM incidents WHERE id = ${id}`)
}

/** Newest first. */
export function listIncidents(db: CommonQueryMethods, { limit, offset }: { limit: number; offset: number }) {
  return db.any(rowsOf(Incident)`SELECT ${columns} FROM incidents ORDER BY id DESC LIMIT ${limit} OFFSET ${offset}`)
}

/** A second click, or a second administrator, comes within minutes. */
const SAME_SECONDS = 300
const Id = z.object({ id: z.string() })

/** Waits for others who begin an incident. @returns one with this filter that was just begun, or still revokes */
export async function lockSameIncident(tx: CommonQueryMethods, filter: RevocationFilter): Promise<string | undefined> {
  await tx.query(rowsOf(None)`LOCK TABLE incidents IN SHARE ROW EXCLUSIVE MODE`)
  const same = await tx.maybeOne(rowsOf(Id)`
    SELECT i.id FROM incidents i LEFT JOIN bulk_revocations b ON b.id = i.job_id
     WHERE i.filter = ${JSON.stringify(filter)}::jsonb
       AND (i.created_at > now() - make_interval(secs => ${SAME_SECONDS}) OR (b.id IS NOT NULL AND b.finished_at IS NULL))
     ORDER BY i.id DESC LIMIT 1`)
  return same?.id
}

const Hit = z.object({
  account_id: z.string().nullable(),
  unrevoked: z.int(),
  revoked: z.int(),
  names: z.array(z.string()),
  issuers: z.array(z.string()),
})
type Hit = z.infer<typeof Hit>

/** Certificates of a window by account, with the first names of three of them. */
function hitsOf(db: CommonQueryMethods, filter: RevocationFilter, window: Window, until: Date) {
  return db.any(rowsOf(Hit)`
    SELECT account_id, (count(*) - count(revoked_at))::integer AS unrevoked, count(revoked_at)::integer AS revoked,
           coalesce((array_agg(names[1] ORDER BY revoked_at DESC, id DESC) FILTER (WHERE names[1] IS NOT NULL))[1:3], '{}') AS names,
           array_agg(DISTINCT encode(issuer_fingerprint, 'hex')) AS issuers
      FROM (SELECT c.id, c.account_id, c.revoked_at, c.names, c.issuer_fingerprint
              FROM ${matching(filter, window, until)}) found
     GROUP BY account_id`)
}

/** Advises the clients of unrevoked certificates of a window to renew. @returns how many */
export async function adviseWindow(
  tx: CommonQueryMethods,
  filter: RevocationFilter,
  { window, until, start, end }: { window: Window; until: Date; start: Date; end: Date },
): Promise<number> {
  const { rowCount } = await tx.query(rowsOf(None)`
    INSERT INTO renewal_advice (certificate_id, window_start, window_end)
    SELECT c.id, ${start.toISOString()}::timestamptz, ${end.toISOString()}::timestamptz
      FROM ${matching(filter, window, until)} AND c.revoked_at IS NULL
    ON CONFLICT (certificate_id) DO UPDATE
       SET window_start = excluded.window_start, window_end = excluded.window_end, explanation_url = NULL,
           created_at = now()`)
  return rowCount
}

const Owner = z.object({
  id: z.string(),
  label: z.string().nullable(),
  contacts: z.array(z.string()),
  tags: z.array(z.string()),
  kid: z.string().nullable(),
})
export type Owner = z.infer<typeof Owner>

export async function findOwners(db: CommonQueryMethods, accountIds: readonly string[]): Promise<Map<string, Owner>> {
  const rows = await db.any(rowsOf(Owner)`
    SELECT a.id, a.label, a.contacts, a.tags, e.kid
      FROM accounts a LEFT JOIN eab_credentials e ON e.id = a.eab_credential_id
     WHERE a.id = ANY (${sql.array([...accountIds], 'uuid')})`)
  return new Map(rows.map((row) => [row.id, row]))
}

const KeyAccount = z.object({ account_id: z.string(), status: z.enum(ACCOUNT_STATUSES), authorizations: z.int() })

/** The account that has the key, with the number of its valid authorizations. */
export function findKeyAccount(db: CommonQueryMethods, spkiSha256: string) {
  // accounts_spki, authorizations_reusable
  return db.maybeOne(rowsOf(KeyAccount)`
    SELECT a.id AS account_id, a.status,
           (SELECT count(*)::integer FROM authorizations z
             WHERE z.account_id = a.id AND z.status ${constantSql(authorization.is('valid'))} AND z.expires_at > now()) AS authorizations
      FROM accounts a WHERE account_spki_sha256(a.jwk) = decode(${spkiSha256}, 'hex')`)
}

export async function isCredential(db: CommonQueryMethods, kid: string): Promise<boolean> {
  return (await db.maybeOne(rowsOf(None)`SELECT FROM eab_credentials WHERE kid = ${kid}`)) !== null
}

const Mails = z.object({ waiting: z.int(), sent: z.int(), failed: z.int() })

/** Counts the mails that are still recorded; `failed` ones may be tried again. */
export function countMails(db: CommonQueryMethods, ids: readonly string[]) {
  return db.one(rowsOf(Mails)`
    SELECT (count(*) FILTER (WHERE status = 'pending'))::integer AS waiting,
           (count(*) FILTER (WHERE status = 'sent'))::integer AS sent,
           (count(*) FILTER (WHERE status = 'failed'))::integer AS failed
      FROM notifications WHERE id = ANY (${sql.array([...ids], 'uuid')})`)
}

const Outcome = z.object({ account_id: z.string().nullable(), certificates: z.int(), not_revoked: z.int() })

/** Counts the certificates of a job by account, the largest count first, and how many of them are still valid. */
export function outcomesByOwner(db: CommonQueryMethods, jobId: string, limit: number) {
  return db.any(rowsOf(Outcome)`
    SELECT c.account_id, count(*)::integer AS certificates, 
           (count(*) FILTER (WHERE c.revoked_at IS NULL AND c.not_after > now()))::integer AS not_revoked
      FROM bulk_revocation_certificates b LEFT JOIN certificates c ON c.id = b.certificate_id
     WHERE b.job_id = ${jobId} GROUP BY c.account_id ORDER BY count(*) DESC, c.account_id LIMIT ${limit}`)
}

export interface OwnerHit extends Omit<Hit, 'issuers'> {
  owner: Owner | undefined
}

export interface Hits {
  unrevoked: number
  revoked: number
  /** SHA-256 of the certificates of their issuers. */
  issuers: string[]
  /** The most certificates first. */
  owners: OwnerHit[]
  /** There are more owners than were kept. */
  isCut: boolean
}

/** More accounts than these are not told apart, nor written to at once. */
export const MOST_OWNERS = 2_000
const NAMES = 3

/** Reads what the filter matches now, owner by owner. */
export async function findHits(db: CommonQueryMethods, filter: RevocationFilter): Promise<Hits> {
  const until = new Date()
  const byAccount = new Map<string | null, Omit<Hit, 'issuers'>>()
  const issuers = new Set<string>()
  const total = { unrevoked: 0, revoked: 0, isCut: false }
  for (let afterId = FIRST_ID, isLast = false; !isLast; ) {
    const window = await nextWindow(db, filter, afterId)
    for (const hit of await hitsOf(db, filter, window, until)) {
      total.unrevoked += hit.unrevoked
      total.revoked += hit.revoked
      for (const issuer of hit.issuers) issuers.add(issuer)
      const known = byAccount.get(hit.account_id)
      if (known) addTo(known, hit)
      else if (byAccount.size < MOST_OWNERS) byAccount.set(hit.account_id, { ...hit })
      else total.isCut = true
    }
    isLast = window.endId === undefined
    afterId = window.endId ?? afterId
  }
  const owners = await findOwners(
    db,
    [...byAccount.keys()].filter((id) => id !== null),
  )
  const hits = [...byAccount.values()].map(({ account_id, unrevoked, revoked, names }) => ({
    account_id,
    unrevoked,
    revoked,
    names,
    owner: account_id === null ? undefined : owners.get(account_id),
  }))
  return { ...total, issuers: [...issuers], owners: hits.sort((a, b) => b.unrevoked - a.unrevoked) }
}

function addTo(known: Omit<Hit, 'issuers'>, { unrevoked, revoked, names }: Hit): void {
  known.unrevoked += unrevoked
  known.revoked += revoked
  known.names = [...new Set([...known.names, ...names])].slice(0, NAMES)
}

const isAddress = (contact: string) => /^mailto:/i.test(contact)

export const addressesOf = (owner: Owner | undefined): string[] =>
  (owner?.contacts ?? []).filter(isAddress).map((contact) => contact.slice('mailto:'.length))

export const nameOf = (owner: Owner | undefined): string | null =>
  owner ? accountName({ ...owner, eabKid: owner.kid }) : null
