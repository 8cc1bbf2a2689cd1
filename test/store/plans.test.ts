/**
 * Plans of the hot statements: on new and empty tables each goes by keys alone, because a connection keeps the plans it has
 * made while the tables grow; and on tables that are large enough for the planner to care each uses the indexes that its
 * comment names, for the values at hand and in the generic plan that a prepared statement ends up with.
 */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import type { Requester } from '../../src/store/account-store.ts'
import type { Database, Statement } from '../../src/store/database.ts'
import {
  aCandidate,
  aNewAccount,
  aNewOrder,
  anAccount,
  anIntent,
  anIssued,
  aReadyOrder,
  newId,
  preAuthorizing,
  type Stores,
  storesOn,
  useStores,
} from './support.ts'

/** Rows beside the few that a test works with. */
const FILL = `
  INSERT INTO accounts (id, thumbprint, jwk)
    SELECT gen_random_uuid(), 'thumbprint ' || n, '{}' FROM generate_series(1, 5000) n;
  INSERT INTO authorizations (id, account_id, identifier_type, identifier_value, wildcard, status, expires_at, token, offered)
    SELECT gen_random_uuid(), a.id, 'dns', 'host' || n || '.example', false, (ARRAY['valid', 'pending', 'invalid'])[1 + n % 3],
           now() + interval '1 day', 'token', '{http-01}'
      FROM accounts a, generate_series(1, 4) n;
  INSERT INTO orders (id, account_id, identifiers, authorization_ids, profile, expires_at, status)
    SELECT gen_random_uuid(), account_id, '[]', ARRAY[id], 'default', expires_at, (ARRAY['open', 'valid'])[1 + (random() < 0.5)::integer]
      FROM authorizations;
  INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
    SELECT gen_random_uuid(), account_id, id, decode(md5(id::text), 'hex'), '\\x00', '{}', now(), now(), '\\x00' FROM orders o
     WHERE NOT EXISTS (SELECT FROM certificates c WHERE c.order_id = o.id);
  INSERT INTO blocked_keys (spki_sha256) SELECT decode(md5(n::text), 'hex') FROM generate_series(1, 5000) n;
  INSERT INTO issuance_intents (certificate_id, order_id, serial_number, issuer_fingerprint, issuer_id, tbs, instance_id)
    SELECT gen_random_uuid(), gen_random_uuid(), '\\x01', '\\x00', 'default', '\\x00', 1 FROM generate_series(1, 3000);
  ANALYZE`

const LARGE = ['accounts', 'authorizations', 'orders', 'certificates', 'blocked_keys', 'issuance_intents']

