/** SQL of accounts. Batched where it is on the issuance path. */

import type { Account } from '../domain/records.ts'
import type { AccountStatus } from '../domain/states.ts'
import type { Batched } from '../shared/lib/batcher.ts'
import type { ExternalAccountBinding } from '../shared/protocol/external-account-binding.ts'
import { batched, type Database, type Statement } from './database.ts'
import { account, authorization } from './status-sql.ts'

/** The account that makes a request, and the version of the key that verified its signature. */
export interface Requester {
  accountId: string
  keyVersion: number
}

/** The cached account is no longer valid or has another key: read it and verify again. */
export const STALE_ACCOUNT = Symbol('stale account')
export type StaleAccount = typeof STALE_ACCOUNT

export interface NewAccount {
  id: string
  thumbprint: string
  jwk: string
  contacts: readonly string[]
  termsAgreed: boolean
  /** Version of the terms it agreed to; absent where terms have no versions. */
  termsVersion?: string
}

/** Nothing was inserted, and there is no such account: its key is blocked, or another request was faster. */
export class KeyBlocked extends Error {
  override readonly name = 'KeyBlocked'
}

export interface AccountStore {
  find: Batched<string, Account | undefined>
  findByThumbprint: Batched<string, Account | undefined>
  /** By the path of its URL at a former server. */
  findIdByPath: Batched<string, string | undefined>
  /**
   * The account of this key, made if there was none (RFC 8555 §7.3.1). `created` is true for exactly one caller.
   * @throws KeyBlocked when the key seems to be blocked and has no account
   */
  create(account: NewAccount): Promise<{ created: boolean; account: Account }>
  /** Undefined when the account is not valid any more. */
  updateContacts(requester: Requester, contacts: readonly string[]): Promise<Account | undefined>
  /** Time of its last change, with microseconds; undefined when there is no such account. */
  changedAt(accountId: string): Promise<string | undefined>
  /** Records an agreement to the terms. Undefined when there is no such valid account. */
  agreeToTerms(accountId: string, version: string): Promise<Account | undefined>
  /** Valid → deactivated, with its valid or validating authorizations; undefined when it was not valid. */
  deactivate(requester: Requester): Promise<Account | undefined>
  /** Undefined when the account is not valid or its key has changed. `taken` is the account that has the new key. */
  changeKey(
    requester: Requester,
    key: { jwk: string; thumbprint: string },
  ): Promise<Account | { taken: string } | undefined>
}

interface AccountRow {
  id: string
  status: AccountStatus
  jwk: string
  thumbprint: string
  key_version: number
  contacts: string[]
  terms_agreed: boolean
  terms_version: string | null
  external_account_binding: ExternalAccountBinding['jws'] | null
  allowed_profiles: string[] | null
  preapproved_networks: string[] | null
}

const COLUMNS = `id, status, jwk, thumbprint, key_version, contacts, terms_agreed, terms_version, external_account_binding,
           allowed_profiles, preapproved_networks::text[]`

const FIND: Statement = {
  name: 'account-find',
  // accounts_pkey, one row each
  text: `SELECT ${COLUMNS} FROM accounts WHERE id = ANY ($1::uuid[])`,
}

const FIND_BY_THUMBPRINT: Statement = {
  name: 'account-find-by-thumbprint',
  // accounts_thumbprint_key, one row each
  text: `SELECT ${COLUMNS} FROM accounts WHERE thumbprint = ANY ($1::text[])`,
}

const FIND_ID_BY_PATH: Statement = {
  name: 'account-find-by-path',
  // account_paths_pkey, one row each
  text: 'SELECT path, account_id FROM account_paths WHERE path = ANY ($1::text[])',
}

const CREATE: Statement = {
  name: 'account-create',
  // blocked_keys_pkey, and one insert into accounts and its indexes for each row. Sorted, so that two batches with the
  // same keys cannot deadlock.
  text: `
    INSERT INTO accounts (id, thumbprint, jwk, contacts, terms_agreed, terms_version)
    SELECT id, thumbprint, jwk, ARRAY(SELECT jsonb_array_elements_text(contacts)), terms_agreed, terms_version
      FROM unnest($1::uuid[], $2::text[], $3::text[], $4::jsonb[], $5::boolean[], $6::text[])
        AS i (id, thumbprint, jwk, contacts, terms_agreed, terms_version)
     WHERE NOT EXISTS (SELECT FROM blocked_keys b WHERE b.spki_sha256 = account_spki_sha256(i.jwk))
     ORDER BY thumbprint
    ON CONFLICT (thumbprint) DO NOTHING
    RETURNING id`,
}

