/** SQL of what clients decide over ACME: what of it the database lacks, and how it comes back. */

import type { AcmeAct, Decision } from '../../domain/decision.ts'
import { MAX_FORMER_KEYS } from '../../store/account-store.ts'
import type { Database, Statement } from '../../store/database.ts'
import { account, authorization } from '../../store/status-sql.ts'

type Queries = Pick<Database, 'query'>

/** The account never had this key. The holder of the old key may have changed it, so the version alone does not decide. */
const LACKS_KEY = `a.thumbprint <> d.thumbprint AND d.thumbprint <> ALL (a.former_thumbprints)
           AND a.key_version < d.key_version + ${MAX_FORMER_KEYS}`

const ACCOUNT = 'EXISTS (SELECT FROM accounts a WHERE a.id = d.account_id'

/** accounts_pkey, authorizations_pkey, blocked_keys_pkey. There is nothing to restrict where the row is gone. */
const LACKS: Readonly<Record<AcmeAct, string>> = {
  'acme.new_account': `NOT ${ACCOUNT})`,
  'acme.update_contacts': `${ACCOUNT} AND a.status ${account.is('valid')}
           AND (a.updated_at IS NULL OR a.updated_at < d.changed_at))`,
  'acme.deactivate_account': `${ACCOUNT} AND a.status ${account.allows('deactivate')})`,
  'acme.change_key': `${ACCOUNT} AND a.status ${account.is('valid')} AND ${LACKS_KEY})`,
  'acme.deactivate_authorization': `EXISTS (
           SELECT FROM authorizations z WHERE z.id = d.authorization_id AND z.account_id = d.account_id
              AND z.status ${authorization.allows('deactivate')})`,
  'acme.prove_compromise': `NOT EXISTS (
           SELECT FROM blocked_keys b WHERE b.spki_sha256 = decode(d.spki_sha256, 'hex') AND b.proved_at IS NOT NULL)`,
  // certificates_serial_issuer
  'acme.revoke': `NOT EXISTS (
           SELECT FROM certificates c WHERE c.serial_number = decode(d.serial_number, 'hex')
              AND c.issuer_fingerprint = decode(d.issuer_fingerprint, 'hex') AND c.revoked_at IS NOT NULL)`,
}

/** @returns the ids of those that the database lacks */
export async function findMissing(
  db: Queries,
  act: AcmeAct,
  decisions: readonly Pick<Decision, 'id' | 'details'>[],
): Promise<ReadonlySet<string>> {
  if (decisions.length === 0) return new Set()
  const statement = {
    name: `missing-${act}`,
    text: `
      SELECT d.id::text FROM jsonb_to_recordset($1::jsonb) AS d (id uuid, account_id uuid, authorization_id uuid,
             key_version integer, thumbprint text, changed_at timestamptz, spki_sha256 text, serial_number text,
             issuer_fingerprint text)
       WHERE ${LACKS[act]}`,
  }
  const rows = await db.query<{ id: string }>(statement, [
    JSON.stringify(decisions.map(({ id, details }) => ({ ...details, id }))),
  ])
  return new Set(rows.map(({ id }) => id))
}

const TAKE_KEY: Statement = {
  name: 'account-take-key',
  text: `
    UPDATE accounts SET jwk = $3, thumbprint = $4, key_version = greatest(key_version + 1, $2), updated_at = now(),
           former_thumbprints =
             (former_thumbprints || thumbprint)[greatest(1, cardinality(former_thumbprints) + 2 - ${MAX_FORMER_KEYS}):]
     WHERE id = $1 AND status ${account.is('valid')}
       AND NOT EXISTS (SELECT FROM accounts other WHERE other.thumbprint = $4)
       AND NOT EXISTS (SELECT FROM blocked_keys b WHERE b.spki_sha256 = account_spki_sha256($3))
    RETURNING id`,
}

/** @returns false where it is not valid, another account has the key, or the key is blocked */
export async function takeKey(
  db: Queries,
  key: { accountId: string; keyVersion: number; jwk: string; thumbprint: string },
): Promise<boolean> {
  return (await db.query(TAKE_KEY, [key.accountId, key.keyVersion, key.jwk, key.thumbprint])).length > 0
}

const TAKE_CONTACTS: Statement = {
  name: 'account-take-contacts',
  text: `
    UPDATE accounts SET contacts = $2::text[], updated_at = now()
     WHERE id = $1 AND status ${account.is('valid')} AND contacts <> $2::text[] RETURNING id`,
}

/** @returns false where it has them, or is not valid */
export async function takeContacts(db: Queries, accountId: string, contacts: readonly string[]): Promise<boolean> {
  return (await db.query(TAKE_CONTACTS, [accountId, contacts])).length > 0
}

const DEACTIVATE: Statement = {
  name: 'authorization-deactivate-for-holder',
  text: `
    UPDATE authorizations SET status = ${authorization.after('deactivate')}, validating_by = NULL, validating_since = NULL
     WHERE id = $2 AND account_id = $1 AND status ${authorization.allows('deactivate')} RETURNING id`,
}

/** @returns false where it is neither pending nor valid */
export async function deactivateAuthorization(db: Queries, accountId: string, id: string): Promise<boolean> {
  return (await db.query(DEACTIVATE, [accountId, id])).length > 0
}
