/** Warnings of expiry: once for each threshold, for what nothing replaces, and again by no crash. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, beforeEach, describe, test } from 'node:test'
import { warnOfExpiry } from '../../src/main/background.ts'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { type Database, openDatabase, type Statement } from '../../src/store/database.ts'
import { createExpirationStore, type ExpirationStore } from '../../src/store/expiration-store.ts'
import { deleteOldNotices } from '../../src/store/retention-store.ts'
import { openStores, type StoreFixture, settingsFor } from '../store/support.ts'
import { rowsIn, type TestDatabase, testDatabase } from '../support/database.ts'
import { fillWithCertificates } from '../support/databases/many-certificates.ts'

const DAY_MS = 86_400_000

describe('warnings of expiry', () => {
  let stores: StoreFixture
  let store: ExpirationStore
  before(async () => {
    stores = await openStores()
    store = createExpirationStore(stores.db)
    await stores.sql("INSERT INTO event_consumers (name, kinds) VALUES ('mail', '{certificate.expiration}')")
  })
  beforeEach(() =>
    stores.sql(
      'TRUNCATE certificates, orders, replacements, expiration_notices, expiration_progress, event_deliveries, notifications',
    ),
  )
  after(() => stores.close())

  const account = uuidv7(Date.now())
  interface Wanted {
    days: number
    names?: string[]
    of?: string
    isRevoked?: boolean
  }
  /** With its order, as issuance leaves them. */
  async function aCertificate({ days, names = ['a.test'], of = account, isRevoked = false }: Wanted): Promise<string> {
    const [id, order] = [uuidv7(Date.now()), uuidv7(Date.now())]
    const notAfter = new Date(Date.now() + days * DAY_MS)
    await stores.sql(
      `INSERT INTO orders (id, account_id, status, identifiers, authorization_ids, profile, expires_at, certificate_id)
       SELECT $1, $2, 'valid', jsonb_agg(jsonb_build_object('type', 'dns', 'value', name)), '{}', 'default', now(), $3
         FROM unnest($4::text[]) AS name`,
      [order, of, id, names],
    )
    await stores.sql(
      `INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, not_before, not_after, der, revoked_at)
       VALUES ($1, $2, $3, $4, '\\x00', $5, now() - interval '60 days', $6, $7, $8)`,
      [id, of, order, randomBytes(16), names, notAfter, randomBytes(16), isRevoked ? new Date() : null],
    )
    return id
  }
  const warn = (days: readonly number[] = [30, 14, 7, 1]) =>
    warnOfExpiry({
      store,
      warningDays: days,
      onWarned: () => undefined,
      onCounted: () => undefined,
      isStopping: () => false,
    })
  const warned = async () =>
    (
      await stores.sql<{ subject: string; days: number }>(
        "SELECT subject, (data->>'warning_days')::integer AS days FROM event_deliveries ORDER BY sequence",
      )
    ).map(({ subject, days }) => [subject, days])

  test('a certificate is warned of once, at its nearest threshold', async () => {
    const soon = await aCertificate({ days: 5 })
    const later = await aCertificate({ days: 20, names: ['b.test'] })
    await aCertificate({ days: 40, names: ['c.test'] })
    await aCertificate({ days: -1, names: ['d.test'] })
    assert.equal(await warn(), 2)
    assert.deepEqual(await warned(), [
      [soon, 7],
      [later, 30],
    ])
    assert.equal(await warn(), 0)
  })

  test('each threshold counts all certificates that expire within its days', async () => {
    for (const days of [0.5, 5, 6, 20, 40]) await aCertificate({ days, names: [`n${days}.test`] })
    const counted: number[][] = []
    await warnOfExpiry({
      store,
      warningDays: [30, 1, 7],
      onWarned: () => undefined,
      isStopping: () => false,
      onCounted: (days, expiring) => counted.push([days, expiring]),
    })
    assert.deepEqual(counted, [
      [1, 1],
      [7, 3],
      [30, 4],
    ])
  })

  test('every threshold warns when it is reached', async () => {
    const id = await aCertificate({ days: 20 })
    await warn()
    for (const days of [10, 6.5, 0.5]) {
      await stores.sql('UPDATE certificates SET not_after = $1', [new Date(Date.now() + days * DAY_MS)])
      await stores.sql(
        "UPDATE expiration_progress SET not_after = now(), certificate_id = '00000000-0000-0000-0000-000000000000'",
      )
      assert.equal(await warn(), 1)
    }
    assert.deepEqual(
      await warned(),
      [30, 14, 7, 1].map((days) => [id, days]),
    )
    // From the start again: the marks still hold.
    await stores.sql('DELETE FROM expiration_progress')
    assert.equal(await warn(), 0)
  })

  test('revoked certificates and those of the service itself are passed over', async () => {
    await aCertificate({ days: 5, isRevoked: true })
    await stores.sql('UPDATE certificates SET account_id = NULL WHERE id = $1', [await aCertificate({ days: 5 })])
    assert.equal(await warn(), 0)
  })

  test('only a later certificate of the same account for all names of the old one ends its warnings', async () => {
    await aCertificate({ days: 5, names: ['a.test', 'b.test'] })
    await aCertificate({ days: 80, names: ['a.test', 'b.test', 'c.test'] })
    assert.equal(await warn(), 0)
    const half = await aCertificate({ days: 5, names: ['d.test', 'e.test'] })
    await aCertificate({ days: 80, names: ['d.test'] })
    const foreign = await aCertificate({ days: 5, names: ['f.test'] })
    await aCertificate({ days: 80, names: ['f.test'], of: uuidv7(Date.now()) })
    const withdrawn = await aCertificate({ days: 5, names: ['g.test'] })
    await aCertificate({ days: 80, names: ['g.test'], isRevoked: true })
    await stores.sql('DELETE FROM expiration_progress')
    assert.equal(await warn(), 3)
    assert.deepEqual(
      (await warned()).map(([id]) => id),
      [half, foreign, withdrawn],
    )
  })

  test('a certificate that an order replaces is passed over once that order has its certificate', async () => {
    const old = await aCertificate({ days: 5, names: ['old.test'] })
    await aCertificate({ days: 80, names: ['new.test'] })
    await stores.sql(
      `INSERT INTO replacements SELECT $1, o.id, $1 FROM orders o JOIN certificates c ON c.order_id = o.id
        WHERE c.names = '{new.test}'`,
      [old],
    )
    assert.equal(await warn(), 0)
  })

  test('a crash before the commit loses warning, mark and place together', async () => {
    await aCertificate({ days: 5 })
    const failing = createExpirationStore({
      ...stores.db,
      transaction: (run) =>
        stores.db.transaction(async (tx) => {
          await run(tx)
          throw new Error('crash')
        }),
    })
    await assert.rejects(failing.warn(7, new Date(), new Date(Date.now() + 7 * DAY_MS)), /crash/)
    assert.deepEqual(await warned(), [])
    assert.equal(await warn(), 1)
  })

  test('more than a page is warned of in one round, and the next round reads nothing again', async () => {
    await stores.sql(
      `WITH made AS (SELECT n, gen_random_uuid() AS id, gen_random_uuid() AS order_id FROM generate_series(1, 2100) n)
       INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
       SELECT id, $1, order_id, uuid_send(id), '\\x00', ARRAY['n' || n || '.test'], now() - interval '60 days',
              now() + interval '5 days' + n * interval '1 second', uuid_send(id) FROM made`,
      [account],
    )
    assert.equal(await warn(), 2_100)
    const now = new Date()
    assert.deepEqual(await store.warn(7, now, new Date(now.getTime() + 6 * DAY_MS)), { seen: 0, warned: 0 })
    assert.equal(await store.count(now, new Date(now.getTime() + 7 * DAY_MS)), 2_100)
  })

  test('marks and notifications leave at their age', async () => {
    await stores.sql(
      "INSERT INTO expiration_notices SELECT gen_random_uuid(), 7, now() - i * interval '1 day' FROM generate_series(0, 9) i",
    )
    for (const days of [0, 100])
      await stores.sql(
        `INSERT INTO notifications (id, notification_type, recipient, subject, body_text, body_html, message_id)
         VALUES ($1, 'account_deactivated', 'a@b.test', '', '', '', '')`,
        [uuidv7(Date.now() - days * DAY_MS)],
      )
    const ages = { notificationMs: 90 * DAY_MS, noticeMs: 5.5 * DAY_MS }
    assert.equal(await deleteOldNotices(stores.db, ages, () => false), 5)
  })
})

