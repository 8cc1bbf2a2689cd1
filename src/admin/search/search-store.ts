/**
 * SQL of the search field: names by a part, looked for at several places, and certificates by the
 * beginning of a serial number or fingerprint.
 */

import * as z from 'zod/v4'
import type { Scope } from '../../domain/permissions.ts'
import { spellingsOf } from '../../shared/protocol/identifier.ts'
import { type Fragment, hasIndex, isAccountInScope } from '../../store/list-page.ts'
import { type CommonQueryMethods, rowsOf, sql } from '../../store/slonik.ts'
import { listCertificates } from '../certificates/certificate-list.ts'
import { belowName } from '../resources/certificates.ts'

/** So many hits of each group are shown. */
export const HITS = 5
/** One more tells that there are more. */
const MOST_READ = HITS + 1

const Begun = z.object({
  id: z.string(),
  serial_number: z.string(),
  fingerprint: z.string().nullable(),
  names: z.array(z.string()),
  not_after: z.date(),
  revoked_at: z.date().nullable(),
})
export type BegunCertificate = z.infer<typeof Begun>

/** Entries of an index that a search reads, of which a registrar may see few. */
const MOST_ENTRIES = 1_000

/** In the order of the number. certificates_serial_issuer */
export const findBySerialPrefix = (db: CommonQueryMethods, hex: string, scope: Scope) =>
  // Stored without leading zeros.
  findBegun(db, sql.fragment`c.serial_number`, hex.replace(/^(?:00)+/, ''), scope)

/** In the order of the fingerprint. certificates_fingerprint */
export const findByFingerprintPrefix = (db: CommonQueryMethods, hex: string, scope: Scope) =>
  findBegun(db, sql.fragment`sha256(c.der)`, hex, scope)

function findBegun(
  db: CommonQueryMethods,
  column: Fragment,
  hex: string,
  scope: Scope,
): Promise<readonly BegunCertificate[]> {
  const from = sql.fragment`decode(${hex.length % 2 === 0 ? hex : `${hex}0`}, 'hex')`
  // Both ends by the first digits: the end of a range may be a digit longer than its beginning.
  const to = sql.fragment`decode(${(hex.length % 2 === 0 ? hex : `${hex}f`).padEnd(128, 'f')}, 'hex')`
  return db.any(rowsOf(Begun)`
    SELECT c.id, encode(c.serial_number, 'hex') AS serial_number, encode(sha256(nullif(c.der, '')), 'hex') AS fingerprint,
           c.names, c.not_after, c.revoked_at
      FROM (SELECT * FROM certificates c WHERE ${column} BETWEEN ${from} AND ${to} ORDER BY ${column} LIMIT ${MOST_ENTRIES}) c
     WHERE ${isAccountInScope(sql.fragment`c.account_id`, scope)} LIMIT ${MOST_READ}`)
}

const Name = z.object({ name: z.string() })

/** Certificates whose names are read for a part of a name: a few milliseconds of work. */
const PART_CERTIFICATES = 10_000

/** Names of the newest certificates with a part anywhere. @param part in lower case */
async function findNamesWithPart(db: CommonQueryMethods, part: string, scope: Scope): Promise<readonly string[]> {
  // Not LIKE, which has wildcards.
  const rows = await db.any(rowsOf(Name)`
    SELECT DISTINCT n.name
      FROM (SELECT c.names, c.account_id FROM certificates c ORDER BY c.id DESC LIMIT ${PART_CERTIFICATES}) c,
           LATERAL unnest(c.names) AS n (name)
     WHERE strpos(n.name, ${part}) > 0 AND ${isAccountInScope(sql.fragment`c.account_id`, scope)} LIMIT ${MOST_READ}`)
  return rows.map(({ name }) => name)
}

const FIRST_NAME = sql.fragment`(c.names[1]) COLLATE "C"`

/**
 * First names of certificates that begin so, each once, from name to name along certificates_first_name: a name may have
 * thousands of certificates. @returns undefined without that index (optional-indexes.ts)
 */
async function findFirstNames(db: CommonQueryMethods, beginning: string): Promise<readonly string[] | undefined> {
  if (!(await hasIndex(db, 'certificates_first_name'))) return undefined
  const next = (after: Fragment) => sql.fragment`
    SELECT ${FIRST_NAME} AS name FROM certificates c WHERE ${FIRST_NAME} ${after} AND ${FIRST_NAME} < ${`${beginning}\u{10ffff}`}
     ORDER BY ${FIRST_NAME} LIMIT 1`
  const rows = await db.any(rowsOf(Name)`
    WITH RECURSIVE found AS (
      (${next(sql.fragment`>= ${beginning}`)})
      UNION ALL
      SELECT (SELECT n.name FROM (${next(sql.fragment`> found.name`)}) n) FROM found WHERE found.name IS NOT NULL
    )
    SELECT name FROM found WHERE name IS NOT NULL LIMIT ${MOST_READ}`)
  return rows.map(({ name }) => name)
}

