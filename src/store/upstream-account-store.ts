/** SQL of the account that this service has at an upstream ACME service (backend `acme_proxy`). */

import type { Database, Statement } from './database.ts'

export interface UpstreamAccountRow {
  id: string
  sealedKey: Buffer
  url: string | undefined
}

/** What names an account. */
export interface UpstreamAccountName {
  directoryUrl: string
  email: string
}

export interface UpstreamAccountStore {
  find(name: UpstreamAccountName): Promise<UpstreamAccountRow | undefined>
  /** Keeps an account that is there already. @returns the one that is there now */
  add(name: UpstreamAccountName, id: string, sealedKey: Buffer): Promise<UpstreamAccountRow>
  saveUrl(id: string, url: string | undefined): Promise<void>
}

const FIND: Statement = {
  name: 'upstream-account-find',
  // upstream_accounts_name
  text: 'SELECT id, sealed_key, url FROM upstream_accounts WHERE directory_url = $1 AND email = $2',
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

interface Row {
  id: string
  sealed_key: Buffer
  url: string | null
}

export function createUpstreamAccountStore(db: Pick<Database, 'query'>): UpstreamAccountStore {
  async function find({ directoryUrl, email }: UpstreamAccountName): Promise<UpstreamAccountRow | undefined> {
    const [row] = await db.query<Row>(FIND, [directoryUrl, email])
    return row && { id: row.id, sealedKey: row.sealed_key, url: row.url ?? undefined }
  }

  return {
    find,
    async add(name, id, sealedKey) {
      await db.query(ADD, [name.directoryUrl, name.email, id, sealedKey])
      return (await find(name)) as UpstreamAccountRow
    },
    async saveUrl(id, url) {
      await db.query(SAVE_URL, [id, url ?? null])
    },
  }
}
