/** SQL of the identifiers that an account may request. Changes are in admin/identifier-store.ts. */

import type { Grant } from '../domain/allowlist.ts'
import type { Batched } from '../shared/lib/batcher.ts'
import type { IdentifierType } from '../shared/protocol/identifier.ts'
import { batched, type Database, type Statement } from './database.ts'

export interface AllowlistStore {
  /** Keyed by account id. */
  find: Batched<string, readonly Grant[]>
}

const FIND: Statement = {
  name: 'allowlist-find',
  // account_allowed_identifiers_pkey, one range an account; allowed_identifiers_pkey
  text: `
    SELECT a.account_id, n.id, n.identifier_type, n.identifier_value
      FROM account_allowed_identifiers a JOIN allowed_identifiers n ON n.id = a.identifier_id
     WHERE a.account_id = ANY ($1::uuid[])
     ORDER BY n.identifier_type, n.identifier_value`,
}

interface IdentifierRow {
  account_id: string
  id: string
  identifier_type: IdentifierType
  identifier_value: string
}

export function createAllowlistStore(db: Database): AllowlistStore {
  return {
    find: batched(db, async (accountIds: readonly string[]) => {
      const rows = await db.pipeline.run<IdentifierRow>(FIND, [accountIds])
      const byAccount = new Map<string, Grant[]>(accountIds.map((id) => [id, []]))
      for (const { account_id, id, identifier_type: type, identifier_value: value } of rows)
        byAccount.get(account_id)?.push({ id, type, value })
      return accountIds.map((id) => byAccount.get(id) ?? [])
    }),
  }
}
