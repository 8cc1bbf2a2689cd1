/**
 * How long does the first page of each list take in a large database, and one from the middle?
 *
 * `node compiled/test/load/lists.js postgres://…` reads from a database with millions of certificates and changes nothing. It prints
 * the first and the median time of each, and ends with 1 when a median is above 50 ms.
 */

import pg from 'pg'
import { pagesOfCredentials } from '../../src/admin/eab/credential-store.ts'
import { ORDER_STATUSES } from '../../src/domain/states.ts'
import { listAccounts } from '../../src/store/account-list.ts'
import type { CertificateFilter } from '../../src/store/certificate-filter.ts'
import { listCertificates } from '../../src/store/certificate-list.ts'
import { createCrlStore } from '../../src/store/crl-store.ts'
import { type DatabaseSettings, openDatabase } from '../../src/store/database.ts'
import { createInspectStore } from '../../src/store/inspect-store.ts'
import { listOrders } from '../../src/store/order-list.ts'
import { createOrderStore } from '../../src/store/order-store.ts'
import { openCheckedDatabase } from '../../src/store/slonik.ts'

const MOST_MS = 50
const TIMES = 11
const LIMIT = 50
const DAY_MS = 86_400_000
const inDays = (days: number) => new Date(Date.now() + days * DAY_MS)

const url = process.argv[2]
if (url === undefined) throw new Error('name the database: postgres://…')
const settings = databaseOf(new URL(url))
const checked = await openCheckedDatabase(settings)
const db = openDatabase(settings, () => undefined)
const beside = new pg.Client({ ...settings, host: settings.hosts[0] })
await beside.connect()
const one = async (text: string): Promise<string> => (await beside.query<{ v: string }>(text)).rows[0]?.v ?? ''

