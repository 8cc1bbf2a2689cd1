/** The list of an account's certificates: those of its orders, and those that were imported without one. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { createCertificateImport } from '../../src/store/certificate-import.ts'
import { listCertificates } from '../../src/store/certificate-list.ts'
import { type DatabasePool, openCheckedDatabase } from '../../src/store/slonik.ts'
import {
  aName,
  anAccount,
  anIntent,
  anIssued,
  aReadyOrder,
  newId,
  openStores,
  type StoreFixture,
  sleep,
} from './support.ts'

describe('certificates of an account', () => {
  let store: StoreFixture
  let checked: DatabasePool
  let accountId: string
  /** Newest first. */
  const ids: string[] = []

  async function issue(requester: Parameters<typeof aReadyOrder>[1]): Promise<string> {
    const order = await aReadyOrder(store, requester)
    const intent = anIntent({ id: order.id, requester })
    await store.issuance.begin(intent)
    await store.issuance.complete(anIssued(intent))
    return intent.certificateId
  }

  async function record(account: string | undefined): Promise<string> {
    const { der, names, notBefore, notAfter } = anIssued(anIntent(undefined), [aName()])
    const id = newId()
    const [serialNumber, spkiSha256] = [randomBytes(16), randomBytes(32)]
    const row = {
      id,
      accountId: account,
      serialNumber,
      issuerFingerprint: Buffer.alloc(32, 7),
      names,
      notBefore,
      notAfter,
    }
    await createCertificateImport(store.db).record({ ...row, der, spkiSha256 })
    return id
  }

  before(async () => {
    store = await openStores()
    checked = await openCheckedDatabase(store.settings)
    await store.certificates.saveIssuer(Buffer.alloc(32, 7), Buffer.from('certificate'), [Buffer.from('certificate')])
    const { requester } = await anAccount(store)
    const { requester: other } = await anAccount(store)
    accountId = requester.accountId
    for (const make of [issue, record, record, issue, issue, record, issue] as const) {
      await sleep(2) // keys of one millisecond have no order
      ids.unshift(make === issue ? await issue(requester) : await record(accountId))
      await issue(other)
      await record(other.accountId)
      await record(undefined)
    }
  })
  after(async () => {
    await checked.end()
    await store.close()
  })

  for (const size of [1, 2, 3, 7, 50])
    test(`come once each, newest first, in pages of ${size}`, async () => {
      const found: string[] = []
      let after: string | undefined
      do {
        const page = await listCertificates(checked, { accountId }, after, size)
        found.push(...page.rows.map(({ id }) => id))
        after = page.next
      } while (after !== undefined)
      assert.deepEqual(found, ids)
    })

  test('go on behind any place, be it of a certificate or of an order', async () => {
    for (const [i, id] of ids.entries()) {
      const [row] = await store.sql<{ place: string }>(
        'SELECT coalesce(order_id, id) AS place FROM certificates WHERE id = $1',
        [id],
      )
      for (const place of [id, row?.place]) {
        const { rows } = await listCertificates(checked, { accountId }, place, 50)
        assert.deepEqual(
          rows.map((one) => one.id),
          ids.slice(i + 1),
        )
      }
    }
  })
})
