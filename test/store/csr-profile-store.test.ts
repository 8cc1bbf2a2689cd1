/** SQL of CSR profiles: what they ask of the certificates issued so far, and the indexes it is asked by. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { type CsrProfileStore, createCsrProfileStore } from '../../src/store/account-rules-store.ts'
import { HISTORY_INDEXES, makeIndexes } from '../../src/store/optional-indexes.ts'
import { type DatabasePool, openCheckedDatabase } from '../../src/store/slonik.ts'
import { aName, anAccount, anIntent, anIssued, aReadyOrder, useStores } from './support.ts'

describe('history of issuance', () => {
  const store = useStores(() => checked.end())
  let profiles: CsrProfileStore
  let checked: DatabasePool
  before(async () => {
    profiles = createCsrProfileStore(store.db)
    checked = await openCheckedDatabase(store.settings)
  })

  /** A certificate of a new account until 2026-04-01 (see support). */
  async function issue(names: string[], spkiSha256: Buffer, complete = true): Promise<string> {
    const { requester } = await anAccount(store)
    const order = await aReadyOrder(store, requester, {}, names)
    const intent = anIntent({ id: order.id, requester }, { spkiSha256 })
    assert.equal(await store.issuance.begin(intent), true)
    if (complete) assert.equal(await store.issuance.complete(anIssued(intent, names)), true)
    return intent.certificateId
  }

  const ask = (spkiSha256: Buffer, names: string[] = [], notDueBefore = '2026-03-01T00:00:00Z') =>
    profiles.historyOf({ spkiSha256, names, notDueBefore: new Date(notDueBefore) })

  test('a key that was certified is known, whosever it is; one that was not is not', async () => {
    const key = randomBytes(32)
    await issue([aName()], key)
    assert.equal((await ask(key)).keyCertified, true)
    assert.equal((await ask(randomBytes(32))).keyCertified, false)
  })

  test('a key that is being certified counts', async () => {
    const key = randomBytes(32)
    await issue([aName()], key, false)
    assert.equal((await ask(key)).keyCertified, true)
  })

  test('a certificate that shares one name and expires after the instant is not due', async () => {
    const [shared, beside] = [aName(), aName()]
    const certificateId = await issue([beside, shared], randomBytes(32))
    const key = randomBytes(32)
    assert.equal((await ask(key, [aName(), shared])).notDue, true)
    assert.equal((await ask(key, [aName()])).notDue, false)
    assert.equal((await ask(key, [shared], '2026-04-01T00:00:00Z')).notDue, false)
    await store.sql('UPDATE certificates SET revoked_at = now() WHERE id = $1', [certificateId])
    assert.equal((await ask(key, [shared])).notDue, false)
  })

  test('questions of one batch each get their own answer', async () => {
    const [key, name] = [randomBytes(32), aName()]
    await issue([name], key)
    const answers = await Promise.all([ask(randomBytes(32)), ask(key), ask(randomBytes(32), [name])])
    assert.deepEqual(answers, [
      { keyCertified: false, notDue: false },
      { keyCertified: true, notDue: false },
      { keyCertified: false, notDue: true },
    ])
  })

  test('the index of keys is made once, and one that an interruption left unfinished is made anew', async () => {
    const indexes = () =>
      store.sql(
        `SELECT relname, indisvalid FROM pg_index JOIN pg_class ON oid = indexrelid
          WHERE indrelid = 'certificates'::regclass AND relname = 'certificates_spki'`,
      )
    const whole = [{ relname: 'certificates_spki', indisvalid: true }]
    assert.deepEqual(await indexes(), [])
    await makeIndexes(checked, HISTORY_INDEXES)
    assert.deepEqual(await indexes(), whole)
    await store.sql('DROP INDEX certificates_spki')
    // Certificates of one issuer: a unique index fails half way and stays behind.
    await assert.rejects(
      store.sql('CREATE UNIQUE INDEX CONCURRENTLY certificates_spki ON certificates (issuer_fingerprint)'),
    )
    assert.deepEqual((await indexes())[0], { relname: 'certificates_spki', indisvalid: false })
    await makeIndexes(checked, HISTORY_INDEXES)
    assert.deepEqual(await indexes(), whole)
  })
})