try {
  const large = await one(
    'SELECT account_id AS v FROM (SELECT account_id FROM orders TABLESAMPLE SYSTEM (0.1)) s GROUP BY 1 ORDER BY count(*) DESC LIMIT 1',
  )
  const usual = await one('SELECT id AS v FROM accounts TABLESAMPLE SYSTEM (0.1) LIMIT 1')
  const certificate = await one('SELECT id AS v FROM certificates TABLESAMPLE SYSTEM (0.01) LIMIT 1')
  const serialNumber = await one(
    `SELECT encode(serial_number, 'hex') AS v FROM certificates WHERE id = '${certificate}'`,
  )
  const name = await one(`SELECT names[1] AS v FROM certificates WHERE id = '${certificate}'`)
  const order = await one(`SELECT order_id AS v FROM certificates WHERE id = '${certificate}'`)
  const middle = await one('SELECT id AS v FROM orders ORDER BY id OFFSET 100000 LIMIT 1')
  const issuers = (
    await beside.query<{ v: string }>("SELECT encode(fingerprint, 'hex') AS v FROM issuers ORDER BY created_at")
  ).rows
  const contact = await one(
    "SELECT contacts[1] AS v FROM accounts TABLESAMPLE SYSTEM (0.1) WHERE contacts <> '{}' LIMIT 1",
  )
  const kid = await one('SELECT kid AS v FROM eab_credentials ORDER BY id LIMIT 1')
  const keyVersion = Number(await one(`SELECT key_version AS v FROM accounts WHERE id = '${large}'`))
  const inspect = createInspectStore(checked)
  const orders = createOrderStore(db)
  const crls = createCrlStore(db)

  const certificates = (filter: CertificateFilter, after?: string) => () =>
    listCertificates(checked, filter, after, LIMIT)
  const reads: Record<string, () => Promise<unknown>> = {
    'inspect order': () => inspect.findOrder(order),
    'inspect certificate by serial': () => inspect.findCertificateBySerial(serialNumber),
    'inspect account': () => inspect.findAccount(usual),
    'inspect account, its counts': () => inspect.countOrders(usual),
    'inspect account, counts of the large one': () => inspect.countOrders(large),
    certificates: certificates({}),
    'certificates, from the middle': certificates({}, certificate),
    'certificates --account, a usual one': certificates({ accountId: usual }),
    'certificates --account, the large one': certificates({ accountId: large }),
    'certificates --account --status revoked, the large one': certificates({ accountId: large, status: 'revoked' }),
    'certificates --serial': certificates({ serialNumber }),
    'certificates --name': certificates({ name }),
    'certificates --name, none': certificates({ name: 'nobody.example' }),
    'certificates --status active': certificates({ status: 'active' }),
    'certificates --status revoked': certificates({ status: 'revoked' }),
    'certificates --status revoked, from the middle': certificates({ status: 'revoked' }, certificate),
    'certificates --status expired': certificates({ status: 'expired' }),
    'certificates --status expired, from the middle': certificates({ status: 'expired' }, certificate),
    'certificates --expires-after --expires-before': certificates({
      expiresAfter: inDays(0),
      expiresBefore: inDays(7),
    }),
    'certificates --status active --expires-before': certificates({ status: 'active', expiresBefore: inDays(30) }),
    'certificates --status revoked --expires-before': certificates({ status: 'revoked', expiresBefore: inDays(30) }),
    'certificates --issued-before': certificates({ issuedBefore: inDays(-200) }),
    'certificates --issued-after --issued-before': certificates({
      issuedAfter: inDays(-201),
      issuedBefore: inDays(-200),
    }),
    ...Object.fromEntries(
      issuers.map(({ v }, i) => [
        `certificates --issuer, number ${i + 1} of ${issuers.length}`,
        certificates({ issuer: v }),
      ]),
    ),
    orders: () => listOrders(checked, {}, undefined, LIMIT),
    'orders --account, the large one': () => listOrders(checked, { accountId: large }, undefined, LIMIT),
    'orders --account, the large one, from the middle': () => listOrders(checked, { accountId: large }, middle, LIMIT),
    'orders --name': () => listOrders(checked, { name }, undefined, LIMIT),
    'orders --name, none': () => listOrders(checked, { name: 'nobody.example' }, undefined, LIMIT),
    'orders --account --name, the large one': () => listOrders(checked, { accountId: large, name }, undefined, LIMIT),
    ...Object.fromEntries(
      ORDER_STATUSES.flatMap((status) => [
        [`orders --status ${status}`, () => listOrders(checked, { status }, undefined, LIMIT)],
        [
          `orders --account --status ${status}, the large one`,
          () => listOrders(checked, { accountId: large, status }, undefined, LIMIT),
        ],
      ]),
    ),
    'orders --created-before': () => listOrders(checked, { createdBefore: inDays(-100) }, undefined, LIMIT),
    'orders --created-after': () => listOrders(checked, { createdAfter: inDays(-1) }, undefined, LIMIT),
    'orders --created-after --created-before': () =>
      listOrders(checked, { createdAfter: inDays(-101), createdBefore: inDays(-100) }, undefined, LIMIT),
    accounts: () => listAccounts(checked, {}, undefined, LIMIT),
    'accounts --status deactivated': () => listAccounts(checked, { status: 'deactivated' }, undefined, LIMIT),
    'accounts --status revoked, none': () => listAccounts(checked, { status: 'revoked' }, undefined, LIMIT),
    'accounts --contact': () => listAccounts(checked, { contact }, undefined, LIMIT),
    'accounts --eab': () => listAccounts(checked, { eabKid: kid }, undefined, LIMIT),
    'eab list': () => pagesOfCredentials(checked)(undefined, LIMIT),
    'orders list of RFC 8555, the large account': () =>
      orders.list({ accountId: large, keyVersion }, undefined, LIMIT + 1),
    'the same, from the middle': () => orders.list({ accountId: large, keyVersion }, middle, LIMIT + 1),
    'page of a CRL': () =>
      crls.page({
        scope: { issuerKey: Buffer.alloc(32), shards: 1, shard: 0 },
        octets: [0, 255],
        issuerFingerprint: Buffer.from(issuers.at(-1)?.v ?? '', 'hex'),
        after: undefined,
        leftBefore: inDays(-1),
        limit: 4096,
      }),
  }
  console.log(`${'list'.padEnd(60)}${'rows'.padStart(6)}${'first ms'.padStart(10)}${'median ms'.padStart(11)}`)
  for (const [title, read] of Object.entries(reads)) {
    const times: number[] = []
    let found: unknown
    for (let i = 0; i < TIMES && (i < 2 || (times[1] ?? 0) < 1000); i++) {
      const startedAt = performance.now()
      found = await read()
      times.push(performance.now() - startedAt)
    }
    const first = times[0] as number
    const median = times.toSorted((a, b) => a - b)[times.length >> 1] as number
    const count = rowsIn(found)
    if (median > MOST_MS) process.exitCode = 1
    console.log(
      `${title.padEnd(60)}${count.padStart(6)}${first.toFixed(1).padStart(10)}${median.toFixed(1).padStart(11)}${median > MOST_MS ? '  too long' : ''}`,
    )
  }
} finally {
  await Promise.all([checked.end(), db.close(), beside.end()])
}

function rowsIn(found: unknown): string {
  if (Array.isArray(found)) return String(found.length)
  const { rows, isComplete } = found as { rows?: unknown; isComplete?: boolean }
  return Array.isArray(rows) ? `${rows.length}${isComplete ? '' : '…'}` : ''
}

/** `postgres://user:password@host:port/database?sslmode=…`; `host` as a parameter may be the folder of a socket. */
function databaseOf(at: URL): DatabaseSettings {
  const { hostname, port, pathname, username, password, searchParams } = at
  return {
    hosts: [searchParams.get('host') ?? hostname],
    port: Number(port || 5432),
    database: decodeURIComponent(pathname.slice(1)),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    sslmode: (searchParams.get('sslmode') ?? 'prefer') as DatabaseSettings['sslmode'],
    maxConnections: 2,
    connectionTimeoutMs: 10_000,
    idleTimeoutMs: 60_000,
    statementTimeoutMs: 60_000,
  }
}
