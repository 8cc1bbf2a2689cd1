/** SQL of binding credentials on a real database: one use, races with registration and revocation, what is handed on. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { CredentialRow } from '../../src/admin/eab/credential-store.ts'
import {
  changeNames,
  NAME_OF_ACCOUNT,
  NAME_OF_CREDENTIAL,
  PROFILE_OF_ACCOUNT,
  PROFILE_OF_CREDENTIAL,
} from '../../src/admin/grants/grants.ts'
import { createAllowlistStore } from '../../src/store/account-rules-store.ts'
import type { NewAccount } from '../../src/store/account-store.ts'
import type { Database } from '../../src/store/database.ts'
import { createEabStore, type EabStore } from '../../src/store/eab-store.ts'
import { each } from '../support/each.ts'
import { until } from '../support/until.ts'
import { type Grants, openGrants } from './grants.ts'
import {
  aName,
  aNewAccount,
  anAccount,
  anOrder,
  newId,
  requesterOf,
  type StoreFixture,
  useStores,
  winners,
} from './support.ts'

const busy = (db: Database) => db.pressure().size - db.pressure().available

/** Lists as the domain reads them, without the ids of their entries. */
function listsOf({ db }: StoreFixture) {
  const { find } = createAllowlistStore(db)
  return { find: async (id: string) => (await find(id)).map(({ type, value }) => ({ type, value })) }
}

