/**
 * SQL of renewal windows that somebody has set: the operator's advice, and what the CA behind this service suggests.
 *
 * A certificate is at risk when its window is open and nobody has renewed it. Also what has happened since, and mutes.
 */

import * as z from 'zod/v4'
import type { EventData } from '../../domain/event.ts'
import type { Scope } from '../../domain/permissions.ts'
import {
  type RenewalAdvice,
  type RenewalWindow,
  renewalWindow,
  type WindowPolicy,
} from '../../domain/renewal-window.ts'
import { lowestUuidv7 } from '../../shared/lib/uuid.ts'
import { type Fragment, instant, isAccountInScope } from '../../store/list-page.ts'
import { type CommonQueryMethods, columnsOf, rowsOf, sql } from '../../store/slonik.ts'

const Row = z.object({
  id: z.string(),
  advised_start: z.date().nullable(),
  advised_end: z.date().nullable(),
  upstream_start: z.date().nullable(),
  upstream_end: z.date().nullable(),
})

interface Dated {
  id: string
  not_before: Date
  not_after: Date
  revoked_at: Date | null
}

/** Gives each certificate its window: the one that somebody has set, else by `renewalWindow`. */
export async function windowsOf(
  db: CommonQueryMethods,
  certificates: readonly Dated[],
  policy: WindowPolicy,
  now: Date,
): Promise<ReadonlyMap<string, RenewalWindow>> {
  const set = await setWindowsOf(
    db,
    certificates.map(({ id }) => id),
  )
  return new Map(
    certificates.map(({ id, not_before: notBefore, not_after: notAfter, revoked_at }) => {
      const facts = { notBefore, notAfter, revokedAt: revoked_at ?? undefined, advice: undefined, ...set.get(id) }
      return [id, renewalWindow(facts, policy, now)]
    }),
  )
}

interface SetWindows {
  advice: RenewalAdvice | undefined
  upstream: RenewalAdvice | undefined
}

/** A certificate whose window follows from its lifetime is missing from the result. */
async function setWindowsOf(db: CommonQueryMethods, ids: readonly string[]): Promise<ReadonlyMap<string, SetWindows>> {
  if (ids.length === 0) return new Map()
  // renewal_advice_pkey, upstream_renewals_pkey
  const rows = await db.any(rowsOf(Row)`
    SELECT coalesce(a.certificate_id, u.certificate_id) AS id, a.window_start AS advised_start, a.window_end AS advised_end,
           u.window_start AS upstream_start, u.window_end AS upstream_end
      FROM (SELECT * FROM renewal_advice WHERE certificate_id = ANY (${sql.array([...ids], 'uuid')})) a
      FULL JOIN (SELECT * FROM upstream_renewals WHERE certificate_id = ANY (${sql.array([...ids], 'uuid')})) u
           ON u.certificate_id = a.certificate_id`)
  return new Map(
    rows.map((row) => [
      row.id,
      {
        advice: windowOf(row.advised_start, row.advised_end),
        upstream: windowOf(row.upstream_start, row.upstream_end),
      },
    ]),
  )
}

const windowOf = (start: Date | null, end: Date | null): RenewalAdvice | undefined =>
  start && end ? { window: { start, end }, explanationUrl: undefined } : undefined

export interface OpenWindow extends Pick<WindowPolicy, 'renewalPercentage'> {
  now: Date
}

/** Whether the window of an unrevoked certificate `c` is open, by the order of `renewalWindow`. */
export const isWindowOpen = ({ renewalPercentage, now }: OpenWindow): Fragment => {
  const set = (table: Fragment) => sql.fragment`(SELECT w.window_start FROM ${table} w WHERE w.certificate_id = c.id)`
  return sql.fragment`
    coalesce(${set(sql.fragment`renewal_advice`)}, ${set(sql.fragment`upstream_renewals`)},
             c.not_before + (c.not_after - c.not_before + interval '1 second') * ${renewalPercentage}::float8)
      <= ${instant(now)}`
}

const Circumstances = z.object({
  id: z.string(),
  order_id: z.string().nullable(),
  failure_kind: z.string().nullable(),
  failed_at: z.date().nullable(),
  failure_data: z.custom<EventData>().nullable(),
  reason: z.string().nullable(),
  muted_by: z.string().nullable(),
  muted_at: z.date().nullable(),
  muted_until: z.date().nullable(),
  user_agent: z.string().nullable(),
  last_seen_at: z.date().nullable(),
})
export type Circumstances = z.infer<typeof Circumstances>

/** The newest orders of an account, among which one for the names is looked for. */
const ORDERS_LOOKED_AT = 200

/**
 * Each certificate has its mute, the time when its account was last seen, and the newest order and failure about one of
 * its names since the window opened.
 */