/** As `EXPLAIN (FORMAT JSON)` tells it. */
interface PlanNode {
  'Node Type': string
  'Relation Name'?: string
  'Index Name'?: string
  'Actual Rows': number
  'Actual Loops': number
  Plans?: PlanNode[]
}
interface Plan {
  Plan: PlanNode & { 'Shared Hit Blocks': number; 'Shared Read Blocks': number }
  'Execution Time': number
}

describe('a round on many certificates', () => {
  const CERTIFICATES = 50_000
  let database: TestDatabase
  let db: Database
  before(async () => {
    database = await testDatabase()
    await fillWithCertificates(database.connection, CERTIFICATES, () => undefined)
    await rowsIn(
      database,
      `INSERT INTO event_consumers (name, kinds, holder_kinds) VALUES ('mail', '{certificate.expiration}', '{certificate.expiration}')`,
    )
    db = openDatabase(settingsFor(database.connection), () => undefined)
  })
  after(async () => {
    await db.close()
    await database.drop()
  })

  /** The plans of a round, which is carried out. */
  async function explained(): Promise<Plan[]> {
    const plans: Plan[] = []
    const asking = (tx: Pick<Database, 'query'>): Pick<Database, 'query'> => ({
      async query<Row>(statement: Statement, values: readonly unknown[]) {
        if (!statement.name.startsWith('expiration-warn')) return tx.query<Row>(statement, values)
        const text = `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${statement.text}`
        const [row] = await tx.query<{ 'QUERY PLAN': Plan[] }>({ name: `explained-${statement.name}`, text }, values)
        plans.push(...(row?.['QUERY PLAN'] ?? []))
        return []
      },
    })
    const store = createExpirationStore({ ...db, transaction: (run) => db.transaction((tx) => run(asking(tx))) })
    const now = Date.now()
    for (const [from, until] of [
      [14, 30],
      [7, 14],
    ] as const)
      await store.warn(until, new Date(now + from * DAY_MS), new Date(now + until * DAY_MS))
    return plans
  }
  const nodesOf = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)]
  const blocksOf = ({ Plan: plan }: Plan) => plan['Shared Hit Blocks'] + plan['Shared Read Blocks']

  test('reads along indexes what is due and what replaces it, and no orders of an account', async () => {
    for (const plan of await explained()) {
      const nodes = nodesOf(plan.Plan)
      const read = nodes.map((node) => node['Index Name'])
      assert.ok(read.includes('certificates_names') && !read.includes('orders_account'), read.join())
      const due = nodes.filter((node) => node['Index Name'] === 'certificates_not_after')
      assert.equal(due.length, 1)
      assert.ok((due[0]?.['Actual Rows'] ?? 0) <= 2_000)
      const scanned = nodes.filter((node) => node['Node Type'] === 'Seq Scan').map((node) => node['Relation Name'])
      assert.ok(!scanned.includes('certificates') && !scanned.includes('orders'), scanned.join())
      console.log(`a page: ${blocksOf(plan)} blocks, ${Math.round(plan['Execution Time'])} ms`)
    }
  })

  test('the round after it reads next to nothing', async () => {
    const [store, isStopping] = [createExpirationStore(db), () => false]
    await warnOfExpiry({ store, warningDays: [30, 14, 7], onWarned() {}, onCounted() {}, isStopping })
    for (const plan of await explained()) assert.ok(blocksOf(plan) < 200, `${blocksOf(plan)} blocks`)
  })
})
