/** Keys that a file of the operator blocks (`security.blocked_keys_file`): Debian's weak ones, say, or ones that were published. */

import assert from 'node:assert/strict'
import { createPublicKey, hash, type KeyObject } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { readBlockedKeys } from '../../src/services/blocked-keys.ts'
import {
  type AccountKeyPair,
  type Answer,
  changeKey,
  createAcmeClient,
  csrFor,
  newAccountKey,
  problemOf,
  registeredClient,
} from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { P256_KEY, P384_KEY } from '../support/keys.ts'
import { configOf, hangUp as hangUpOf } from '../support/reload.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const hashOf = (key: KeyObject) => hash('sha256', key.export({ type: 'spki', format: 'der' }), 'hex')
const accountHash = ({ privateKey }: AccountKeyPair) => hashOf(createPublicKey(privateKey))

describe('a file of blocked keys', () => {
  const folder = temporaryFolder()
  const file = path.join(folder, 'keys.txt')
  const blockedAccount = newAccountKey()
  const { service, responder, client } = acmeScene('acme')
  let original: string
  before(async () => {
    const weak = hashOf(P256_KEY.publicKey).toUpperCase()
    writeFileSync(file, `# weak\n\n${weak} # as any case\r\n${accountHash(blockedAccount)}\n`)
    original = configOf(service).text()
    configOf(service).edit((config) => {
      config['security'] = { ...config['security'], blocked_keys_file: file }
    })
    await hangUp('blocked keys read')
  })
  after(async () => {
    configOf(service).write(original)
    await hangUp('configuration read again')
  })

  async function finalized(name: string, key: typeof P256_KEY): Promise<Answer> {
    const order = await client.newOrder([name])
    await client.authorize(order, responder)
    return client.post(order.json.finalize, { csr: await csrFor([name], key) })
  }
  const hangUp = (message: string) => hangUpOf(service, message)

  test('keeps them from certificates, and others get theirs (RFC 8555 §7.4)', async () => {
    assert.equal(problemOf(await finalized('blocked.test', P256_KEY)), '400 badCSR')
    assert.equal((await finalized('free.test', P384_KEY)).json.status, 'valid')
  })

  test('keeps them from accounts, new ones and old ones (RFC 8555 §7.3, §7.3.5)', async () => {
    const blocked = await createAcmeClient(service.directoryUrl, blockedAccount)
    assert.equal(problemOf(await blocked.newAccount()), '400 badPublicKey')
    assert.equal(problemOf(await changeKey(client, blockedAccount)), '400 badPublicKey')
  })

  test('ends accounts that have them (RFC 8555 §7.3.6)', async () => {
    const key = newAccountKey()
    const holder = await registeredClient(service.directoryUrl, key)
    writeFileSync(file, `${hashOf(P256_KEY.publicKey)}\n${accountHash(blockedAccount)}\n${accountHash(key)}\n`)
    await hangUp('blocked keys read')
    assert.equal(problemOf(await holder.newOrder(['ended.test'])), '401 unauthorized')
    assert.equal((await client.newOrder(['goes-on.test'])).status, 201)
  })

  test('is read again at SIGHUP: keys come and go, those of revocations stay', async () => {
    const db = new pg.Client(service.database.connection)
    await db.connect()
    const revoked = Buffer.alloc(32, 7)
    await db.query('INSERT INTO blocked_keys (spki_sha256, certificate_id) VALUES ($1, gen_random_uuid())', [revoked])
    writeFileSync(file, `${hashOf(P384_KEY.publicKey)}\n`)
    const { keys, added, removed } = await hangUp('blocked keys read')
    assert.deepEqual([keys, added, removed], [1, 1, 3])
    assert.equal(problemOf(await finalized('later.test', P384_KEY)), '400 badCSR')
    assert.equal((await finalized('now-free.test', P256_KEY)).json.status, 'valid')
    const { rows } = await db.query('SELECT spki_sha256 FROM blocked_keys WHERE certificate_id IS NOT NULL')
    assert.deepEqual(rows, [{ spki_sha256: revoked }])
    await db.end()
  })

  test('that is damaged changes nothing, and the log says where', async () => {
    writeFileSync(file, `${hashOf(P256_KEY.publicKey)}\nabc\n`)
    const { err } = await hangUp('the configuration could not be applied')
    assert.match(String((err as Error).message), /^security\.blocked_keys_file: .*keys\.txt: line 2 is no SHA-256/)
    assert.equal(problemOf(await finalized('still.test', P384_KEY)), '400 badCSR')
  })

  test('has a bound, and must be there', async () => {
    const large = path.join(folder, 'large.txt')
    const line = (number: number) => `${number.toString(16).padStart(64, '0')}\n`
    writeFileSync(large, Array.from({ length: 1_000_001 }, (_, number) => line(number)).join(''))
    await assert.rejects(readBlockedKeys(large), /has more than 1000000 keys/)
    await assert.rejects(readBlockedKeys(path.join(folder, 'none')), /cannot be read/)
  })
})
