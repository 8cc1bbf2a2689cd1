/** Decisions about accounts, over ACME and by administrators: which of them the database lacks, and how they come back. */

import * as z from 'zod/v4'
import type { AcmeAct, Decision } from '../../domain/decision.ts'
import { deactivateAccount, MAX_FORMER_KEYS } from '../../store/account-store.ts'
import type { Database, Statement } from '../../store/database.ts'
import { queriesOf } from '../../store/slonik.ts'
import { account, authorization } from '../../store/status-sql.ts'
import { lockAccount, writeAccount } from '../certificates/account-list.ts'
import { changed, restoredAs, restoredIf, restoring, withoutRemoved } from './restore.ts'

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
async function takeKey(
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
async function takeContacts(db: Queries, accountId: string, contacts: readonly string[]): Promise<boolean> {
  return (await db.query(TAKE_CONTACTS, [accountId, contacts])).length > 0
}

const DEACTIVATE: Statement = {
  name: 'authorization-deactivate-for-holder',
  text: `
    UPDATE authorizations SET status = ${authorization.after('deactivate')}, validating_by = NULL, validating_since = NULL
     WHERE id = $2 AND account_id = $1 AND status ${authorization.allows('deactivate')} RETURNING id`,
}

/** @returns false where it is neither pending nor valid */
async function deactivateAuthorization(db: Queries, accountId: string, id: string): Promise<boolean> {
  return (await db.query(DEACTIVATE, [accountId, id])).length > 0
}

const Account = z.object({ account_id: z.string() })

const deactivate = restoring(Account, async (tx, { account_id: id }) =>
  restoredIf(await deactivateAccount(queriesOf(tx), id)),
)

const Written = Account.extend({ label: changed(z.string().nullable()), tags: changed(z.array(z.string())) })
const ChangedKey = Account.extend({ key_version: z.int(), jwk: z.string(), thumbprint: z.string() })

/** Restrictions of ACME accounts come back, by administrators and by their owners. */
export const ACCOUNT_RESTORES = {
  // A name gives nothing to anybody, so it comes back, too.
  'account.update': restoring(Written, async (tx, { account_id: id, label, tags }) => {
    const now = await lockAccount(tx, id, undefined)
    if (!now) return 'overtaken'
    const left = withoutRemoved(now.tags, tags)
    const name = label ? label.after : now.label
    const isChanged = left.isChanged || name !== now.label
    if (isChanged) await writeAccount(tx, id, { label: name, tags: left.tags })
    return restoredAs({ isChanged, isWhole: left.isWhole })
  }),
  'account.deactivate': deactivate,
  'acme.deactivate_account': deactivate,
  'acme.update_contacts': restoring(Account.extend({ contacts: z.array(z.string()) }), async (tx, details) =>
    restoredIf(await takeContacts(queriesOf(tx), details.account_id, details.contacts)),
  ),
  // Where another account has the new key, or it is blocked, the old one ends all the same.
  'acme.change_key': restoring(ChangedKey, async (tx, key, decision) => {
    const db = queriesOf(tx)
    if (!(await findMissing(db, 'acme.change_key', [decision])).has(decision.id)) return 'overtaken'
    if (await takeKey(db, { accountId: key.account_id, keyVersion: key.key_version, ...key })) return 'restored'
    await deactivateAccount(db, key.account_id)
    return 'partly'
  }),
  'acme.deactivate_authorization': restoring(
    Account.extend({ authorization_id: z.string() }),
    async (tx, { account_id: account, authorization_id: id }) =>
      restoredIf(await deactivateAuthorization(queriesOf(tx), account, id)),
  ),
}