const UPDATE_CONTACTS: Statement = {
  name: 'account-update-contacts',
  // accounts_pkey, one row each
  text: `
    UPDATE accounts SET contacts = ARRAY(SELECT jsonb_array_elements_text(i.wanted)), updated_at = now()
      FROM unnest($1::uuid[], $2::integer[], $3::jsonb[]) AS i (account_id, version, wanted)
     WHERE id = i.account_id AND key_version = i.version AND status ${account.is('valid')}
    RETURNING ${COLUMNS}`,
}

const CHANGED_AT: Statement = {
  name: 'account-changed-at',
  // accounts_pkey, one row
  text: 'SELECT updated_at::text AS at FROM accounts WHERE id = $1',
}

const AGREE_TO_TERMS: Statement = {
  name: 'account-agree-to-terms',
  // accounts_pkey, one row
  text: `
    UPDATE accounts SET terms_agreed = true, terms_version = $2, updated_at = now()
     WHERE id = $1 AND status ${account.is('valid')}
    RETURNING ${COLUMNS}`,
}

/** By an administrator. @returns false when there is no such valid account */
export async function agreeToTerms(db: Pick<Database, 'query'>, accountId: string, version: string): Promise<boolean> {
  return (await db.query(AGREE_TO_TERMS, [accountId, version])).length > 0
}

const DEACTIVATE: Statement = {
  name: 'account-deactivate',
  // accounts_pkey, one row each; authorizations_reusable for the account's valid authorizations, authorizations_validating for
  // those with a validation under way, which would make them valid. Its other pending ones need no write: whatever they
  // belong to can only be reached through the account.
  text: `
    WITH gone AS (
      UPDATE accounts SET status = ${account.after('deactivate')}, updated_at = now()
        FROM unnest($1::uuid[], $2::integer[]) AS i (account_id, version)
       WHERE id = i.account_id AND key_version = i.version AND status ${account.allows('deactivate')} RETURNING ${COLUMNS}
    ), authorizations_gone AS (
      UPDATE authorizations SET status = ${authorization.after('deactivate')}, validating_by = NULL, validating_since = NULL
       WHERE account_id = ANY (ARRAY(SELECT id FROM gone))
         AND (status ${authorization.is('valid')} OR status ${authorization.is('pending')} AND validating_by IS NOT NULL)
    )
    SELECT ${COLUMNS} FROM gone`,
}

const FIND_VERSION: Statement = {
  name: 'account-find-version',
  text: 'SELECT key_version FROM accounts WHERE id = $1 FOR UPDATE',
}

/** By an administrator; in a transaction. @returns false when it is not valid */
export async function deactivateAccount(tx: Pick<Database, 'query'>, id: string): Promise<boolean> {
  const [account] = await tx.query<{ key_version: number }>(FIND_VERSION, [id])
  return account !== undefined && (await tx.query(DEACTIVATE, [[id], [account.key_version]])).length > 0
}

/**
 * The newest former keys, under which a hashed account URI still counts (draft-ietf-acme-dns-persist-02 §4.2). Ten is
 * the default of key changes a day; every change writes them, every record is compared with them.
 */
export const MAX_FORMER_KEYS = 10

const CHANGE_KEY: Statement = {
  name: 'account-change-key',
  text: `
    UPDATE accounts SET jwk = $3, thumbprint = $4, key_version = key_version + 1, updated_at = now(),
           former_thumbprints =
             (former_thumbprints || thumbprint)[greatest(1, cardinality(former_thumbprints) + 2 - ${MAX_FORMER_KEYS}):]
     WHERE id = $1 AND key_version = $2 AND status ${account.is('valid')}
       AND NOT EXISTS (SELECT FROM accounts other WHERE other.thumbprint = $4)
    RETURNING ${COLUMNS}`,
}

export function createAccountStore(db: Database): AccountStore {
  const lookups = createLookups(db)
  const { findByThumbprint } = lookups
  const insert = createInsert(db)
  return {
    ...lookups,
    ...createUpdates(db),
    async create(account) {
      if (await insert(account)) {
        return { created: true, account: { ...account, status: 'valid', keyVersion: 1 } }
      }
      const existing = await findByThumbprint(account.thumbprint)
      if (!existing) throw new KeyBlocked()
      return { created: false, account: existing }
    },
    changedAt: async (accountId) => (await db.query<{ at: string }>(CHANGED_AT, [accountId]))[0]?.at,
    async agreeToTerms(accountId, version) {
      return decodeFirst(await db.query<AccountRow>(AGREE_TO_TERMS, [accountId, version]))
    },
    changeKey: (requester, key) => changeKey(db, lookups, requester, key),
  }
}

type Lookups = Pick<AccountStore, 'find' | 'findByThumbprint' | 'findIdByPath'>

