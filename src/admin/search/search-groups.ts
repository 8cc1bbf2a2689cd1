/** The groups of the one search field: who may see each, how it is searched, and what was left out. */

import { describedSettings } from '../../config/shown.ts'
import type { Actor } from '../../domain/administrator.ts'
import { type Permission, type Scope, scopeOf } from '../../domain/permissions.ts'
import type { SearchText } from '../../domain/search-text.ts'
import type { CommonQueryMethods } from '../../store/slonik.ts'
import {
  type AccountFilter,
  accountName,
  findAccount,
  type ListedAccount,
  listAccounts,
} from '../certificates/account-list.ts'
import { listCertificates } from '../certificates/certificate-list.ts'
import { createInspectStore } from '../certificates/inspect-store.ts'
import { type CredentialFilter, pagesOfCredentials } from '../eab/credential-store.ts'
import { isSettingFor } from '../operation/operation-endpoints.ts'
import { belowName, withName } from '../resources/certificates.ts'
import {
  type BegunCertificate,
  findByFingerprintPrefix,
  findBySerialPrefix,
  findFailedNames,
  findFailedNamesWithPart,
  findFirstNames,
  findNamesWithPart,
  findUsersByPart,
  PART_CERTIFICATES,
  PART_FAILURES,
} from './search-store.ts'

interface Hit {
  id: string
  title: string
  detail: string
}

export interface Found {
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

export const HITS = 5
/** Certificates whose names are read for names below one. */
const CERTIFICATES_READ = 50
/** A shorter part is in nearly every name. */
const SHORTEST_PART = 3

/** In the order in which they are shown. */
export const SEARCH_GROUPS = {
  names: { permission: 'read_accounts', find: findNames },
  certificates: { permission: 'read_accounts', find: findCertificates },
  accounts: { permission: 'read_accounts', find: findAccounts },
  orders: { permission: 'read_accounts', find: findOrders },
  credentials: { permission: 'onboard', find: findCredentials },
  users: { permission: 'read', find: findUsers },
  settings: { permission: 'read_accounts', find: findSettings },
} as const satisfies Record<string, Group>
export type SearchGroup = keyof typeof SEARCH_GROUPS

const cut = <T>(rows: readonly T[]): readonly T[] => rows.slice(0, HITS)

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
const beginningOfFirst = ofPart(async (db, part, scope) =>
  scope === undefined ? findFirstNames(db, part, HITS + 1) : undefined,
)

/** Hits come in this order. */
const NAME_SOURCES: readonly NameSource[] = [
  certificatesBelow,
  async (db, { name, scope }) => ({ names: await findFailedNames(db, name, scope) }),
  beginningOfFirst,
  ofPart((db, part, scope) => findFailedNamesWithPart(db, part, scope, HITS + 1)),
  ofPart((db, part, scope) => findNamesWithPart(db, part, scope, HITS + 1)),
]

async function findNames({ name, text }: SearchText, author: Searcher, { db }: Statements): Promise<Found> {
  const suffix = name.replace(/^\*\./, '')
  const lower = text.toLowerCase()
  const part = lower.length >= SHORTEST_PART && !/[^ -~]/.test(lower) ? lower : undefined
  const found = await Promise.all(NAME_SOURCES.map((find) => find(db, { name, suffix, part, scope: scopeOf(author) })))
  const known = [...new Set(found.flatMap((one) => one?.names ?? []))]
  // The name itself comes first.
  const names = [...known.filter((one) => one === name), ...known.filter((one) => one !== name)]
  const isBeginningSearched = found[NAME_SOURCES.indexOf(beginningOfFirst)] !== undefined
  return {
    hits: cut(names).map((one) => ({ id: one, title: one, detail: 'Time line' })),
    more: found.some((one) => one?.hasMore) ? belowName(suffix) : undefined,
    notSearched: [part === undefined ? NO_PART : partsNotSearched(isBeginningSearched)],
  }
}

const NO_PART = `No part of a name was looked for: that takes ${SHORTEST_PART} characters of a name, in A-labels.`

const partsNotSearched = (isBeginningSearched: boolean) =>
  `Whole names, all below a name${isBeginningSearched ? ' and the beginning of the first name' : ''} are looked for in all certificates; ` +
  `another part of a name in the newest ${PART_CERTIFICATES.toLocaleString('en')} alone. Of failures, whole names are looked for in all, a part in the newest ${PART_FAILURES.toLocaleString('en')}.`

async function findCertificates({ hex, name, id }: SearchText, author: Searcher, { db }: Statements) {
  const scope = scopeOf(author)
  const [bySerial, byFingerprint, byName, byId] = await Promise.all([
    hex === undefined || hex.length > 40 ? [] : findBySerialPrefix(db, hex, scope, HITS + 1),
    hex === undefined ? [] : findByFingerprintPrefix(db, hex, scope, HITS + 1),
    listCertificates(db, { ...withName(name), scope }, undefined, HITS + 1).then(({ rows }) => rows),
    id === undefined ? undefined : createInspectStore(db, scope).findCertificate(id),
  ])
  const rows = [...(byId ? [byId] : []), ...bySerial, ...byFingerprint, ...byName]
  return {
    hits: cut([...new Map(rows.map((row) => [row.id, certificateHit(row)])).values()]),
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
    hits: cut([...new Map(rows.map((row) => [row.id, accountHit(row)])).values()]),
    more: byPart.rows.length > HITS ? { name: text } : byTag.rows.length > HITS ? { tag: text } : undefined,
    notSearched:
      byPart.isComplete || byPart.next === undefined
        ? []
        : [
            `Labels and contacts of the newest ${byPart.lookedThrough.toLocaleString('en')} accounts were read, no others.`,
          ],
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
  const hits = rows.map(({ id, kid, label, revoked }): [string, Hit] => [
    id,
    { id, title: kid, detail: [revoked ? 'revoked' : 'not revoked', ...(label === null ? [] : [label])].join(', ') },
  ])
  return {
    hits: cut([...new Map(hits).values()]),
    more: byPart.rows.length > HITS ? { name: text } : undefined,
    notSearched: [
      ...(byPart.isComplete || byPart.next === undefined
        ? []
        : [`Labels of the newest ${byPart.lookedThrough.toLocaleString('en')} credentials were read, no others.`]),
      ...(id === undefined ? [] : ['Credentials are found by kid, label and tag, not by id.']),
    ],
  }
}

async function findUsers({ text }: SearchText, _author: Searcher, { db }: Statements): Promise<Found> {
  const rows = await findUsersByPart(db, text, HITS + 1)
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
