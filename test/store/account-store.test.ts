/** SQL of accounts on a real database: batches, guards, races. */

import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { describe, test } from 'node:test'
import { BatcherFull } from '../../src/shared/lib/batcher.ts'
import { hashSpki } from '../../src/shared/pki/algorithms.ts'
import { type AccountKeyPolicy, CERTIFICATE_KEYS, parseAccountKey } from '../../src/shared/protocol/jwk.ts'
import { STALE_ACCOUNT } from '../../src/store/account-store.ts'
import { revokeAccountsOfBlockedKeys } from '../../src/store/blocked-key-list.ts'
import { MAX_OF_KEY } from '../../src/store/database.ts'
import { each } from '../support/each.ts'
import { publicJwk } from '../support/jwk.ts'
import {
  aNewAccount,
  aNewOrder,
  anAccount,
  anOrder,
  aReadyOrder,
  newId,
  requesterOf,
  type StoreFixture,
  useStores,
} from './support.ts'

const ANY_KEY: AccountKeyPolicy = { ...CERTIFICATE_KEYS, minRsaBits: 1024 }

describe('accounts', () => {
  const store = useStores()

  const lockAccount = (id: string) => ({ text: 'SELECT FROM accounts WHERE id = $1 FOR UPDATE', values: [id] })

  test('an account is found by id and by thumbprint as it was made', async () => {
    const { account } = await anAccount(store, { contacts: ['mailto:a@example.com', 'mailto:"b,{}\\"@example.com'] })
    assert.deepEqual(await store.accounts.find(account.id), account)
    assert.deepEqual(await store.accounts.findByThumbprint(account.thumbprint), account)
    assert.equal(account.status, 'valid')
    assert.equal(account.keyVersion, 1)
  })

  test('one is found by its key, of any kind, as certificates are (RFC 5280 §4.1.2.7)', async () => {
    const pairs = [
      ...['P-256', 'P-384', 'P-521'].map((namedCurve) => generateKeyPairSync('ec', { namedCurve })),
      generateKeyPairSync('ed25519'),
      ...[1024, 2048, 4096].map((modulusLength) => generateKeyPairSync('rsa', { modulusLength })),
      generateKeyPairSync('rsa', { modulusLength: 2048, publicExponent: 0x80000001 }),
    ]
    for (const { publicKey } of pairs) {
      const { jwk, spki } = parseAccountKey(publicJwk(publicKey), ANY_KEY)
      const [row] = await store.sql<{ hash: Buffer }>('SELECT account_spki_sha256($1) AS hash', [jwk])
      assert.deepEqual(row?.hash, hashSpki({ der: spki() }), jwk)
    }
    const none = await store.sql(
      `SELECT account_spki_sha256(jwk) AS hash FROM (VALUES ('{}'), ('{"kty":"oct"}')) AS i (jwk)`,
    )
    assert.deepEqual(none, [{ hash: null }, { hash: null }])
  })

  test('a key that is blocked ends its account with what that has validated, and no other (RFC 8555 §7.3.6)', async () => {
    const keys = [1, 2].map(() => parseAccountKey(publicJwk(generateKeyPairSync('ed25519').publicKey), ANY_KEY))
    const [leaked, other] = await Promise.all(
      keys.map(
        async ({ jwk, thumbprint }) => (await store.accounts.create({ ...aNewAccount(), jwk, thumbprint })).account,
      ),
    )
    const order = await aReadyOrder(store, requesterOf(leaked!))
    await store.sql('INSERT INTO blocked_keys (spki_sha256) VALUES ($1), ($2)', [
      hashSpki({ der: keys[0]!.spki() }),
      Buffer.alloc(32),
    ])
    assert.equal((await store.accounts.find(leaked!.id))?.status, 'revoked')
    assert.equal((await store.accounts.find(other!.id))?.status, 'valid')
    const rows = await store.sql('SELECT status FROM authorizations WHERE id = ANY ($1)', [order.authorizationIds])
    assert.deepEqual(rows, [{ status: 'deactivated' }])
    await store.sql("UPDATE accounts SET status = 'valid' WHERE id = $1", [leaked!.id])
    assert.equal(await revokeAccountsOfBlockedKeys(store.db), 1, 'as after a migration')

    // Debian's weak keys fill many pages; one statement for all of them took longer than a short server.timeout.
    await store.sql(
      "INSERT INTO blocked_keys (spki_sha256) SELECT '\\x00' || sha256(int4send(n)) FROM generate_series(1, 5000) n",
    )
    await store.sql("UPDATE accounts SET status = 'valid' WHERE id = $1", [leaked!.id])
    let statements = 0
    const counting: Pick<typeof store.db, 'query'> = {
      query: (statement, values) => {
        statements++
        return store.db.query(statement, values)
      },
    }
    assert.equal(await revokeAccountsOfBlockedKeys(counting), 1)
    assert.equal(statements, 3)
  })

  test('look-ups of one batch each get their own answer, unknown ids and repeats included', async () => {
    const { account: first } = await anAccount(store)
    const { account: second } = await anAccount(store)
    const found = await Promise.all([second.id, newId(), first.id, second.id].map((id) => store.accounts.find(id)))
    assert.deepEqual(
      found.map((account) => account?.id),
      [second.id, undefined, first.id, second.id],
    )
    const byKey = await Promise.all(['none', first.thumbprint].map((key) => store.accounts.findByThumbprint(key)))
    assert.deepEqual(
      byKey.map((account) => account?.id),
      [undefined, first.id],
    )
  })

  // RFC 8555 §7.3.1: a second new-account with the same key returns the account that is there.
  test('creations with one key in one batch make one account', async () => {
    const wanted = aNewAccount()
    const results = await Promise.all(
      Array.from({ length: 8 }, () => store.accounts.create({ ...wanted, id: newId() })),
    )
    assert.equal(results.filter(({ created }) => created).length, 1)
    assert.equal(new Set(results.map(({ account }) => account.id)).size, 1)
  })

  test('creations with one key by two instances make one account', async () => {
    const keys = Array.from({ length: 20 }, () => aNewAccount())
    const attempt = (instance: StoreFixture['other']) =>
      Promise.all(keys.map((wanted) => instance.accounts.create({ ...wanted, id: newId() })))
    const [mine, others] = await Promise.all([attempt(store), attempt(store.other)])
    for (const [i, { created, account }] of mine.entries()) {
      assert.notEqual(created, others[i]?.created, 'created is true for exactly one of the two')
      assert.equal(account.id, others[i]?.account.id)
    }
  })

  test('batches of two instances with the same keys in opposite orders do not block each other for good', async () => {
    for (let round = 0; round < 5; round++) {
      const keys = Array.from({ length: 60 }, () => aNewAccount())
      const creations = [
        ...keys.map((wanted) => store.accounts.create({ ...wanted, id: newId() })),
        ...keys.toReversed().map((wanted) => store.other.accounts.create({ ...wanted, id: newId() })),
      ]
      const results = await Promise.all(creations)
      assert.equal(results.filter(({ created }) => created).length, keys.length)
    }
  })

  test('a row that the database refuses fails alone', async () => {
    const results = await Promise.allSettled([
      store.accounts.create(aNewAccount()),
      store.accounts.create(aNewAccount({ jwk: 'with a \u0000' })),
      store.accounts.create(aNewAccount({ id: 'not a uuid' })),
      store.accounts.create(aNewAccount()),
    ])
    assert.deepEqual(each(results, 'status'), ['fulfilled', 'rejected', 'rejected', 'fulfilled'])
    const lookups = await Promise.allSettled([store.accounts.find('not a uuid'), store.accounts.find(newId())])
    assert.deepEqual(each(lookups, 'status'), ['rejected', 'fulfilled'])
  })

  test('contacts are replaced, and only by a valid account with its current key', async () => {
    const { account, requester } = await anAccount(store, { contacts: ['mailto:old@example.com'] })
    const changed = await store.accounts.updateContacts(requester, ['mailto:new@example.com'])
    assert.deepEqual(changed?.contacts, ['mailto:new@example.com'])
    assert.deepEqual((await store.accounts.find(account.id))?.contacts, ['mailto:new@example.com'])
    assert.equal(await store.accounts.updateContacts({ ...requester, keyVersion: 2 }, []), undefined)
    assert.deepEqual((await store.accounts.updateContacts(requester, []))?.contacts, [])
    await store.accounts.deactivate(requester)
    assert.equal(await store.accounts.updateContacts(requester, ['mailto:late@example.com']), undefined)
  })

  test('changes of one account at once wait for each other in a short line, and beyond it are refused', async () => {
    const { requester } = await anAccount(store)
    const { requester: other } = await anAccount(store)
    const many = Array.from({ length: 50 }, (_, i) =>
      store.accounts.updateContacts(requester, [`mailto:${i}@example.com`]),
    )
    const beside = store.accounts.updateContacts(other, ['mailto:beside@example.com'])
    const results = await Promise.allSettled(many)
    const made = results.filter(({ status }) => status === 'fulfilled').length
    assert.ok(made >= 1 && made <= MAX_OF_KEY, `${made} changes were accepted at once`)
    assert.ok(results.every((result) => result.status === 'fulfilled' || result.reason instanceof BatcherFull))
    assert.deepEqual((await beside)?.contacts, ['mailto:beside@example.com'])
    assert.deepEqual((await store.accounts.find(requester.accountId))?.contacts, [`mailto:${made - 1}@example.com`])

    const ends = await Promise.allSettled(Array.from({ length: 50 }, () => store.accounts.deactivate(requester)))
    assert.equal(ends.filter((end) => end.status === 'fulfilled' && end.value).length, 1)
    const refused = ends.filter((end) => end.status === 'rejected' && end.reason instanceof BatcherFull)
    assert.ok(refused.length >= 50 - MAX_OF_KEY, `${refused.length} were refused`)
  })

  test('changes of several accounts in one batch each get their own answer', async () => {
    const accounts = await Promise.all(Array.from({ length: 5 }, () => anAccount(store)))
    const contacts = ['mailto:first@example.com', 'mailto:"a,{}\\"@example.com']
    const changed = await Promise.all(
      accounts.map(({ requester }, i) =>
        store.accounts.updateContacts(i === 2 ? { ...requester, keyVersion: 9 } : requester, contacts.slice(i % 3)),
      ),
    )
    assert.deepEqual(
      changed.map((account) => account && [account.id, account.contacts]),
      accounts.map(({ account }, i) => (i === 2 ? undefined : [account.id, contacts.slice(i % 3)])),
    )
    const [one, two, three] = accounts as [(typeof accounts)[0], (typeof accounts)[0], (typeof accounts)[0]]
    const held = await aReadyOrder(store, two.requester)
    const gone = await Promise.all([one, two].map(({ requester }) => store.accounts.deactivate(requester)))
    assert.deepEqual(
      gone.map((account) => account && [account.id, account.status]),
      [one, two].map(({ account }) => [account.id, 'deactivated']),
    )
    assert.equal((await store.accounts.find(three.account.id))?.status, 'valid')
    const rows = await store.sql('SELECT status FROM authorizations WHERE id = ANY ($1)', [held.authorizationIds])
    assert.ok(rows.every((row) => row['status'] === 'deactivated'))
  })

  test('deactivation takes the valid authorizations along and is final', async () => {
    const { account, requester } = await anAccount(store)
    const order = await aReadyOrder(store, requester)
    assert.equal((await store.accounts.deactivate(requester))?.status, 'deactivated')
    assert.equal(await store.accounts.deactivate(requester), undefined)
    assert.equal((await store.accounts.find(account.id))?.status, 'deactivated')
    const [row] = await store.sql('SELECT status FROM authorizations WHERE id = ANY ($1)', [order.authorizationIds])
    assert.equal(row?.['status'], 'deactivated')
    assert.equal(await store.orders.find({ requester, orderId: order.id }), STALE_ACCOUNT)
    await assert.rejects(anOrder(store.other, requester), /stale/)
  })

  test('deactivation by two instances: one wins', async () => {
    const { account, requester } = await anAccount(store)
    const results = await store.meetAt(lockAccount(account.id), 2, () =>
      Promise.all([store.accounts.deactivate(requester), store.other.accounts.deactivate(requester)]),
    )
    assert.equal(results.filter((result) => result !== undefined).length, 1)
  })

  test('a deactivated account is still found by its key, and its key makes no second account', async () => {
    const { account, requester } = await anAccount(store)
    await store.accounts.deactivate(requester)
    const again = await store.accounts.create(aNewAccount({ thumbprint: account.thumbprint, jwk: account.jwk }))
    assert.equal(again.created, false)
    assert.equal(again.account.status, 'deactivated')
  })

  describe('key change (RFC 8555 §7.3.5)', () => {
    const aKey = () => {
      const { jwk, thumbprint } = aNewAccount()
      return { jwk, thumbprint }
    }

    test('gives the account its new key and makes the old version stale', async () => {
      const { account, requester } = await anAccount(store)
      const key = aKey()
      const changed = await store.accounts.changeKey(requester, key)
      assert.deepEqual(changed, { ...account, ...key, keyVersion: 2 })
      assert.equal(await store.accounts.findByThumbprint(account.thumbprint), undefined)
      assert.equal(await store.orders.create(aNewOrder(requester)), STALE_ACCOUNT)
    })

    test('to the key of another account, or to its own, names the holder', async () => {
      const { account, requester } = await anAccount(store)
      const { account: holder } = await anAccount(store)
      assert.deepEqual(await store.accounts.changeKey(requester, holder), { taken: holder.id })
      assert.deepEqual(await store.accounts.changeKey(requester, account), { taken: account.id })
    })

    test('by an old key version or a deactivated account is stale, whoever has the new key', async () => {
      const { requester } = await anAccount(store)
      const { account: holder } = await anAccount(store)
      assert.equal(await store.accounts.changeKey({ ...requester, keyVersion: 7 }, holder), undefined)
      await store.accounts.deactivate(requester)
      assert.equal(await store.accounts.changeKey(requester, aKey()), undefined)
      assert.equal(await store.accounts.changeKey(requester, holder), undefined)
    })

    test('of one account by two instances: one wins, the other is stale', async () => {
      const { account, requester } = await anAccount(store)
      const keys = [aKey(), aKey()] as const
      const [mine, others] = await store.meetAt(lockAccount(account.id), 2, () =>
        Promise.all([store.accounts.changeKey(requester, keys[0]), store.other.accounts.changeKey(requester, keys[1])]),
      )
      assert.equal([mine, others].filter((result) => result === undefined).length, 1)
      assert.equal((await store.accounts.find(account.id))?.keyVersion, 2)
    })

    test('of two accounts to one key by two instances: one wins, the other learns the holder', async () => {
      const { account: first } = await anAccount(store)
      const { account: second } = await anAccount(store)
      const key = aKey()
      const [a, b] = await store.meetAt(
        { text: 'SELECT FROM accounts WHERE id = ANY ($1) FOR UPDATE', values: [[first.id, second.id]] },
        2,
        () =>
          Promise.all([
            store.accounts.changeKey(requesterOf(first), key),
            store.other.accounts.changeKey(requesterOf(second), key),
          ]),
      )
      const holder = await store.accounts.findByThumbprint(key.thumbprint)
      const taken = [a, b].filter((result) => result && 'taken' in result)
      assert.deepEqual(taken, [{ taken: holder?.id }])
    })

    test('at the same time as new-account with that key gives the key to one account', async () => {
      const { account } = await anAccount(store)
      const wanted = aNewAccount()
      const [changed, made] = await Promise.all([
        store.accounts.changeKey(requesterOf(account), wanted),
        store.other.accounts.create(wanted),
      ])
      const holders = await store.sql('SELECT id FROM accounts WHERE thumbprint = $1', [wanted.thumbprint])
      assert.equal(holders.length, 1)
      assert.equal(made.account.id, holders[0]?.['id'])
      if (made.created) assert.deepEqual(changed, { taken: wanted.id })
      else assert.equal(changed && 'id' in changed && changed.id, account.id)
    })
  })
})