describe('binding credentials', () => {
  const store = useStores(() => grants.end())
  let eab: EabStore
  /** Of a second instance. */
  let otherEab: EabStore
  let allowlists: ReturnType<typeof listsOf>
  let grants: Grants
  before(async () => {
    eab = createEabStore(store.db)
    otherEab = createEabStore(store.otherDb)
    allowlists = listsOf(store)
    grants = await openGrants(store.settings)
  })

  const binding = { protected: 'aa', payload: 'bb', signature: 'cc' }
  const aCredential = () => grants.credential()

  const register = (instance: EabStore, credential: CredentialRow, account: NewAccount, reusable = false) =>
    instance.register({ account, credentialId: credential.id, binding, reusable })

  const lockCredential = ({ id }: CredentialRow) => ({
    text: 'SELECT FROM eab_credentials WHERE id = $1 FOR UPDATE',
    values: [id],
  })

  const aProfile = () => grants.profile()

  const allowToCredential = (id: string, value: string) =>
    changeNames(NAME_OF_CREDENTIAL, grants.audit, grants.actor, id, { allow: [value] })

  const profileOf = async (accountId: string) =>
    (await store.sql('SELECT csr_profile_id FROM account_csr_profiles WHERE account_id = $1', [accountId]))[0]
      ?.csr_profile_id

  test('look-ups of one batch each get their own answer, unknown kids and repeats included', async () => {
    const [one, two] = [await aCredential(), await aCredential()]
    const found = await Promise.all([two.kid, 'nobody', one.kid, two.kid].map((kid) => eab.findForVerification(kid)))
    assert.deepEqual(
      found.map((credential) => credential?.id),
      [two.id, undefined, one.id, two.id],
    )
  })

  test('registration makes the account with its binding and uses the credential up', async () => {
    const credential = await aCredential()
    const account = aNewAccount({ contacts: ['mailto:a@example.com'] })
    assert.equal(await register(eab, credential, account), true)
    const found = await store.accounts.find(account.id)
    assert.deepEqual(found, { ...account, status: 'valid', keyVersion: 1, externalAccountBinding: binding })
    const used = await grants.find(credential.kid)
    assert.equal(used?.used, true)
    assert.equal(used?.account_id, account.id)
    assert.ok(used?.used_at instanceof Date)
    assert.equal(await register(eab, credential, aNewAccount()), false)
  })

  test('of two instances that register with one credential at once, one makes an account', async () => {
    const credential = await aCredential()
    const accounts = Array.from({ length: 4 }, () => aNewAccount())
    const outcomes = await store.meetAt(lockCredential(credential), 2, () =>
      Promise.all(accounts.map((account, index) => register(index % 2 ? eab : otherEab, credential, account))),
    )
    assert.equal(winners(outcomes), 1)
    const made = await Promise.all(accounts.map(({ id }) => store.accounts.find(id)))
    assert.deepEqual(made.map(Boolean), outcomes)
    assert.equal((await grants.find(credential.kid))?.account_id, accounts[outcomes.indexOf(true)]?.id)
  })

  test('twenty registrations at once with one credential take one connection, and all are answered', async () => {
    const credential = await aCredential()
    const accounts = Array.from({ length: 20 }, () => aNewAccount())
    const locker = new pg.Client({ ...store.settings, host: store.settings.hosts[0] })
    await locker.connect()
    await locker.query('BEGIN')
    const { text, values } = lockCredential(credential)
    await locker.query(text, values)
    const registering = Promise.all(accounts.map((account) => register(eab, credential, account, true)))
    // A connection counts as busy after a second.
    await until('a connection is busy', () => busy(store.db) === 1)
    await sleep(1_000)
    assert.deepEqual([busy(store.db), store.db.pressure().waiting], [1, 0])
    await locker.query('COMMIT')
    await locker.end()
    const outcomes = await registering
    assert.equal(winners(outcomes), 20)
  })

  test('a reusable credential makes an account for each of them, and names the last', async () => {
    const credential = await aCredential()
    const accounts = Array.from({ length: 4 }, () => aNewAccount())
    const outcomes = await store.meetAt(lockCredential(credential), 2, () =>
      Promise.all(accounts.map((account, index) => register(index % 2 ? eab : otherEab, credential, account, true))),
    )
    assert.equal(winners(outcomes), 4)
    const last = (await grants.find(credential.kid))?.account_id
    assert.ok(accounts.some(({ id }) => id === last))
  })

  test('a key that has an account uses no credential up, also when two credentials race for one key', async () => {
    const { account: existing } = await anAccount(store)
    const credential = await aCredential()
    assert.equal(await register(eab, credential, aNewAccount({ thumbprint: existing.thumbprint })), false)
    assert.equal((await grants.find(credential.kid))?.used, false)

    const wanted = aNewAccount()
    const two = [await aCredential(), await aCredential()]
    const outcomes = await Promise.all(
      two.map((one, index) => register(index ? eab : otherEab, one, { ...wanted, id: newId() })),
    )
    assert.equal(winners(outcomes), 1)
    const used = await Promise.all(two.map(async ({ kid }) => (await grants.find(kid))?.used))
    assert.deepEqual(used, outcomes)
  })

  test('an existing account is never bound: its row is as it was', async () => {
    const { account } = await anAccount(store)
    await register(eab, await aCredential(), aNewAccount({ thumbprint: account.thumbprint }), true)
    assert.deepEqual(await store.accounts.find(account.id), account)
  })

  test('an account that registers while its credential is being revoked is either refused or revoked', async () => {
    for (let round = 0; round < 6; round++) {
      const credential = await aCredential()
      const account = aNewAccount()
      const [made, revocation] = await store.meetAt(lockCredential(credential), 2, () =>
        round % 2
          ? Promise.all([register(eab, credential, account), grants.revoke(credential.id)])
          : Promise.all([grants.revoke(credential.id), register(eab, credential, account)]).then(
              ([revoked, registered]) => [registered, revoked] as const,
            ),
      )
      const found = await store.accounts.find(account.id)
      assert.equal(found?.status, made ? 'revoked' : undefined)
      assert.deepEqual(revocation?.revokedAccounts, made ? [account.id] : [])
    }
  })

  test('revocation takes valid accounts and their authorizations, and names them once', async () => {
    const credential = await aCredential()
    const [first, second] = [aNewAccount(), aNewAccount()]
    for (const account of [first, second]) await register(eab, credential, account, true)
    const found = await store.accounts.find(first.id)
    assert.ok(found)
    const order = await anOrder(store, requesterOf(found))
    const deactivated = await store.accounts.find(second.id)
    assert.ok(deactivated)
    await store.accounts.deactivate(requesterOf(deactivated))

    const revocation = await grants.revoke(credential.id)
    assert.deepEqual(revocation?.linkedAccounts, [first.id])
    assert.deepEqual(revocation?.revokedAccounts, [first.id])
    assert.equal(revocation?.credential.revoked, true)
    assert.equal((await store.accounts.find(second.id))?.status, 'deactivated')
    const rows = await store.sql('SELECT status FROM authorizations WHERE id = ANY ($1)', [order.authorizationIds])
    assert.deepEqual(rows, [{ status: 'deactivated' }])

    const again = await grants.revoke(credential.id)
    assert.deepEqual(again?.linkedAccounts, [])
    assert.equal(await grants.revoke(newId()), null)
    assert.equal(await register(eab, credential, aNewAccount(), true), false)
  })

  test('identifiers and CSR profile of the credential are handed on at registration', async () => {
    const credential = await aCredential()
    const name = aName()
    await allowToCredential(credential.id, name)
    const profile = await aProfile()
    await PROFILE_OF_CREDENTIAL.give(grants.audit, grants.actor, profile, credential.id)
    const account = aNewAccount()
    await register(eab, credential, account)
    assert.deepEqual(await allowlists.find(account.id), [{ type: 'dns', value: name }])
    assert.equal(await profileOf(account.id), profile)
  })

  test('what a credential gets while an account registers with it, the account gets', async () => {
    for (let round = 0; round < 4; round++) {
      const credential = await aCredential()
      const account = aNewAccount()
      const name = aName()
      const profile = await aProfile()
      const outcomes = await store.meetAt(lockCredential(credential), 3, () =>
        Promise.all([
          register(otherEab, credential, account),
          allowToCredential(credential.id, name),
          PROFILE_OF_CREDENTIAL.give(grants.audit, grants.actor, profile, credential.id),
        ]),
      )
      assert.equal(outcomes[0], true)
      assert.deepEqual(await allowlists.find(account.id), [{ type: 'dns', value: name }])
      assert.equal(await profileOf(account.id), profile)
    }
  })

  test("an account's own profile stays when its credential gets another", async () => {
    const credential = await aCredential()
    const account = aNewAccount()
    await register(eab, credential, account)
    const [own, handedOn] = [await aProfile(), await aProfile()]
    await PROFILE_OF_ACCOUNT.give(grants.audit, grants.actor, own, account.id)
    await PROFILE_OF_CREDENTIAL.give(grants.audit, grants.actor, handedOn, credential.id)
    assert.equal(await profileOf(account.id), own)
  })
})

