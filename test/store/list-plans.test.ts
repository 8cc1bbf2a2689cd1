/**
 * Plans of lists and of the walks of background work on tables that are large enough for the planner to care: none reads a table whole,
 * and each goes along the index that its comment names.
 */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { listAccounts } from '../../src/admin/certificates/account-list.ts'
import type { CertificateFilter } from '../../src/admin/certificates/certificate-filter.ts'
import { findCertificateByFingerprint, listCertificates } from '../../src/admin/certificates/certificate-list.ts'
import { expiringByAccount } from '../../src/admin/certificates/expiry-endpoints.ts'
import { listOrders } from '../../src/admin/certificates/order-list.ts'
import { pagesOfCredentials } from '../../src/admin/eab/credential-store.ts'
import type { CertificateSort } from '../../src/admin/resources/certificates.ts'
import type { Database, Statement } from '../../src/store/database.ts'
import type { ListPage } from '../../src/store/list-page.ts'
import { makeIndexes, SEARCH_INDEXES } from '../../src/store/optional-indexes.ts'
import { createRenewalAdvice } from '../../src/store/renewal-store.ts'
import { createRetentionStore } from '../../src/store/retention-store.ts'
import { type DatabasePool, openCheckedDatabase } from '../../src/store/slonik.ts'
import { newId, useStores } from './support.ts'

const FILL = `
  INSERT INTO issuers (fingerprint, certificate, chain) VALUES ('\\x00', '\\x00', '{}'), ('\\x01', '\\x00', '{}');
  INSERT INTO accounts (id, thumbprint, jwk, status, contacts)
    SELECT gen_random_uuid(), 'thumbprint ' || n, '{}', CASE WHEN n % 100 = 0 THEN 'deactivated' ELSE 'valid' END,
           ARRAY['mailto:' || n || '@contact.example']
      FROM generate_series(1, 5000) n;
  INSERT INTO authorizations (id, account_id, identifier_type, identifier_value, wildcard, status, expires_at, token, offered)
    SELECT gen_random_uuid(), a.id, 'dns', 'host' || n || '.example', false, 'expired', now() - interval '100 days', 'token', '{http-01}'
      FROM accounts a, generate_series(1, 6) n;
  INSERT INTO orders (id, account_id, identifiers, authorization_ids, profile, expires_at, status, certificate_id)
    SELECT gen_random_uuid(), account_id, jsonb_build_array(jsonb_build_object('type', 'dns', 'value', md5(id::text) || '.example')), ARRAY[id], 'default', expires_at,
           (ARRAY['open', 'valid', 'invalid'])[1 + (random() * 2)::integer], gen_random_uuid()
      FROM authorizations;
  INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, not_before, not_after, der, revoked_at)
    SELECT certificate_id, account_id, id, decode(md5(id::text), 'hex'), CASE WHEN random() < 0.1 THEN '\\x00' ELSE '\\x01' END::bytea,
           ARRAY[md5(id::text) || '.example'], now(), now() + CASE WHEN random() < 0.5 THEN -1 ELSE 1 END * (interval '1 day' + random() * interval '89 days'), decode(repeat('00', 434) || md5(id::text), 'hex'),
           CASE WHEN random() < 0.01 THEN now() END
      FROM orders;
  INSERT INTO eab_credentials (id, kid, hmac_key) SELECT gen_random_uuid(), 'kid ' || n, '' FROM generate_series(1, 5000) n;
  UPDATE accounts SET eab_credential_id = (SELECT id FROM eab_credentials WHERE kid = 'kid 1') WHERE contacts[1] NOT LIKE '%7@%';
  UPDATE orders SET error = '{}' WHERE status = 'invalid';
  UPDATE accounts SET tags = CASE WHEN contacts[1] LIKE '%77@%' THEN '{team}' ELSE '{most}' END::text[] WHERE status = 'valid';
  ANALYZE`
