/** Accounts of a former server: the key makes the account, and its former URLs lead to it. */

import { isDeepStrictEqual } from 'node:util'
import { checkContacts } from '../domain/contact.ts'
import type { AccountStatus } from '../domain/states.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import { hashSpki } from '../shared/pki/algorithms.ts'
import { type AccountKey, CERTIFICATE_KEYS, parseAccountKey } from '../shared/protocol/jwk.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { isPathOfUrl, MAX_PATH_LENGTH, pathOfUrl } from '../shared/protocol/urls.ts'
import { findBlockedKeys } from '../store/certificate-store.ts'
import type { Database, Statement } from '../store/database.ts'
import type { ImportedAccount, Outcome, PageContext, WritePage } from './model.ts'

interface Candidate {
  account: ImportedAccount
  key: AccountKey
  paths: readonly string[]
  contacts: readonly string[]
}

export function createAccountWriter(): WritePage<ImportedAccount> {
  let known: KnownAccounts = new Map()
  return async (page, context) => {
    const { queries, isDryRun } = context
    // A dry run finds in no table what it would have written.
    if (!isDryRun) known = new Map()
    const read = await withoutBlockedKeys(page.map(readAccount), context)
    const candidates = read.filter((one): one is Candidate => 'key' in one)
    const thumbprints = candidates.map(({ key }) => key.thumbprint)
    const here = await findKnownAccounts(
      queries,
      thumbprints,
      candidates.flatMap(({ paths }) => paths),
    )
    for (const account of here) if (!known.has(account.id)) setKnown(known, account)
    const decided = new Map<Candidate, Outcome>()
    const fresh = new Map<Candidate, NewImport>()
    const flush = async () => {
      const made = isDryRun ? undefined : await insertFresh(fresh, queries)
      for (const [candidate, row] of fresh) {
        if (made?.has(row.id) ?? true) continue
        // A key that was registered here a moment ago has its account.
        decided.set(candidate, 'known')
        for (const key of [row.id, row.thumbprint, ...candidate.paths]) known.delete(key)
      }
      fresh.clear()
    }
    for (const candidate of candidates) {
      // By its URL first: its key may have changed at the former server since it came here.
      const found = () => [...candidate.paths, candidate.key.thumbprint].flatMap((key) => known.get(key) ?? [])
      if (fresh.size > 0 && found().length > 0) await flush()
      const [account, ...others] = new Set(found())
      if (account) decided.set(candidate, await reconcile(candidate, { account, others }, known, context))
      else {
        const row = rowOf(candidate, context)
        fresh.set(candidate, row)
        setKnown(known, { ...row, isChangedHere: false, paths: candidate.paths })
        decided.set(candidate, 'new')
      }
    }
    await flush()
    return read.map((one) => ('key' in one ? (decided.get(one) as Outcome) : one))
  }
}

/** A key that is known to be compromised has no account, and gets none by a registration either. */
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

/** Its keys are ids, thumbprints and paths. */
type KnownAccounts = Map<string, KnownImport>

function setKnown(known: KnownAccounts, account: KnownImport): void {
  for (const key of [account.id, account.thumbprint, ...account.paths]) known.set(key, account)
}

/** Compares with the account that is here already. */
async function reconcile(
  { account, key, paths, contacts }: Candidate,
  { account: here, others }: { account: KnownImport; others: readonly KnownImport[] },
  known: KnownAccounts,
  { queries, isDryRun }: PageContext,
): Promise<Outcome> {
  const name = paths[0] ?? key.thumbprint
  if (others.length > 0)
    return { name, skipped: `its URL and its key are those of two accounts here: ${here.id}, ${others[0]?.id}` }
  const isSameKey = here.thumbprint === key.thumbprint
  // Without a former path it was registered here, and owes nothing to another server.
  const isFollowing = here.paths.length > 0 && !here.isChangedHere
  if (!isSameKey && !isFollowing) return { name, skipped: `it has another key here, as account ${here.id}` }
  const isSame = isSameKey && here.status === account.status && isDeepStrictEqual(here.contacts, contacts)
  const missing = paths.filter((path) => !here.paths.includes(path))
  if ((isSame || !isFollowing) && missing.length === 0) return 'known'
  const now = { ...key, status: account.status, contacts }
  known.delete(here.thumbprint)
  setKnown(known, { ...here, ...(isFollowing && now), paths: [...here.paths, ...missing] })
  if (isDryRun) return 'changed'
  if (!isSame && isFollowing) await followAccount(queries, here.id, now)
  const added = missing.map((path) => ({ path, accountId: here.id }))
  if (added.length > 0) await insertPaths(queries, added)
  return 'changed'
}

