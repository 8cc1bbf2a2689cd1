/** Lists of certificates: an account's, of its orders and imported without one; and those that are renewed or not. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { listCertificates } from '../../src/admin/certificates/certificate-list.ts'
import type { Requester } from '../../src/store/account-store.ts'
import { createCertificateImport } from '../../src/store/certificate-import.ts'
import { type DatabasePool, openCheckedDatabase } from '../../src/store/slonik.ts'
import { each } from '../support/each.ts'
import { aCertificate, aName, anAccount, anIntent, anIssued, newId, useStores } from './support.ts'

describe('certificates of an account', () => {
  const store = useStores(() => checked.end())
  let checked: DatabasePool
  let accountId: string
  /** Newest first. */
  const ids: string[] = []

  async function issue(requester: Requester): Promise<string> {
    return (await aCertificate(store, requester)).intent.certificateId
  }

  async function record(account: string | undefined): Promise<string> {
    const { der, names, notBefore, notAfter } = anIssued(anIntent(undefined), [aName()])
    const id = newId()
    const [serialNumber, spkiSha256] = [randomBytes(16), randomBytes(32)]
    const row = { id, accountId: account, serialNumber, names, notBefore, notAfter, der, spkiSha256 }
    await createCertificateImport(store.db).record([Buffer.alloc(32, 7)], [row], 'that of its issuer')
    return id
  }

  before(async () => {
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

  for (const size of [1, 2, 3, 7, 50])
    test(`come once each, newest first, in pages of ${size}`, async () => {
      const found: string[] = []
      let after: string | undefined
      do {
        const page = await listCertificates(checked, { account_id: accountId }, after, size)
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
        const { rows } = await listCertificates(checked, { account_id: accountId }, place, 50)
        assert.deepEqual(each(rows, 'id'), ids.slice(i + 1))
      }
    }
  })
})

describe('certificates by whether they are renewed', () => {
  const store = useStores(() => checked.end())
  let checked: DatabasePool
  const [own, other] = [newId(), newId()]
  const titles = new Map<string, string>()

  interface Wanted {
    names: readonly string[]
    days?: number
    account?: string | null
    isRevoked?: boolean
    isImported?: boolean
  }

  async function add(title: string, wanted: Wanted): Promise<string> {
    const { names, days = 5, account = own, isRevoked = false, isImported = false } = wanted
    await sleep(2) // keys of one millisecond have no order
    const [id, orderId] = [newId(), isImported || account === null ? null : newId()]
    titles.set(id, title)
    await store.sql(
      `INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, not_before, not_after,
                                 der, revoked_at)
       VALUES ($1, $2, $3, $4, '\\x07', $5, now(), now() + make_interval(days => $6), $4, CASE WHEN $7 THEN now() END)`,
      [id, account, orderId, randomBytes(16), names, days, isRevoked],
    )
    if (orderId !== null) await addOrder(orderId, account, names, id)
    return id
  }

  const addOrder = (id: string, account: string | null, names: readonly string[], certificate: string | null) =>
    store.sql(
      `INSERT INTO orders (id, account_id, identifiers, authorization_ids, profile, expires_at, certificate_id)
       VALUES ($1, $2, $3, '{}', 'default', now(), $4)`,
      [id, account, JSON.stringify(names.map((value) => ({ type: 'dns', value }))), certificate],
    )

  const replace = (certificate: string, order: string) =>
    store.sql('INSERT INTO replacements (certificate_id, order_id, request_key) VALUES ($1, $2, $2)', [
      certificate,
      order,
    ])

  before(async () => {
    checked = await openCheckedDatabase(store.settings)
    await add('renewed: with another name', { names: ['a.test'] })
    await add('not renewed: the successor', { names: ['b.test', 'a.test'], days: 60 })
    await add('not renewed: of another account', { names: ['a.test'], account: other })
    await add('not renewed: the later one is revoked', { names: ['c.test'] })
    await add('not renewed: revoked', { names: ['c.test'], days: 60, isRevoked: true })
    await add('not renewed: the later one lacks a name', { names: ['d.test', 'e.test'] })
    await add('not renewed: it has one name of two', { names: ['d.test'], days: 60 })
    await add('renewed: by an imported one', { names: ['f.test'] })
    await add('not renewed: imported', { names: ['f.test'], days: 60, isImported: true })
    await add('renewed: imported', { names: ['g.test'], isImported: true })
    await add('not renewed: after an imported one', { names: ['g.test'], days: 60 })
    await add('of no account', { names: ['a.test'], account: null })
    await add('not renewed: without names', { names: [] })
    const replaced = await add('renewed: replaced under another name', { names: ['h.test'] })
    const successor = await add('not renewed: it replaces one', { names: ['i.test'], days: 60 })
    const [order] = await store.sql<{ order_id: string }>('SELECT order_id FROM certificates WHERE id = $1', [
      successor,
    ])
    await replace(replaced, order?.order_id ?? '')
    const asked = await add('not renewed: the order that replaces it has no certificate', { names: ['j.test'] })
    const open = newId()
    await addOrder(open, own, ['j.test'], null)
    await replace(asked, open)
  })

  test('each is in the list where it belongs, in pages of any size', async () => {
    for (const [renewed, beginning] of [
      [true, 'renewed: '],
      [false, 'not renewed: '],
    ] as const) {
      const expected = [...titles.values()].filter((one) => one.startsWith(beginning)).sort()
      for (const size of [1, 3, 50]) {
        const found: string[] = []
        let after: string | undefined
        do {
          const page = await listCertificates(checked, { renewed }, after, size, 'not_after')
          assert.ok(page.rows.length <= size)
          found.push(...page.rows.map(({ id }) => titles.get(id) ?? id))
          after = page.next
        } while (after !== undefined)
        assert.deepEqual(found.sort(), expected)
      }
    }
  })
})