const LARGE = ['accounts', 'authorizations', 'orders', 'certificates', 'eab_credentials']
const inDays = (days: number) => new Date(Date.now() + days * 86_400_000)

describe('plans of long lists and walks', () => {
  const store = useStores(() => checked.end())
  let checked: DatabasePool
  let spied: DatabasePool
  let spiedPg: Database
  let account: string
  let name: string
  let serialNumber: string
  const sent: { text: string; values: readonly unknown[] }[] = []

  before(async () => {
    await store.sql(FILL)
    checked = await openCheckedDatabase(store.settings)
    type Query = { sql: string; values: readonly unknown[] }
    spied = new Proxy(checked, {
      get(target, method: keyof DatabasePool) {
        const call = target[method] as (query: Query) => unknown
        return (query: Query) => {
          // As slonik sends it.
          sent.push({ text: query.sql.replaceAll('$slonik_', '$'), values: query.values })
          return call.call(target, query)
        }
      },
    })
    const spyOn = (query: Database['query']): Database['query'] => {
      return async <Row>(statement: Statement, values: readonly unknown[]) => {
        sent.push({ text: statement.text, values })
        return query<Row>(statement, values)
      }
    }
    spiedPg = {
      ...store.db,
      query: spyOn(store.db.query),
      transaction: (run) => store.db.transaction((tx) => run({ query: spyOn(tx.query.bind(tx)) })),
    }
    type Row = { account_id: string; name: string; serial_number: string }
    const [row] = await store.sql<Row>(
      "SELECT account_id, names[1] AS name, encode(serial_number, 'hex') AS serial_number FROM certificates LIMIT 1",
    )
    ;({ account_id: account, name, serial_number: serialNumber } = row as Row)
  })

  async function requirePlans(read: () => Promise<unknown>, index: RegExp): Promise<void> {
    sent.length = 0
    await read()
    assert.notEqual(sent.length, 0)
    const plans: string[] = []
    for (const { text, values } of sent.splice(0)) {
      const rows = await store.sql<{ 'QUERY PLAN': string }>(`EXPLAIN ${text}`, [...values])
      plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'))
    }
    for (const plan of plans) {
      for (const table of LARGE) assert.doesNotMatch(plan, new RegExp(`Seq Scan on ${table}\\b`), plan)
    }
    assert.ok(
      plans.some((plan) => index.test(plan)),
      plans.join('\n\n'),
    )
  }

  const certificates = (filter: CertificateFilter, from?: string, sort?: CertificateSort) => () =>
    listCertificates(spied, filter, from, 50, sort)
  const accounts = (filter: Parameters<typeof listAccounts>[1]) => () => listAccounts(spied, filter, undefined, 50)
  const orders = (filter: Parameters<typeof listOrders>[1]) => () => listOrders(spied, filter, undefined, 50)
  const credentials = (after?: string, filter?: Parameters<typeof pagesOfCredentials>[1]) => () =>
    pagesOfCredentials(spied, filter)(after, 50)
  const LISTS: Record<string, [() => Promise<unknown>, RegExp]> = {
    certificates: [certificates({}), /certificates_pkey/],
    'certificates behind a cursor': [certificates({}, newId()), /certificates_pkey/],
    'certificates that are active': [
      certificates({ status: 'active' }, undefined, '-not_after'),
      /certificates_not_after/,
    ],
    'certificates that have expired': [certificates({ status: 'expired' }), /certificates_not_after/],
    'certificates that were revoked': [certificates({ status: 'revoked' }), /certificates_revoked/],
    'certificates by expiry': [
      certificates({ expiring_after: inDays(1), expiring_before: inDays(2) }),
      /certificates_not_after/,
    ],
    'certificates of a key': [certificates({ spki_sha256: 'ab'.repeat(32) }), /certificates_pkey/],
    'certificates of a type of key': [certificates({ key_type: 'RSA-below-3072' }), /certificates_pkey/],
    'certificates by time of issuance': [certificates({ issued_before: inDays(-1) }), /certificates_pkey/],
    'certificates of a profile': [certificates({ profile: 'rare' }), /certificates_pkey/],
    'certificates below a name': [certificates({ domain_suffix: 'x.example' }), /certificates_suffixes/],
    'certificates below a name, in the order of expiry': [
      certificates({ domain_suffix: 'x.example' }, undefined, 'not_after'),
      /certificates_suffixes/,
    ],
    'revoked certificates below a usual name': [
      certificates({ domain_suffix: 'example', status: 'revoked' }),
      /certificates_revoked/,
    ],
    'certificates in the order of expiry': [
      certificates({ profile: 'rare' }, undefined, 'not_after'),
      /certificates_not_after/,
    ],
    'certificates that are not renewed': [
      certificates({ renewed: false, status: 'active' }, undefined, 'not_after'),
      /certificates_names/,
    ],
    'certificates that are active, newest first': [
      certificates({ status: 'active' }, undefined, '-issued_at'),
      /certificates_pkey/,
    ],
    'certificates by fingerprint': [certificates({ fingerprint: '00'.repeat(32) }), /certificates_fingerprint/],
    'a certificate by fingerprint': [
      () => findCertificateByFingerprint(spied, '00'.repeat(32), undefined),
      /certificates_fingerprint/,
    ],
    'accounts by a part of a contact': [accounts({ contact: 'ops' }), /accounts_pkey/],
    'accounts of any credential': [accounts({ eab_only: true }), /accounts_pkey/],
    'accounts by time': [accounts({ created_after: inDays(-2), created_before: inDays(-1) }), /accounts_pkey/],
    orders: [orders({}), /orders_pkey/],
    'accounts of a registrar': [accounts({ scope: ['team'] }), /accounts_tags/],
    'orders of a registrar': [
      orders({ scope: ['team'], status: 'valid' }),
      /accounts_tags[\s\S]*orders_account|orders_account[\s\S]*accounts_tags/,
    ],
    'orders that have failed': [orders({ status: 'invalid' }), /orders_failed/],
    'failed orders of a registrar': [orders({ scope: ['team'], status: 'invalid' }), /orders_failed/],
    'certificates that are muted': [
      certificates({ muted: true, status: 'active' }, undefined, 'not_after'),
      /renewal_mutes/,
    ],
    'certificates of a registrar': [certificates({ scope: ['team'] }), /accounts_tags/],
    'certificates of a registrar behind a cursor, by expiry': [
      certificates({ scope: ['team'], status: 'active' }, newId(), 'not_after'),
      /accounts_tags/,
    ],
    'orders in processing': [orders({ status: 'processing' }), /orders_pkey/],
    accounts: [accounts({}), /accounts_pkey/],
    'accounts that were deactivated': [accounts({ status: 'deactivated' }), /accounts_not_valid/],
    'accounts of a credential, where most are of another': [accounts({ eab_kid: 'kid 7' }), /accounts_eab_credential/],
    'binding credentials': [credentials(), /eab_credentials_pkey/],
    'binding credentials behind a cursor': [credentials(newId()), /eab_credentials_pkey/],
    'a binding credential by its key id': [credentials(undefined, { kid: 'kid 7' }), /eab_credentials_kid_key/],
  }
  for (const [title, [read, index]] of Object.entries(LISTS)) test(title, () => requirePlans(read, index))

  test('certificates of an account', () =>
    requirePlans(certificates({ account_id: account }), /orders_account[\s\S]*certificates_imported/))
  test('certificates by serial number', () =>
    requirePlans(certificates({ serial: serialNumber }), /certificates_serial_issuer/))
  test('certificates by name, in any order and of an account, too', async () => {
    for (const sort of ['-issued_at', 'not_after', '-not_after'] as const)
      await requirePlans(certificates({ domain: name }, newId(), sort), /certificates_names/)
    await requirePlans(certificates({ account_id: account, domain: name }), /certificates_names/)
  })
  test('orders of an account', () => requirePlans(orders({ account_id: account, status: 'valid' }), /orders_account/))

  const readAll = async (read: (after: string | undefined) => Promise<ListPage<{ id: string }>>) => {
    const ids: string[] = []
    for (let after: string | undefined; ; ) {
      const { rows, next } = await read(after)
      ids.push(...rows.map(({ id }) => id))
      if (next === undefined) return ids
      after = next
    }
  }
  for (const tag of ['team', 'most'])
    test(`the pages of a registrar of ${tag} have each certificate and each order of the scope once`, async () => {
      const idsOf = async (text: string) => (await store.sql<{ id: string }>(text, [[tag]])).map(({ id }) => id)
      const scope = [tag]
      for (const [sort, by] of [
        ['not_after', 'c.not_after, c.id'],
        ['-issued_at', 'c.order_id DESC'],
      ] as const) {
        const filter: CertificateFilter = { scope, status: 'active' }
        assert.deepEqual(
          await readAll((after) => listCertificates(checked, filter, after, 5_000, sort)),
          await idsOf(`
            SELECT c.id FROM certificates c JOIN accounts a ON a.id = c.account_id
             WHERE a.tags && $1 AND c.not_after > now() AND c.revoked_at IS NULL ORDER BY ${by}`),
        )
      }
      for (const status of ['valid', 'invalid'] as const) {
        const open = status === 'invalid' ? 'open' : status
        assert.deepEqual(
          await readAll((after) => listOrders(checked, { scope, status }, after, 5_000)),
          await idsOf(`
            SELECT o.id FROM orders o JOIN accounts a ON a.id = o.account_id
             WHERE a.tags && $1 AND o.status IN ('${status}', '${open}') ORDER BY o.id DESC`),
        )
      }
    })

  test('with search indexes: certificates by issuer, key and end of revoked ones, orders by name, accounts by contact', async () => {
    await makeIndexes(checked, SEARCH_INDEXES)
    // Of a usual issuer and of a rare one: by id, the planner would look for 50 among those of all others.
    for (const issuer of ['00', '01']) await requirePlans(certificates({ issuer }), /certificates_issuer/)
    await requirePlans(certificates({ spki_sha256: 'ab'.repeat(32) }), /certificates_spki/)
    for (const sort of ['not_after', '-not_after'] as const)
      await requirePlans(certificates({ status: 'revoked' }, undefined, sort), /certificates_revoked_expiry/)
    await requirePlans(orders({ domain: name }), /orders_names/)
    await requirePlans(orders({ account_id: account, domain: name }), /orders_names/)
    await requirePlans(accounts({ wholeContact: 'mailto:7@contact.example' }), /accounts_contacts/)
  })

  test('whose certificates end soon', () => requirePlans(() => expiringByAccount(spied), /certificates_not_after/))

  test('renewal advice for all and for named certificates', async () => {
    const renewals = createRenewalAdvice(spiedPg)
    const advice = { window: { start: inDays(0), end: inDays(1) }, explanationUrl: undefined }
    await requirePlans(() => renewals.advise({}, advice), /certificates_not_after/)
    await requirePlans(() => renewals.clear({}), /certificates_not_after/)
    const named = { serialNumbers: [Buffer.from(serialNumber, 'hex')] }
    await requirePlans(() => renewals.advise(named, advice), /certificates_serial_issuer/)
  })

  test('pages of retention', async () => {
    const retention = createRetentionStore(spiedPg)
    const walk = { name: 'walk', ageMs: 0, lifetimeMs: 0 }
    const now = new Date()
    await requirePlans(() => retention.ordersClosedUntil(0, now), /orders_pkey/)
    await requirePlans(() => retention.deleteOrders(walk, now), /orders_pkey/)
    await requirePlans(
      () => retention.deleteAuthorizations({ ...walk, name: 'other' }, now, now),
      /authorizations_pkey/,
    )
  })
})
