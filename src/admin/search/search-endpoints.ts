/**
 * `/search`: one text over names, certificates, accounts, orders, credentials, users and settings. Each group says who may
 * see it, how it is searched, and what was left out.
 */

import * as z from 'zod/v4'
import { describedSettings } from '../../config/shown.ts'
import type { Actor } from '../../domain/administrator.ts'
import { type Permission, rolesOf, scopeOf } from '../../domain/permissions.ts'
import { readSearch, type SearchText } from '../../domain/search-text.ts'
import type { ListPage } from '../../store/list-page.ts'
import { type CommonQueryMethods, type DatabasePool, rowsOf, StatementTimeoutError } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import {
  type AccountFilter,
  accountName,
  findAccount,
  type ListedAccount,
  listAccounts,
} from '../certificates/account-list.ts'
import { listCertificates } from '../certificates/certificate-list.ts'
import { createInspectStore } from '../certificates/inspect-store.ts'
import { type CredentialFilter, type CredentialRow, pagesOfCredentials } from '../eab/credential-store.ts'
import { isSettingFor } from '../operation/operation-endpoints.ts'
import { belowName, withName } from '../resources/certificates.ts'
import { line } from '../schemas.ts'
import {
  type BegunCertificate,
  findByFingerprintPrefix,
  findBySerialPrefix,
  findUsersByPart,
  HITS,
  searchNames,
} from './search-store.ts'

interface Hit {
  id: string
  title: string
  detail: string
}

interface Found {
  hits: readonly Hit[]
  /** Filters of the list that shows all of them; undefined where these are all, or no list has such a filter. */
  more?: Readonly<Record<string, string>> | undefined
  /** Sentences about what the group did not look at. */
  notSearched?: readonly string[]
}

type Searcher = Pick<Actor, 'role'> & { scope?: readonly string[] }

type Statements = { db: CommonQueryMethods }

interface Group {
  /** The list of its objects asks for it, too. */
  permission: Permission
  find(searched: SearchText, author: Searcher, context: Statements): Promise<Found>
}

/** In the order in which they are shown. */
const SEARCH_GROUPS = {
  names: { permission: 'read_accounts', find: findNames },
  certificates: { permission: 'read_accounts', find: findCertificates },
  accounts: { permission: 'read_accounts', find: findAccounts },
  orders: { permission: 'read_accounts', find: findOrders },
  credentials: { permission: 'onboard', find: findCredentials },
  users: { permission: 'read', find: findUsers },
  settings: { permission: 'read_accounts', find: findSettings },
} as const satisfies Record<string, Group>
type SearchGroup = keyof typeof SEARCH_GROUPS

const cut = <T>(rows: readonly T[]): readonly T[] => rows.slice(0, HITS)

/** Each row once: several searches may have found it. */
const hitsOf = <R extends { id: string }>(rows: readonly R[], hitOf: (row: R) => Hit) =>
  cut([...new Map(rows.map((row) => [row.id, hitOf(row)])).values()])

/** A search through rows that no index finds ends before the last of them. */
const partlyRead = ({ isComplete, next, lookedThrough }: ListPage<unknown>, what: string, ofWhat: string): string[] =>
  isComplete || next === undefined
    ? []
    : [`${what} of the newest ${lookedThrough.toLocaleString('en')} ${ofWhat} were read, no others.`]

async function findNames({ name, text }: SearchText, author: Searcher, { db }: Statements): Promise<Found> {
  const { names, below, notSearched } = await searchNames(db, { name, text }, scopeOf(author))
  return {
    hits: cut(names).map((one) => ({ id: one, title: one, detail: 'Time line' })),
    more: below === undefined ? undefined : belowName(below),
    notSearched: [notSearched],
  }
}

async function findCertificates({ hex, name, id }: SearchText, author: Searcher, { db }: Statements) {
  const scope = scopeOf(author)
  const [bySerial, byFingerprint, byName, byId] = await Promise.all([
    hex === undefined || hex.length > 40 ? [] : findBySerialPrefix(db, hex, scope),
    hex === undefined ? [] : findByFingerprintPrefix(db, hex, scope),
    listCertificates(db, { ...withName(name), scope }, undefined, HITS + 1).then(({ rows }) => rows),
    id === undefined ? undefined : createInspectStore(db, scope).findCertificate(id),
  ])
  const rows = [...(byId ? [byId] : []), ...bySerial, ...byFingerprint, ...byName]
  return {
    hits: hitsOf(rows, certificateHit),
    more: byName.length > HITS ? withName(name) : undefined,
  }
}