describe('plans', () => {
  const store = useStores()
  let spied: Stores
  let requester: Requester
  let generic: boolean
  const sent: { statement: Statement; values: readonly unknown[] }[] = []

  before(async () => {
    const spying: Database = {
      ...store.db,
      async query(statement, values) {
        sent.push({ statement, values })
        return store.db.query(statement, values)
      },
      pipeline: {
        ...store.db.pipeline,
        async run(statement, values) {
          sent.push({ statement, values })
          return store.db.pipeline.run(statement, values)
        },
      },
    }
    spied = storesOn(spying)
    requester = (await anAccount(store)).requester
    const [version] = await store.sql<{ v: number }>("SELECT current_setting('server_version_num')::integer AS v")
    generic = (version?.v ?? 0) >= 160_000
  })

  async function plansOf({ statement, values }: (typeof sent)[number]): Promise<string[]> {
    const read = async (text: string, given: unknown[]) =>
      (await store.sql<{ 'QUERY PLAN': string }>(text, given)).map((row) => row['QUERY PLAN']).join('\n')
    const plans = [await read(`EXPLAIN ${statement.text}`, [...values])]
    // PostgreSQL 16 and newer plan without values.
    if (generic) plans.push(await read(`EXPLAIN (GENERIC_PLAN) ${statement.text}`, []))
    return plans
  }

  /** The statement of this name that a command sends. */
  async function sentBy(name: string, command: () => Promise<unknown>) {
    sent.length = 0
    await command()
    return sent.find(({ statement }) => statement.name === name) ?? assert.fail(`${name} was not sent`)
  }

  async function requireIndexes(name: string, command: () => Promise<unknown>, indexes: string): Promise<void> {
    for (const plan of await plansOf(await sentBy(name, command))) {
      for (const index of indexes.split(' ')) assert.match(plan, new RegExp(`\\b${index}\\b`), plan)
      for (const table of LARGE) assert.doesNotMatch(plan, new RegExp(`Seq Scan on ${table}\\b`), plan)
    }
  }

  const authorizationId = async () => (await aReadyOrder(store, requester)).authorizationIds[0] as string
  const anOrderFor = async () => ({ id: (await aReadyOrder(store, requester)).id, requester })
  async function begun() {
    const intent = anIntent(await anOrderFor())
    await store.issuance.begin(intent)
    return intent
  }

  const CASES: Record<string, [command: () => Promise<unknown>, indexes?: string]> = {
    'account-find': [() => spied.accounts.find(requester.accountId), 'accounts_pkey'],
    'account-find-by-thumbprint': [() => spied.accounts.findByThumbprint('thumbprint 7'), 'accounts_thumbprint_key'],
    'account-agree-to-terms': [() => spied.accounts.agreeToTerms(requester.accountId, '1'), 'accounts_pkey'],
    'account-create': [() => spied.accounts.create(aNewAccount()), 'blocked_keys_pkey'],
    'account-update-contacts': [() => spied.accounts.updateContacts(requester, []), 'accounts_pkey'],
    'account-deactivate': [
      async () => spied.accounts.deactivate((await anAccount(store)).requester),
      'accounts_pkey authorizations_reusable',
    ],
    'account-change-key': [
      async () => spied.accounts.changeKey((await anAccount(store)).requester, aNewAccount()),
      'accounts_pkey accounts_thumbprint_key',
    ],
    'order-create': [() => spied.orders.create(aNewOrder(requester)), 'accounts_pkey authorizations_reusable'],
    'order-find': [
      async () => spied.orders.find({ requester, orderId: (await anOrderFor()).id }),
      'accounts_pkey orders_pkey authorizations_pkey',
    ],
    'order-list': [
      () => spied.orders.list(requester, undefined, 50),
      'accounts_pkey orders_account authorizations_pkey',
    ],
    'authorization-find': [
      async () => spied.authorizations.find({ requester, authorizationId: await authorizationId() }),
      'accounts_pkey authorizations_pkey',
    ],
    'authorization-create': [
      () => spied.authorizations.create(preAuthorizing(requester, aCandidate())),
      'accounts_pkey authorizations_reusable',
    ],
    'authorization-deactivate': [
      async () => spied.authorizations.deactivate(requester, await authorizationId()),
      'accounts_pkey authorizations_pkey',
    ],
    'challenge-trigger': [
      async () =>
        spied.authorizations.trigger({
          requester,
          authorizationId: await authorizationId(),
          type: 'dns-01',
          instanceId: 1,
        }),
      'accounts_pkey authorizations_pkey',
    ],
    'challenge-record-attempt': [
      async () =>
        spied.authorizations.recordAttempt({
          authorizationId: await authorizationId(),
          type: 'http-01',
          attempt: { status: 'valid', tries: 0 },
          outcome: 'valid',
          instanceId: 1,
        }),
      'authorizations_pkey accounts_pkey',
    ],
    'challenge-release': [() => spied.authorizations.release(1), 'authorizations_validating'],
    'challenge-adopt': [
      () => spied.authorizations.adopt(1, { types: ['http-01'], staleSeconds: 600, limit: 10 }),
      'authorizations_validating accounts_pkey',
    ],
    'challenge-overdue': [() => spied.authorizations.overdue(1), 'authorizations_validating'],
    'challenge-readopt': [
      async () => spied.authorizations.readopt(1, [await authorizationId()]),
      // What is being validated at all may be less than what was asked for.
      '(?:authorizations_pkey|authorizations_validating) accounts_pkey',
    ],
    'challenge-renew': [
      async () => spied.authorizations.renew({ authorizationId: await authorizationId(), instanceId: 1 }),
      'authorizations_pkey',
    ],
    'issuance-begin': [
      async () => spied.issuance.begin(anIntent(await anOrderFor())),
      // Both columns of orders_account are given: one row, like orders_pkey.
      'accounts_pkey (?:orders_pkey|orders_account) authorizations_pkey blocked_keys_pkey',
    ],
    'issuance-complete': [
      async () => spied.issuance.complete(anIssued(await begun())),
      'issuance_intents_pkey orders_pkey',
    ],
    'issuance-fail': [
      async () =>
        spied.issuance.fail((await begun()).certificateId, { type: 'about:blank', detail: 'no', status: 500 }),
      'issuance_intents_pkey orders_pkey',
    ],
    'certificate-find': [
      () => spied.certificates.find({ requester, certificateId: newId() }),
      'accounts_pkey certificates_pkey',
    ],
    'certificate-find-by-serial': [
      () => spied.certificates.findBySerial(Buffer.alloc(16, 1)),
      'certificates_serial_issuer',
    ],
    'certificate-authorized-names': [
      () => spied.certificates.isAuthorizedForAll(requester.accountId, ['host1.example', 'host2.example']),
      'authorizations_reusable',
    ],
    'certificate-revoke': [
      () => spied.certificates.revoke({ certificateId: newId(), reason: 0, blockedKey: Buffer.alloc(32), requester }),
      'certificates_pkey accounts_pkey',
    ],
    'blocked-key-find': [() => spied.certificates.isKeyBlocked(Buffer.alloc(32)), 'blocked_keys_pkey'],
  }
  describe('on empty tables', () => {
    // As many rows as there are challenges in processing: read whole.
    const WHOLE = /on authorizations_validating/
    for (const [name, [command]] of Object.entries(CASES)) {
      test(`${name} looks nothing up but by key`, async (t) => {
        if (!generic) return t.skip('PostgreSQL before 16 shows no plan without values')
        const found = await sentBy(name, command)
        const rows = await store.db.query<{ 'QUERY PLAN': string }>(
          { name: `explain-${name}`, text: `EXPLAIN (GENERIC_PLAN) ${found.statement.text}` },
          found.values.map(() => null),
        )
        const plan = rows.map((row) => row['QUERY PLAN'])
        for (const [at, line] of plan.entries()) {
          if (/Index (Only )?Scan/.test(line) && !WHOLE.test(line))
            assert.match(plan[at + 1] ?? '', /Index Cond/, plan.join('\n'))
          assert.doesNotMatch(line, /Seq Scan/, plan.join('\n'))
        }
      })
    }
  })

  describe('on large tables', () => {
    before(() => store.sql(FILL))
    for (const [name, [command, indexes = '']] of Object.entries(CASES))
      test(`${name}: ${indexes || 'no scan'}`, () => requireIndexes(name, command, indexes))

    test('an authorization is reused without sorting the valid ones of its name', async () => {
      const candidate = aCandidate()
      for (const statement of [
        await sentBy('order-create', () => spied.orders.create(aNewOrder(requester))),
        await sentBy('authorization-create', () => spied.authorizations.create(preAuthorizing(requester, candidate))),
      ])
        for (const plan of await plansOf(statement)) {
          const [scan = '', condition = ''] = plan.slice(plan.indexOf('Index Scan Backward using')).split('\n')
          assert.match(scan, /authorizations_reusable/, plan)
          assert.match(condition, /account_id .*identifier_value .*wildcard .*expires_at >/, plan)
        }
    })

    test('batches as large as they get are planned alike', async () => {
      const ids = (await store.sql<{ id: string }>('SELECT id FROM orders LIMIT 128')).map(({ id }) => id)
      await requireIndexes(
        'order-find',
        () => Promise.all(ids.map((orderId) => spied.orders.find({ requester, orderId }))),
        'orders_pkey authorizations_pkey',
      )
      await requireIndexes(
        'order-create',
        () => Promise.all(ids.map(() => spied.orders.create(aNewOrder(requester)))),
        'authorizations_reusable',
      )
    })
  })
})
