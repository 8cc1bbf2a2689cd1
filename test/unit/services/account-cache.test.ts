/** Which accounts a front thread keeps. */

import assert from 'node:assert/strict'
import { createECDH } from 'node:crypto'
import { describe, test } from 'node:test'
import type { Account } from '../../../src/domain/records.ts'
import { createAccountCache, type KnownAccount } from '../../../src/services/account-cache.ts'
import { uuidv7 } from '../../../src/shared/lib/uuid.ts'

const point = createECDH('prime256v1').generateKeys()
const JWK = {
  crv: 'P-256',
  kty: 'EC',
  x: point.subarray(1, 33).toString('base64url'),
  y: point.subarray(33).toString('base64url'),
}

const anAccount = (jwk = JSON.stringify(JWK)): Account => ({
  id: uuidv7(Date.now()),
  status: 'valid',
  jwk,
  thumbprint: 'thumbprint',
  keyVersion: 1,
  contacts: [],
  termsAgreed: true,
})

function aCache(...accounts: Account[]) {
  const lookups: string[] = []
  const find = async (id: string) => {
    lookups.push(id)
    return accounts.find((account) => account.id === id)
  }
  const cache = createAccountCache(find, async () => undefined)
  const found = async (id: string) => (await cache.find(id)) as KnownAccount
  return { cache, lookups, found }
}

describe('the cache of accounts', () => {
  test('keeps an account when a signature has proved it, and not before', async () => {
    const account = anAccount()
    const { cache, lookups, found } = aCache(account)
    await found(account.id)
    cache.keep(await found(account.id))
    assert.equal(await found(account.id), await found(account.id))
    assert.equal(lookups.length, 2)
  })

  test('imports a key when it is first needed', async () => {
    const [good, damaged] = [anAccount(), anAccount(JSON.stringify({ ...JWK, y: JWK.x }))]
    const { found } = aCache(good, damaged)
    const { key } = await found(good.id)
    assert.equal(key.publicKey, key.publicKey)
    const other = await found(damaged.id)
    assert.throws(() => other.key.publicKey)
  })

  test('keeps a registered account until it is forgotten', async () => {
    const account = anAccount()
    const { cache, lookups, found } = aCache(account)
    cache.remember(account)
    await found(account.id)
    assert.deepEqual(lookups, [])
    cache.forget(account.id)
    await found(account.id)
    assert.deepEqual(lookups, [account.id])
  })
})