function certificateHit(row: Pick<BegunCertificate, 'serial_number' | 'names' | 'not_after' | 'revoked_at'>): Hit {
  const { serial_number: serial, names, not_after, revoked_at } = row
  const ends = revoked_at ? `revoked ${day(revoked_at)}` : `until ${day(not_after)}`
  return { id: serial, title: names[0] ?? serial, detail: `${ends}, serial number ${serial}` }
}

const day = (at: Date) => at.toISOString().slice(0, 10)

async function findAccounts({ text, id }: SearchText, author: Searcher, { db }: Statements) {
  const scope = scopeOf(author)
  const one = id === undefined ? null : await findAccount(db, id, scope)
  if (one) return { hits: [accountHit(one)] }
  const list = (filter: AccountFilter) => listAccounts(db, { ...filter, scope }, undefined, HITS + 1)
  const [byPart, byTag, byKid] = await Promise.all([list({ name: text }), list({ tag: text }), list({ eab_kid: text })])
  const rows = [...byPart.rows, ...byTag.rows, ...byKid.rows]
  return {
    hits: hitsOf(rows, accountHit),
    more: byPart.rows.length > HITS ? { name: text } : byTag.rows.length > HITS ? { tag: text } : undefined,
    notSearched: partlyRead(byPart, 'Labels and contacts', 'accounts'),
  }
}

const accountHit = (account: ListedAccount): Hit => {
  const { id, label, contacts, eab_kid: eabKid, status, tags } = account
  const facts = [status, `id …${id.slice(-8)}`, ...(eabKid === null ? [] : [`kid ${eabKid}`]), ...tags]
  return { id, title: accountName({ id, label, contacts, eabKid }), detail: facts.join(', ') }
}

async function findOrders({ id }: SearchText, author: Searcher, { db }: Statements): Promise<Found> {
  const found = id === undefined ? undefined : await createInspectStore(db, scopeOf(author)).findOrder(id)
  if (!found) return { hits: [] }
  const names = found.order.identifiers.map(({ value }) => value).join(', ')
  return { hits: [{ id: found.order.id, title: names, detail: `Order of ${day(found.order.expires_at)}` }] }
}

async function findCredentials({ text, id }: SearchText, author: Searcher, { db }: Statements) {
  const scope = scopeOf(author)
  const list = (filter: CredentialFilter) => pagesOfCredentials(db, { ...filter, scope })(undefined, HITS + 1)
  const [exact, byPart, byTag] = await Promise.all([list({ kid: text }), list({ name: text }), list({ tag: text })])
  const rows = [...exact.rows, ...byPart.rows, ...byTag.rows]
  return {
    hits: hitsOf(rows, credentialHit),
    more: byPart.rows.length > HITS ? { name: text } : undefined,
    notSearched: [
      ...partlyRead(byPart, 'Labels', 'credentials'),
      ...(id === undefined ? [] : ['Credentials are found by kid, label and tag, not by id.']),
    ],
  }
}

const credentialHit = ({ id, kid, label, revoked }: CredentialRow): Hit => ({
  id,
  title: kid,
  detail: [revoked ? 'revoked' : 'not revoked', ...(label === null ? [] : [label])].join(', '),
})

async function findUsers({ text }: SearchText, _author: Searcher, { db }: Statements): Promise<Found> {
  const rows = await findUsersByPart(db, text)
  return {
    hits: cut(rows).map(({ id, username, email, role, enabled }) => ({
      id,
      title: username,
      detail: [email, role, ...(enabled ? [] : ['disabled'])].join(', '),
    })),
    more: rows.length > HITS ? {} : undefined,
  }
}

async function findSettings({ text }: SearchText, author: Searcher): Promise<Found> {
  const part = text.toLowerCase()
  const found = describedSettings().filter(({ key }) => key.includes(part) && isSettingFor(author, key))
  return {
    hits: cut(found).map(({ key, description }) => ({ id: key, title: key, detail: description })),
    more: found.length > HITS ? { part: text } : undefined,
  }
}

