/** Accounts of a former server: the key makes the account, and its former URLs lead to it. */

import { checkContacts } from '../domain/contact.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import { hashSpki } from '../shared/pki/spki.ts'
import { type AccountKey, CERTIFICATE_KEYS, parseAccountKey } from '../shared/protocol/jwk.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { isPathOfUrl, MAX_PATH_LENGTH, pathOfUrl } from '../shared/protocol/urls.ts'
import {
  findKnownAccounts,
  followAccount,
  insertAccounts,
  insertPaths,
  type KnownImport,
} from '../store/account-import.ts'
import { findBlockedKeys } from '../store/certificate-store.ts'
import { linkAccounts } from '../store/credential-import.ts'
import type { ImportedAccount, ImportedCredential, Outcome } from './model.ts'
import type { PageContext, WritePage } from './page.ts'

interface Candidate {
  account: ImportedAccount
  key: AccountKey
  paths: readonly string[]
  contacts: readonly string[]
}

export const writeAccounts: WritePage<ImportedAccount> = async (page, context) => {
  const read = await withoutBlockedKeys(page.map(readAccount), context)
  const candidates = read.filter((one): one is Candidate => 'key' in one)
  const known = new KnownAccounts(
    await findKnownAccounts(
      context.queries,
      candidates.map(({ key }) => key.thumbprint),
      candidates.flatMap(({ paths }) => paths),
    ),
  )
  const decided = new Map<Candidate, Outcome>()
  const fresh: Candidate[] = []
  for (const candidate of candidates) {
    const found = known.find(candidate)
    if (found) decided.set(candidate, await meet(candidate, found, context))
    else fresh.push(candidate)
  }
  const made = context.isDryRun ? undefined : await insertFresh(fresh, context)
  // A key that is twice in a page, or was registered here a moment ago, has its account.
  for (const one of fresh) decided.set(one, made === undefined || made.has(one) ? 'new' : 'known')
  return read.map((one) => ('key' in one ? (decided.get(one) as Outcome) : one))
}

/** As at a registration here: a key that is known to be compromised has no account. */
async function withoutBlockedKeys<T>(read: readonly (Candidate | T)[], { queries }: PageContext) {
  const hashOf = ({ key }: Candidate) => hashSpki({ der: key.spki() }).toString('hex')
  const isCandidate = (one: Candidate | T): one is Candidate => typeof one === 'object' && one !== null && 'key' in one
  const hashes = read.filter(isCandidate).map((one) => Buffer.from(hashOf(one), 'hex'))
  const blocked = await findBlockedKeys(queries, hashes)
  return read.map((one) =>
    isCandidate(one) && blocked.has(hashOf(one))
      ? { name: one.paths[0] ?? one.key.thumbprint, skipped: 'its key is blocked here' }
      : one,
  )
}

class KnownAccounts {
  readonly #byThumbprint: ReadonlyMap<string, KnownImport>
  readonly #byPath: ReadonlyMap<string, KnownImport>

  constructor(known: readonly KnownImport[]) {
    this.#byThumbprint = new Map(known.map((one) => [one.thumbprint, one]))
    this.#byPath = new Map(known.flatMap((one) => one.paths.map((path) => [path, one] as const)))
  }