function createLookups(db: Database): Lookups {
  return {
    find: batched(db, async (ids: readonly string[]) => {
      const rows = await db.pipeline.run<AccountRow>(FIND, [ids])
      const byId = decodeById(rows)
      return ids.map((id) => byId.get(id))
    }),
    findByThumbprint: batched(db, async (thumbprints: readonly string[]) => {
      const rows = await db.pipeline.run<AccountRow>(FIND_BY_THUMBPRINT, [thumbprints])
      const byThumbprint = new Map(rows.map((row) => [row.thumbprint, decode(row)]))
      return thumbprints.map((thumbprint) => byThumbprint.get(thumbprint))
    }),
    findIdByPath: batched(db, async (paths: readonly string[]) => {
      const rows = await db.pipeline.run<{ path: string; account_id: string }>(FIND_ID_BY_PATH, [paths])
      const byPath = new Map(rows.map(({ path, account_id }) => [path, account_id]))
      return paths.map((path) => byPath.get(path))
    }),
  }
}

/** @returns a command that says whether it made the row */
function createInsert(db: Database) {
  return batched(db, async (accounts: readonly NewAccount[]) => {
    const rows = await db.pipeline.run<{ id: string }>(CREATE, [
      accounts.map((a) => a.id),
      accounts.map((a) => a.thumbprint),
      accounts.map((a) => a.jwk),
      accounts.map((a) => JSON.stringify(a.contacts)),
      accounts.map((a) => a.termsAgreed),
      accounts.map((a) => a.termsVersion ?? null),
    ])
    const made = new Set(rows.map((row) => row.id))
    return accounts.map((a) => made.has(a.id))
  })
}

/** Batched by key: requests of one account wait for its row here, and delay no statement of another account. */
function createUpdates(db: Database): Pick<AccountStore, 'updateContacts' | 'deactivate'> {
  const updateContacts = batched(
    db,
    async (updates: readonly { requester: Requester; contacts: readonly string[] }[]) => {
      const rows = await db.pipeline.run<AccountRow>(UPDATE_CONTACTS, [
        updates.map(({ requester }) => requester.accountId),
        updates.map(({ requester }) => requester.keyVersion),
        updates.map(({ contacts }) => JSON.stringify(contacts)),
      ])
      const byId = decodeById(rows)
      return updates.map(({ requester }) => byId.get(requester.accountId))
    },
    { keyOf: ({ requester }) => requester.accountId },
  )
  const deactivate = batched(
    db,
    async (requesters: readonly Requester[]) => {
      const rows = await db.pipeline.run<AccountRow>(DEACTIVATE, [
        requesters.map(({ accountId }) => accountId),
        requesters.map(({ keyVersion }) => keyVersion),
      ])
      const byId = decodeById(rows)
      return requesters.map(({ accountId }) => byId.get(accountId))
    },
    { keyOf: ({ accountId }) => accountId },
  )
  return { updateContacts: (requester, contacts) => updateContacts({ requester, contacts }), deactivate }
}

async function changeKey(
  db: Database,
  { find, findByThumbprint }: Lookups,
  { accountId, keyVersion }: Requester,
  { jwk, thumbprint }: Parameters<AccountStore['changeKey']>[1],
): ReturnType<AccountStore['changeKey']> {
  const changed = await db
    .query<AccountRow>(CHANGE_KEY, [accountId, keyVersion, jwk, thumbprint])
    .catch((error: { code?: string }) => {
      if (error.code === '23505') return [] // another account took the key between the check and the write
      throw error
    })
  if (changed[0]) return decode(changed[0])
  const [current, holder] = await Promise.all([find(accountId), findByThumbprint(thumbprint)])
  const isCurrent = current?.status === 'valid' && current.keyVersion === keyVersion
  return isCurrent && holder ? { taken: holder.id } : undefined
}

function decode(row: AccountRow): Account {
  return {
    id: row.id,
    status: row.status,
    jwk: row.jwk,
    thumbprint: row.thumbprint,
    keyVersion: row.key_version,
    contacts: row.contacts,
    termsAgreed: row.terms_agreed,
    ...(row.terms_version !== null && { termsVersion: row.terms_version }),
    ...(row.external_account_binding && { externalAccountBinding: row.external_account_binding }),
    ...(row.allowed_profiles && { allowedProfiles: row.allowed_profiles }),
    ...(row.preapproved_networks && { preapprovedNetworks: row.preapproved_networks }),
  }
}

function decodeById(rows: AccountRow[]): Map<string, Account> {
  return new Map(rows.map((row) => [row.id, decode(row)]))
}

function decodeFirst(rows: AccountRow[]): Account | undefined {
  return rows[0] && decode(rows[0])
}