function rowOf({ account, key, contacts }: Candidate, { foreignKids }: PageContext): NewImport {
  const { createdAt, status, termsAgreed = false } = account
  const isForeign = account.credentialKid !== undefined && foreignKids.has(account.credentialKid)
  const credentialKid = isForeign ? undefined : account.credentialKid
  const { jwk, thumbprint } = key
  return { id: uuidv7(createdAt.getTime()), jwk, thumbprint, status, contacts, termsAgreed, createdAt, credentialKid }
}

async function insertFresh(
  fresh: ReadonlyMap<Candidate, NewImport>,
  queries: PageContext['queries'],
): Promise<Set<string>> {
  const made = await insertAccounts(queries, [...fresh.values()])
  const paths = [...fresh].flatMap(([{ paths }, { id }]) => paths.map((path) => ({ path, accountId: id })))
  await insertPaths(
    queries,
    paths.filter(({ accountId }) => made.has(accountId)),
  )
  return made
}

function readAccount(account: ImportedAccount): Candidate | Exclude<Outcome, string> {
  const name = account.urls[0] ?? 'an account without a URL'
  const paths = account.urls.map(pathOfUrl)
  if (!paths.every(isPathOfUrl))
    return {
      name: name.slice(0, MAX_PATH_LENGTH),
      skipped: `its URL has more than ${MAX_PATH_LENGTH} characters, or some that no URL has`,
    }
  // JSON of a former server may be null.
  if (typeof account.jwk !== 'object' || account.jwk === null) return { name, skipped: 'its key is no JWK' }
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

/* SQL. */

type Queries = Pick<Database, 'query'>

interface KnownImport {
  id: string
  thumbprint: string
  status: AccountStatus
  contacts: readonly string[]
  /** It was changed here: what the former server says counts no more. */
  isChangedHere: boolean
  /** Its paths at former servers. */
  paths: readonly string[]
}

const FIND_KNOWN: Statement = {
  name: 'import-find-accounts',
  // accounts_thumbprint_key, account_paths_pkey, accounts_pkey
  text: `
    SELECT a.id, a.thumbprint, a.status, a.contacts, a.updated_at IS NOT NULL AS "isChangedHere",
           ARRAY(SELECT p.path FROM account_paths p WHERE p.account_id = a.id) AS paths
      FROM accounts a
     WHERE a.id IN (SELECT id FROM accounts WHERE thumbprint = ANY ($1::text[])
                    UNION SELECT account_id FROM account_paths WHERE path = ANY ($2::text[]))`,
}

function findKnownAccounts(tx: Queries, thumbprints: readonly string[], paths: readonly string[]) {
  return tx.query<KnownImport>(FIND_KNOWN, [thumbprints, paths])
}

interface NewImport {
  id: string
  thumbprint: string
  jwk: string
  status: AccountStatus
  contacts: readonly string[]
  termsAgreed: boolean
  createdAt: Date
  credentialKid: string | undefined
}

const INSERT: Statement = {
  name: 'import-insert-accounts',
  text: `
    WITH made AS (
      INSERT INTO accounts (id, thumbprint, jwk, status, contacts, terms_agreed, created_at, eab_credential_id)
      SELECT i.id, i.thumbprint, i.jwk, i.status, ARRAY(SELECT jsonb_array_elements_text(i.contacts)), i.terms_agreed, i.created_at, c.id
        FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::jsonb[], $6::boolean[], $7::timestamptz[], $8::text[])
               AS i (id, thumbprint, jwk, status, contacts, terms_agreed, created_at, kid)
        LEFT JOIN eab_credentials c ON c.kid = i.kid
       ORDER BY i.thumbprint
      ON CONFLICT (thumbprint) DO NOTHING
      RETURNING id, eab_credential_id
    ), used AS (
      UPDATE eab_credentials c SET used = true, uses = c.uses + m.accounts, used_at = coalesce(c.used_at, now()), account_id = m.last
        FROM (SELECT eab_credential_id, count(*)::integer AS accounts, max(id::text)::uuid AS last FROM made
               WHERE eab_credential_id IS NOT NULL GROUP BY eab_credential_id) m
       WHERE c.id = m.eab_credential_id
    )
    SELECT id FROM made`,
}

const HAND_ON_IDENTIFIERS: Statement = {
  name: 'import-hand-on-identifiers',
  text: `
    INSERT INTO account_allowed_identifiers (account_id, identifier_id, eab_credential_id)
    SELECT a.id, e.identifier_id, e.eab_credential_id FROM accounts a JOIN eab_allowed_identifiers e USING (eab_credential_id)
     WHERE a.id = ANY ($1::uuid[]) ON CONFLICT DO NOTHING`,
}

const HAND_ON_PROFILES: Statement = {
  name: 'import-hand-on-profiles',
  text: `
    INSERT INTO account_csr_profiles (account_id, csr_profile_id, eab_credential_id, assigned_by)
    SELECT a.id, e.csr_profile_id, e.eab_credential_id, e.assigned_by FROM accounts a JOIN eab_csr_profiles e USING (eab_credential_id)
     WHERE a.id = ANY ($1::uuid[]) ON CONFLICT DO NOTHING`,
}

/** Gives accounts what their credentials grant. */
export async function handOn(tx: Queries, accountIds: readonly string[]): Promise<void> {
  await tx.query(HAND_ON_IDENTIFIERS, [accountIds])
  await tx.query(HAND_ON_PROFILES, [accountIds])
}

/** Inserts them with what their credentials grant. @returns the ids of those that are in; the keys of the others have accounts */
async function insertAccounts(tx: Queries, accounts: readonly NewImport[]): Promise<Set<string>> {
  const rows = await tx.query<{ id: string }>(INSERT, [
    accounts.map((a) => a.id),
    accounts.map((a) => a.thumbprint),
    accounts.map((a) => a.jwk),
    accounts.map((a) => a.status),
    accounts.map((a) => JSON.stringify(a.contacts)),
    accounts.map((a) => a.termsAgreed),
    accounts.map((a) => a.createdAt),
    accounts.map((a) => a.credentialKid ?? null),
  ])
  const made = rows.map(({ id }) => id)
  await handOn(tx, made)
  return new Set(made)
}

const FOLLOW: Statement = {
  name: 'import-follow-account',
  text: `
    UPDATE accounts SET status = $2, contacts = $3, jwk = $4, thumbprint = $5,
           key_version = key_version + CASE WHEN thumbprint = $5 THEN 0 ELSE 1 END
     WHERE id = $1 AND updated_at IS NULL RETURNING id`,
}

/** What the former server has changed since the account came here. @returns false when it was changed here, too */
async function followAccount(
  tx: Queries,
  id: string,
  now: Pick<NewImport, 'status' | 'contacts' | 'jwk' | 'thumbprint'>,
): Promise<boolean> {
  return (await tx.query(FOLLOW, [id, now.status, now.contacts, now.jwk, now.thumbprint])).length > 0
}

const INSERT_PATHS: Statement = {
  name: 'import-insert-paths',
  text: `
    INSERT INTO account_paths (path, account_id) SELECT * FROM unnest($1::text[], $2::uuid[])
    ON CONFLICT (path) DO NOTHING RETURNING path`,
}

async function insertPaths(tx: Queries, paths: readonly { path: string; accountId: string }[]): Promise<void> {
  await tx.query(INSERT_PATHS, [paths.map(({ path }) => path), paths.map(({ accountId }) => accountId)])
}