describe('allowlists', () => {
  const store = useStores(() => grants.end())
  let allowlists: ReturnType<typeof listsOf>
  let grants: Grants
  before(async () => {
    allowlists = listsOf(store)
    grants = await openGrants(store.settings)
  })

  const entry = (value: string) => ({ type: 'dns' as const, value })
  const allow = (accountId: string, values: string[]) =>
    changeNames(NAME_OF_ACCOUNT, grants.audit, grants.actor, accountId, { allow: values })

  test('each account of a batch gets its own list; one without entries an empty one', async () => {
    const [one, two, three] = [await anAccount(store), await anAccount(store), await anAccount(store)]
    await allow(one.account.id, ['b.example', 'a.example'])
    await allow(two.account.id, ['a.example'])
    const ids = [three, one, two, one].map(({ account }) => account.id)
    const lists = await Promise.all(ids.map((id) => allowlists.find(id)))
    const both = [
      { type: 'dns', value: 'a.example' },
      { type: 'dns', value: 'b.example' },
    ]
    assert.deepEqual(lists, [[], both, [both[0]], both])
    const rows = await store.sql(
      "SELECT count(*)::integer AS n FROM allowed_identifiers WHERE identifier_value = 'a.example'",
    )
    assert.equal(rows[0]?.n, 1)
  })

  test('allowing is idempotent, also by two instances at once; taking away names what went', async () => {
    const { account } = await anAccount(store)
    await Promise.all(Array.from({ length: 6 }, () => allow(account.id, ['x.example', 'y.example'])))
    assert.equal((await allowlists.find(account.id)).length, 2)
    const wanted = { disallow: ['x.example', 'z.example'] }
    const outcomes = await changeNames(NAME_OF_ACCOUNT, grants.audit, grants.actor, account.id, wanted)
    assert.deepEqual(each(outcomes, 'outcome'), ['removed', 'absent'])
    assert.deepEqual(await allowlists.find(account.id), [entry('y.example')])
  })
})