const KINDS = Object.keys(SEARCH_GROUPS) as SearchGroup[]
/** Each group reads a bounded number of rows, and gives way to ACME clients (docs/decisions/search.md). */
const GROUP_MS = 5_000

const SearchResult = z
  .strictObject({
    groups: z.array(
      z.strictObject({
        kind: z.enum(KINDS),
        hits: z
          .array(
            z.strictObject({
              id: z.string().meta({ description: 'The name, serial number, key of a setting, or id.' }),
              title: z.string(),
              detail: z.string(),
            }),
          )
          .meta({ description: `At most ${HITS}.` }),
        more: z
          .record(z.string(), z.string())
          .nullable()
          .meta({ description: 'Filters of the list that shows all; null where there are no more.' }),
      }),
    ),
    not_searched: z
      .array(
        z.strictObject({
          kind: z.enum(KINDS),
          reason: z.string(),
          searched: z
            .enum(['in_part', 'not_at_all'])
            .meta({ description: '`not_at_all`: there may be hits of this kind.' }),
        }),
      )
      .meta({ description: 'What a hit may be missing for.' }),
  })
  .meta({ id: 'SearchResult' })

const TOO_SLOW: Found = { hits: [], notSearched: [`It took longer than ${GROUP_MS / 1000} seconds.`] }

export const SEARCH = endpointGroup('Search', {
  search: endpoint({
    route: 'GET /search',
    permission: 'read_accounts',
    scope: 'accounts',
    query: z.strictObject({
      q: line(255).meta({
        description:
          'A name or a part, a serial number or fingerprint or its beginning, a kid, contact, label, tag or id.',
      }),
    }),
    reply: { status: 200, schema: SearchResult },
    async handle({ query: { q }, author }, { db }) {
      const searched = readSearch(q)
      const kinds = KINDS.filter((kind) => rolesOf(SEARCH_GROUPS[kind].permission).includes(author.role))
      const groups = await Promise.all(
        kinds.map(async (kind) => {
          const found = await withinTime(db, GROUP_MS, (tx) => SEARCH_GROUPS[kind].find(searched, author, { db: tx }))
          return { kind, ...(found ?? TOO_SLOW), searched: found ? ('in_part' as const) : ('not_at_all' as const) }
        }),
      )
      return {
        body: {
          groups: groups
            .filter(({ hits }) => hits.length > 0)
            .map(({ kind, hits, more = null }) => ({ kind, hits: [...hits], more: more && { ...more } })),
          not_searched: groups.flatMap(({ kind, notSearched = [], searched }) =>
            notSearched.map((reason) => ({ kind, reason, searched })),
          ),
        },
      }
    },
  }),
})

class OutOfTime extends Error {}

/**
 * Runs the statements of `work` one after another on one connection.
 * @param ms from the moment at which the connection is there: work that waits for its turn loses no time
 * @returns undefined when the time was too short
 */
async function withinTime<T>(
  db: DatabasePool,
  ms: number,
  work: (db: CommonQueryMethods) => Promise<T>,
): Promise<T | undefined> {
  try {
    return await db.transaction((tx) => work(limited(tx, performance.now() + ms)))
  } catch (error) {
    if (error instanceof OutOfTime || error instanceof StatementTimeoutError) return undefined
    throw error
  }
}

function limited(tx: CommonQueryMethods, endsAt: number): CommonQueryMethods {
  let last: Promise<unknown> = Promise.resolve()
  const inTurn =
    (run: (...words: unknown[]) => Promise<unknown>) =>
    (...words: unknown[]) => {
      last = last.then(async () => {
        const left = Math.ceil(endsAt - performance.now())
        if (left <= 0) throw new OutOfTime()
        await tx.query(rowsOf(z.object({}))`SELECT set_config('statement_timeout', ${`${left}`}, true)`)
        return run(...words)
      })
      return last
    }
  const methods = Object.entries(tx).map(([name, method]) => [name, inTurn(method as never)])
  return Object.fromEntries(methods) as unknown as CommonQueryMethods
}