/** Whether an account failed to get a certificate for it. account_failures_names */
async function findFailedNames(db: CommonQueryMethods, name: string, scope: Scope): Promise<readonly string[]> {
  const hasFailed = await db.exists(rowsOf(z.object({}))`
    SELECT FROM (SELECT account_id FROM account_failures WHERE failure_names(data) && ${sql.array(spellingsOf(name), 'text')} OFFSET 0) f
     WHERE ${isAccountInScope(sql.fragment`f.account_id`, scope)}`)
  return hasFailed ? [name] : []
}

/** Failures, the newest, whose names are looked through for a part. */
const PART_FAILURES = 1_000

/** account_failures_time */
async function findFailedNamesWithPart(db: CommonQueryMethods, part: string, scope: Scope): Promise<readonly string[]> {
  const rows = await db.any(rowsOf(Name)`
    SELECT DISTINCT n.name
      FROM (SELECT data, account_id FROM account_failures
             ORDER BY occurred_at DESC, event_id DESC LIMIT ${PART_FAILURES}) f,
           LATERAL unnest(failure_names(f.data)) AS n (name)
     WHERE strpos(n.name, ${part}) > 0 AND ${isAccountInScope(sql.fragment`f.account_id`, scope)} LIMIT ${MOST_READ}`)
  return rows.map(({ name }) => name)
}

/** A shorter part is in nearly every name. */
const SHORTEST_PART = 3
/** Certificates whose names are read for names below one. */
const CERTIFICATES_READ = 50

interface WantedName {
  /** Whole. */
  name: string
  /** Without the label of a wildcard. */
  suffix: string
  /** In lower case; undefined for a text that is too short or cannot be part of a name. */
  part: string | undefined
  scope: Scope
}

interface FoundNames {
  names: readonly string[]
  hasMore?: boolean
}

/** A place to look for names. It finds nothing for a text that does not suit it; undefined: its index is missing. */
type NameSource = (db: CommonQueryMethods, wanted: WantedName) => Promise<FoundNames | undefined>

/** A source that looks for a part of a name. */
const ofPart =
  (find: (db: CommonQueryMethods, part: string, scope: Scope) => Promise<readonly string[] | undefined>): NameSource =>
  async (db, { part, scope }) => {
    const names = part === undefined ? [] : await find(db, part, scope)
    return names && { names }
  }

const certificatesBelow: NameSource = async (db, { suffix, scope }) => {
  const { rows, next } = await listCertificates(db, { ...belowName(suffix), scope }, undefined, CERTIFICATES_READ)
  const all = rows.flatMap((row) => row.names).filter((one) => one === suffix || one.endsWith(`.${suffix}`))
  const names = [...new Set(all)]
  return { names, hasMore: names.length > HITS || next !== undefined }
}

/** A registrar's certificates are not apart in this index. */
const beginningOfFirst = ofPart(async (db, part, scope) => (scope === undefined ? findFirstNames(db, part) : undefined))

/** Hits come in this order. */
const NAME_SOURCES: readonly NameSource[] = [
  certificatesBelow,
  async (db, { name, scope }) => ({ names: await findFailedNames(db, name, scope) }),
  beginningOfFirst,
  ofPart(findFailedNamesWithPart),
  ofPart(findNamesWithPart),
]

/** @returns the names, the name itself first, and `below` when there are more names below it */
export async function searchNames(
  db: CommonQueryMethods,
  { name, text }: { name: string; text: string },
  scope: Scope,
) {
  const suffix = name.replace(/^\*\./, '')
  const lower = text.toLowerCase()
  const part = lower.length >= SHORTEST_PART && !/[^ -~]/.test(lower) ? lower : undefined
  const found = await Promise.all(NAME_SOURCES.map((find) => find(db, { name, suffix, part, scope })))
  const known = [...new Set(found.flatMap((one) => one?.names ?? []))]
  const isBeginningSearched = found[NAME_SOURCES.indexOf(beginningOfFirst)] !== undefined
  return {
    names: [...known.filter((one) => one === name), ...known.filter((one) => one !== name)],
    below: found.some((one) => one?.hasMore) ? suffix : undefined,
    notSearched: part === undefined ? NO_PART : partsNotSearched(isBeginningSearched),
  }
}

const NO_PART = `No part of a name was looked for: that takes ${SHORTEST_PART} characters of a name, in A-labels.`

const partsNotSearched = (isBeginningSearched: boolean) =>
  `Whole names, all below a name${isBeginningSearched ? ' and the beginning of the first name' : ''} are looked for in all certificates; ` +
  `another part of a name in the newest ${PART_CERTIFICATES.toLocaleString('en')} alone. Of failures, whole names are looked for in all, a part in the newest ${PART_FAILURES.toLocaleString('en')}.`

const User = z.object({
  id: z.string(),
  username: z.string(),
  email: z.string(),
  role: z.string(),
  enabled: z.boolean(),
})

/** Users are few. @param part in any case */
export const findUsersByPart = (db: CommonQueryMethods, part: string) =>
  db.any(rowsOf(User)`
    SELECT id, username, email, role, enabled FROM admin_users
     WHERE strpos(lower(username), lower(${part})) > 0 OR strpos(lower(email), lower(${part})) > 0 OR id::text = lower(${part})
     ORDER BY username LIMIT ${MOST_READ}`)
