/** SQL of the identifiers that operators allow to accounts and to binding credentials. */

import type { AllowedIdentifier, Allowlist } from '../domain/allowlist.ts'
import type { Batched } from '../shared/lib/batcher.ts'
import type { IdentifierType } from '../shared/protocol/identifier.ts'
import { batched, type Database, type Statement } from './database.ts'
import { LOCK_CREDENTIAL } from './eab-store.ts'

/** An allowed identifier with the id of its row, should it be new. */
export interface NewAllowedIdentifier extends AllowedIdentifier {
  id: string
}

export interface AllowlistStore {
  /** Keyed by account id. */
  find: Batched<string, Allowlist>
  /**
   * Identifiers copied from a credential become the account's own. False when there is no such
   * account.
   */
  allow(accountId: string, identifiers: readonly NewAllowedIdentifier[]): Promise<boolean>
  /** @returns the identifiers that had been allowed */
  disallow(accountId: string, identifiers: Allowlist): Promise<AllowedIdentifier[]>
  /** Allows them to the credential and its accounts. False when there is no such credential. */
  allowToCredential(credentialId: string, identifiers: readonly NewAllowedIdentifier[]): Promise<boolean>
  findOfCredential(credentialId: string): Promise<Allowlist>
}

const FIND: Statement = {
  name: 'allowlist-find',
  // account_allowed_identifiers_pkey, one range an account; allowed_identifiers_pkey
  text: `
    SELECT a.account_id, n.identifier_type, n.identifier_value
      FROM account_allowed_identifiers a JOIN allowed_identifiers n ON n.id = a.identifier_id
     WHERE a.account_id = ANY ($1::uuid[])
     ORDER BY n.identifier_type, n.identifier_value`,
}

/**
 * Makes the missing rows. The update changes nothing, but lets RETURNING name the existing rows.
 */
const IDENTIFIERS = `
    WITH n AS (
      INSERT INTO allowed_identifiers (id, identifier_type, identifier_value)
      SELECT * FROM unnest($2::uuid[], $3::text[], $4::text[])
      ON CONFLICT (identifier_type, identifier_value) DO UPDATE SET identifier_type = excluded.identifier_type
      RETURNING id
    )`

const ALLOW: Statement = {
  name: 'allowlist-allow',
  text: `${IDENTIFIERS}
    INSERT INTO account_allowed_identifiers (account_id, identifier_id)
    SELECT a.id, n.id FROM accounts a, n WHERE a.id = $1
    ON CONFLICT (account_id, identifier_id) DO UPDATE SET eab_credential_id = NULL
    RETURNING account_id`,
}

const DISALLOW: Statement = {
  name: 'allowlist-disallow',
  text: `
    DELETE FROM account_allowed_identifiers a USING allowed_identifiers n
     WHERE a.account_id = $1 AND n.id = a.identifier_id
       AND (n.identifier_type, n.identifier_value) IN (SELECT * FROM unnest($2::text[], $3::text[]))
    RETURNING n.identifier_type, n.identifier_value`,
}

const ALLOW_TO_CREDENTIAL: Statement = {
  name: 'allowlist-allow-to-credential',
  text: `${IDENTIFIERS}, credential AS (
      INSERT INTO eab_allowed_identifiers (eab_credential_id, identifier_id) SELECT $1, n.id FROM n
      ON CONFLICT DO NOTHING
    )
    INSERT INTO account_allowed_identifiers (account_id, identifier_id, eab_credential_id)
    SELECT a.id, n.id, $1 FROM accounts a, n WHERE a.eab_credential_id = $1
    ON CONFLICT DO NOTHING`,
}

const FIND_OF_CREDENTIAL: Statement = {
  name: 'allowlist-find-of-credential',
  text: `
    SELECT n.identifier_type, n.identifier_value
      FROM eab_allowed_identifiers e JOIN allowed_identifiers n ON n.id = e.identifier_id
     WHERE e.eab_credential_id = $1
     ORDER BY n.identifier_type, n.identifier_value`,
}

interface IdentifierRow {
  identifier_type: IdentifierType
  identifier_value: string
}

export function createAllowlistStore(db: Database): AllowlistStore {
  return {
    find: batched(db, async (accountIds: readonly string[]) => {
      const rows = await db.pipeline.run<IdentifierRow & { account_id: string }>(FIND, [accountIds])
      const byAccount = new Map<string, AllowedIdentifier[]>(accountIds.map((id) => [id, []]))
      for (const row of rows) byAccount.get(row.account_id)?.push(decode(row))
      return accountIds.map((id) => byAccount.get(id) ?? [])
    }),

    async allow(accountId, identifiers) {
      return (await db.query(ALLOW, [accountId, ...columnsOf(identifiers)])).length > 0
    },

    async disallow(accountId, identifiers) {
      const values = [accountId, identifiers.map(({ type }) => type), identifiers.map(({ value }) => value)]
      return (await db.query<IdentifierRow>(DISALLOW, values)).map(decode)
    },

    allowToCredential: (credentialId, identifiers) =>
      db.transaction(async (tx) => {
        // Waits for a registration that is copying the credential's identifiers (eab-store.ts).
        const locked = await tx.query(LOCK_CREDENTIAL, [credentialId])
        if (locked.length === 0) return false
        await tx.query(ALLOW_TO_CREDENTIAL, [credentialId, ...columnsOf(identifiers)])
        return true
      }),

    async findOfCredential(credentialId) {
      return (await db.query<IdentifierRow>(FIND_OF_CREDENTIAL, [credentialId])).map(decode)
    },
  }
}

function columnsOf(identifiers: readonly NewAllowedIdentifier[]): string[][] {
  return [identifiers.map(({ id }) => id), identifiers.map(({ type }) => type), identifiers.map(({ value }) => value)]
}

function decode(row: IdentifierRow): AllowedIdentifier {
  return { type: row.identifier_type, value: row.identifier_value }
}
