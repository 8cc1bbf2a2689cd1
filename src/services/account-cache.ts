/**
 * Cache of accounts by id with their keys, for one front thread, and when each was seen last.
 *
 * Importing a JWK costs as much as verifying a signature, so a key stays imported from its first use. A cached account
 * is only a hint: every statement for it checks its status and its key version.
 */

import type { Account } from '../domain/records.ts'
import type { Batched } from '../shared/lib/batcher.ts'
import { LruMap } from '../shared/lib/caching.ts'
import { printable } from '../shared/lib/terminal.ts'
import { type AccountKey, restoreAccountKey } from '../shared/protocol/jwk.ts'
import type { SeenAccount } from '../store/account-activity-store.ts'
import { type Requester, STALE_ACCOUNT, type StaleAccount } from '../store/account-store.ts'

export interface KnownAccount {
  account: Account
  key: AccountKey
  requester: Requester
  /** Address of the last request with a valid signature. */
  provenFrom: string | undefined
}

export interface AccountCache {
  find(accountId: string): KnownAccount | Promise<KnownAccount | undefined>
  /** By the path of its URL at a former server. */
  findByPath(path: string): KnownAccount | undefined | Promise<KnownAccount | undefined>
  remember(account: Account): void
  /** Keeps an account that was found, once a signature has proved it: bad signatures evict nobody. */
  keep(known: KnownAccount): void
  /** Reads the account again. Undefined when its key is unchanged. */
  findNewKey(known: KnownAccount): Promise<KnownAccount | undefined>
  forget(accountId: string): void
}

/**
 * A flow makes its requests within seconds, so these are the accounts of 4,000 flows at once. An entry takes some 7 KiB
 * with its key object; a miss costs a look-up and an import, about as much as the signature.
 */
const CAPACITY = 4_096
/** Some 200 octets each. */
const MOST_PATHS = 131_072

export function createAccountCache(
  findAccount: Batched<string, Account | undefined>,
  findIdByPath: Batched<string, string | undefined>,
): AccountCache {
  const idsByPath = new LruMap<string, string>(MOST_PATHS)
  const known = new LruMap<string, KnownAccount>(CAPACITY)

  async function load(accountId: string): Promise<KnownAccount | undefined> {
    const account = await findAccount(accountId)
    return account && knownAccount(account)
  }

  const find = (accountId: string) => known.get(accountId) ?? load(accountId)

  async function loadByPath(path: string): Promise<KnownAccount | undefined> {
    const id = await findIdByPath(path)
    if (id === undefined) return undefined
    idsByPath.set(path, id)
    return find(id)
  }

  return {
    find,
    findByPath(path) {
      const id = idsByPath.get(path)
      return id === undefined ? loadByPath(path) : find(id)
    },
    remember: (account) => known.set(account.id, knownAccount(account)),
    keep(found) {
      const { id } = found.account
      if (known.get(id) !== found) known.set(id, found)
    },
    async findNewKey({ account: { id, keyVersion } }) {
      const current = await findAccount(id)
      return current && current.keyVersion !== keyVersion ? knownAccount(current) : undefined
    },
    forget: (accountId) => known.delete(accountId),
  }
}

function knownAccount(account: Account): KnownAccount {
  return {
    account,
    key: restoreAccountKey(account.jwk, account.thumbprint),
    requester: { accountId: account.id, keyVersion: account.keyVersion },
    provenFrom: undefined,
  }
}

/**
 * The cached account or its key is out of date. The ACME layer catches it, reads the account and
 * checks the request again, and retries once.
 */
export class StaleAccountError extends Error {
  constructor() {
    super('the account or its key has changed')
    this.name = 'StaleAccountError'
  }
}

export function unlessStale<T>(result: T | StaleAccount): T {
  if (result === STALE_ACCOUNT) throw new StaleAccountError()
  return result as T
}

/** How exactly `last_seen_at` is known. */
const APART_MS = 3_600_000
const MOST_REMEMBERED = 10_000
const MOST_WAITING = 10_000
const MOST_OF_USER_AGENT = 200

/** Remembers which accounts were seen and with which client, and writes it in batches outside any request. A crash loses what waits. */
export class AccountActivity {
  readonly #record: (seen: readonly SeenAccount[]) => Promise<void>
  readonly #noted = new LruMap<string, true>(MOST_REMEMBERED, APART_MS)
  #waiting: SeenAccount[] = []

  constructor(record: (seen: readonly SeenAccount[]) => Promise<void>) {
    this.#record = record
  }

  /** @param userAgent as the client sent it */
  seen(accountId: string, userAgent: string | undefined, seenAt: Date): void {
    if (this.#noted.get(accountId) || this.#waiting.length >= MOST_WAITING) return
    this.#noted.set(accountId, true)
    this.#waiting.push({ accountId, userAgent: shown(userAgent), seenAt })
  }

  /** Tried again with the next request of an account when it fails. */
  async write(): Promise<void> {
    const waiting = this.#waiting
    if (waiting.length === 0) return
    this.#waiting = []
    try {
      await this.#record(waiting)
    } catch (error) {
      for (const { accountId } of waiting) this.#noted.delete(accountId)
      throw error
    }
  }
}

const shown = (sent: string | undefined): string | null =>
  sent === undefined ? null : printable(sent.slice(0, MOST_OF_USER_AGENT)).slice(0, MOST_OF_USER_AGENT)