  /** By its URL first: its key may have changed at the former server since it came here. */
  find({ key, paths }: Candidate): { account: KnownImport; others: readonly KnownImport[] } | undefined {
    const found = [...paths.map((path) => this.#byPath.get(path)), this.#byThumbprint.get(key.thumbprint)]
    const [account, ...others] = new Set(found.filter((one) => one !== undefined))
    return account && { account, others }
  }
}

/** An account that is here already. */
async function meet(
  { account, key, paths, contacts }: Candidate,
  { account: known, others }: { account: KnownImport; others: readonly KnownImport[] },
  { queries, isDryRun }: PageContext,
): Promise<Outcome> {
  const name = paths[0] ?? key.thumbprint
  if (others.length > 0)
    return { name, skipped: `its URL and its key are those of two accounts here: ${known.id}, ${others[0]?.id}` }
  const isSameKey = known.thumbprint === key.thumbprint
  // Without a former path it was registered here, and owes nothing to another server.
  const isFollowing = known.paths.length > 0 && !known.isChangedHere
  if (!isSameKey && !isFollowing) return { name, skipped: `it has another key here, as account ${known.id}` }
  const isSame = isSameKey && known.status === account.status && isEqual(known.contacts, contacts)
  const missing = paths.filter((path) => !known.paths.includes(path))
  if (!isDryRun) {
    if (!isSame && isFollowing) await followAccount(queries, known.id, { ...key, status: account.status, contacts })
    if (missing.length > 0)
      await insertPaths(
        queries,
        missing.map((path) => ({ path, accountId: known.id })),
      )
  }
  return (!isSame && isFollowing) || missing.length > 0 ? 'changed' : 'known'
}

const isEqual = (a: readonly string[], b: readonly string[]) =>
  a.length === b.length && a.every((one, index) => one === b[index])

async function insertFresh(
  fresh: readonly Candidate[],
  { queries, foreignKids }: PageContext,
): Promise<Set<Candidate>> {
  const rows = fresh.map((candidate) => {
    const { account, key, contacts } = candidate
    const { createdAt, status, termsAgreed = false } = account
    const isForeign = account.credentialKid !== undefined && foreignKids.has(account.credentialKid)
    const credentialKid = isForeign ? undefined : account.credentialKid
    const id = uuidv7(createdAt.getTime())
    const { jwk, thumbprint } = key
    return { candidate, id, row: { id, jwk, thumbprint, status, contacts, termsAgreed, createdAt, credentialKid } }
  })
  const ids = await insertAccounts(
    queries,
    rows.map(({ row }) => row),
  )
  const made = rows.filter(({ id }) => ids.has(id))
  await insertPaths(
    queries,
    made.flatMap(({ id, candidate }) => candidate.paths.map((path) => ({ path, accountId: id }))),
  )
  return new Set(made.map(({ candidate }) => candidate))
}

function readAccount(account: ImportedAccount): Candidate | Exclude<Outcome, string> {
  const name = account.urls[0] ?? 'an account without a URL'
  const paths = account.urls.map(pathOfUrl)
  if (!paths.every(isPathOfUrl))
    return {
      name: name.slice(0, MAX_PATH_LENGTH),
      skipped: `its URL has more than ${MAX_PATH_LENGTH} characters, or some that no URL has`,
    }
  try {
    const key = parseAccountKey(account.jwk, CERTIFICATE_KEYS)
    return { account, key, paths: [...new Set(paths)], contacts: usable(account.contacts) }
  } catch (error) {
    if (error instanceof Problem) return { name, skipped: error.message }
    throw error
  }
}

const ANY_CONTACT = { required: false, allowedDomains: [] }
const MOST_CONTACTS = 10

/** Contacts that no mail can reach are left out, as the protocol would refuse them here. */
function usable(contacts: readonly string[]): string[] {
  const good = contacts.flatMap((contact) => {
    try {
      return checkContacts([contact], ANY_CONTACT)
    } catch (error) {
      if (error instanceof Problem) return []
      throw error
    }
  })
  return [...new Set(good)].slice(0, MOST_CONTACTS)
}

/** Binds accounts to credentials that name them; nothing for credentials whose accounts name them. */
export const linkCredentials: WritePage<ImportedCredential> = async (page, { queries, foreignKids }) => {
  const bindings = page.flatMap(({ kid, boundThumbprint: thumbprint }) =>
    thumbprint && !foreignKids.has(kid) ? [{ kid, thumbprint }] : [],
  )
  const linked = bindings.length > 0 ? await linkAccounts(queries, bindings) : 0
  return Array<Outcome>(linked).fill('changed')
}
