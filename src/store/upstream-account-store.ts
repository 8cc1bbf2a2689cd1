/** SQL of the account that this service has at an upstream ACME service (backend `acme_proxy`). */

import type { StoredUpstreamAccount, UpstreamAccountName } from '../domain/records.ts'
import { withoutNulls } from './batch-results.ts'
import type { Database, Statement } from './database.ts'

const FIND: Statement = {
  name: 'upstream-account-find',
  // upstream_accounts_name
  text: 'SELECT id, sealed_key AS "sealedKey", url FROM upstream_accounts WHERE directory_url = $1 AND email = $2',
}

const ADD: Statement = {
  name: 'upstream-account-add',
  text: `
    INSERT INTO upstream_accounts (directory_url, email, id, sealed_key) VALUES ($1, $2, $3, $4)
    ON CONFLICT (directory_url, email) DO NOTHING`,
}

const SAVE_URL: Statement = {
  name: 'upstream-account-save-url',
  text: 'UPDATE upstream_accounts SET url = $2 WHERE id = $1',
}

/** The store of ca/acme-proxy/upstream-account.ts. */
export function createUpstreamAccountStore(db: Pick<Database, 'query'>) {
  async function find({ directoryUrl, email }: UpstreamAccountName): Promise<StoredUpstreamAccount | undefined> {
    const [row] = await db.query<StoredUpstreamAccount>(FIND, [directoryUrl, email])
    return row && withoutNulls(row)
  }

  return {
    find,
    async add(name: UpstreamAccountName, id: string, sealedKey: Buffer): Promise<StoredUpstreamAccount> {
      await db.query(ADD, [name.directoryUrl, name.email, id, sealedKey])
      return (await find(name)) as StoredUpstreamAccount
    },
    async saveUrl(id: string, url: string | undefined): Promise<void> {
      await db.query(SAVE_URL, [id, url ?? null])
    },
  }
}