export async function circumstancesOf(
  db: CommonQueryMethods,
  certificates: readonly { id: string; openedAt: Date }[],
): Promise<ReadonlyMap<string, Circumstances>> {
  if (certificates.length === 0) return new Map()
  const column = columnsOf(certificates)
  // certificates_pkey, account_activity_pkey, renewal_mutes_pkey, orders_account, account_failures_pkey
  const rows = await db.any(rowsOf(Circumstances)`
    SELECT c.id, o.id AS order_id, f.kind AS failure_kind, f.occurred_at AS failed_at, f.data AS failure_data,
           m.reason, m.muted_by, m.muted_at, m.muted_until, y.user_agent, y.last_seen_at
      FROM unnest(${column(({ id }) => id, 'uuid')}, ${column(({ openedAt }) => openedAt.toISOString(), 'timestamptz')},
                  ${column(({ openedAt }) => lowestUuidv7(openedAt.getTime()), 'uuid')}) AS w (id, opened_at, first_order)
      JOIN certificates c ON c.id = w.id
      LEFT JOIN account_activity y ON y.account_id = c.account_id
      LEFT JOIN renewal_mutes m ON m.certificate_id = c.id AND (m.muted_until IS NULL OR m.muted_until > now())
      LEFT JOIN LATERAL (
        SELECT n.id FROM (SELECT id, identifiers FROM orders
                           WHERE account_id = c.account_id AND id >= w.first_order AND certificate_id IS NULL
                           ORDER BY id DESC LIMIT ${ORDERS_LOOKED_AT}) n
         WHERE EXISTS (SELECT FROM jsonb_array_elements(n.identifiers) i WHERE i->>'value' = ANY (c.names))
         ORDER BY n.id DESC LIMIT 1) o ON true
      LEFT JOIN LATERAL (
        SELECT a.kind, a.occurred_at, a.data FROM account_failures a
         WHERE a.account_id = c.account_id AND a.occurred_at >= w.opened_at
           AND (EXISTS (SELECT FROM unnest(c.names) n WHERE a.data->>'identifier_value' IN (n, ltrim(n, '*.')))
                OR EXISTS (SELECT FROM jsonb_path_query(a.data, '$.*[*].value') v WHERE rtrim(lower(v #>> '{}'), '.') = ANY (c.names)))
         ORDER BY a.occurred_at DESC, a.event_id DESC LIMIT 1) f ON true`)
  return new Map(rows.map((row) => [row.id, row]))
}

const None = z.object({})
const Serial = z.object({ serial_number: z.string() })

export interface Mute {
  reason: string
  mutedBy: string
  /** Undefined: as long as the certificate is at risk. */
  until: Date | undefined
}

const living = (serialNumbers: readonly string[], scope: Scope) => sql.fragment`
  SELECT c.id, encode(c.serial_number, 'hex') AS serial_number FROM certificates c
   WHERE c.serial_number = ANY (ARRAY(SELECT decode(s, 'hex') FROM unnest(${sql.array([...serialNumbers], 'text')}) s))
     AND c.not_after > now() AND c.revoked_at IS NULL AND c.account_id IS NOT NULL
     AND ${isAccountInScope(sql.fragment`c.account_id`, scope)}`

const Due = z.object({
  id: z.string(),
  account_id: z.string(),
  serial_number: z.string(),
  names: z.array(z.string()),
  not_after: z.date(),
})
export type DueCertificate = z.infer<typeof Due>

/** Certificates at risk, the first to expire first. Ended ones, those without an account and those not yet due are left out. */
export function findDue(db: CommonQueryMethods, serialNumbers: readonly string[], scope: Scope, window: OpenWindow) {
  return db.any(rowsOf(Due)`
    WITH chosen AS MATERIALIZED (${living(serialNumbers, scope)})
    SELECT c.id, c.account_id, chosen.serial_number, c.names, c.not_after
      FROM chosen JOIN certificates c ON c.id = chosen.id WHERE ${isWindowOpen(window)} ORDER BY c.not_after, c.id`)
}

/** @returns the serial numbers of those that are muted now; ended certificates are left out */
export async function muteCertificates(
  tx: CommonQueryMethods,
  serialNumbers: readonly string[],
  scope: Scope,
  { reason, mutedBy, until }: Mute,
): Promise<string[]> {
  // Mutes are few. A certificate that has ended loses its mute here.
  await tx.query(rowsOf(None)`
    DELETE FROM renewal_mutes m
     WHERE NOT EXISTS (SELECT FROM certificates c WHERE c.id = m.certificate_id AND c.not_after > slow_now())`)
  const rows = await tx.any(rowsOf(Serial)`
    WITH chosen AS MATERIALIZED (${living(serialNumbers, scope)}), muted AS (
      INSERT INTO renewal_mutes (certificate_id, reason, muted_by, muted_until)
      SELECT id, ${reason}, ${mutedBy}, ${until?.toISOString() ?? null}::timestamptz FROM chosen
      ON CONFLICT (certificate_id) DO UPDATE
         SET reason = excluded.reason, muted_by = excluded.muted_by, muted_at = now(), muted_until = excluded.muted_until
    )
    SELECT serial_number FROM chosen`)
  return rows.map(({ serial_number }) => serial_number)
}

/** @returns the serial numbers of those that were muted */
export async function unmuteCertificates(
  tx: CommonQueryMethods,
  serialNumbers: readonly string[],
  scope: Scope,
): Promise<string[]> {
  const rows = await tx.any(rowsOf(Serial)`
    WITH chosen AS MATERIALIZED (${living(serialNumbers, scope)})
    DELETE FROM renewal_mutes m USING chosen WHERE m.certificate_id = chosen.id RETURNING chosen.serial_number`)
  return rows.map(({ serial_number }) => serial_number)
}
