/**
 * How long do the lists, look-ups and searches of the Admin API take on ten million certificates?
 *
 * `node compiled/test/load/admin-lists.js [CERTIFICATES [DATABASE [WORD]]]` fills a database (ten million take half an hour and 25 GB),
 * starts a service on it and asks over HTTP. It ends with 1 when a median is above its goal. A DATABASE on the server of
 * CHANCERY_TEST_POSTGRES is kept, and filled only when it is empty. With a WORD it asks only for paths that have it.
 */

import pg from 'pg'
import { type AdminClient, adminConfig, administrator } from '../support/admin.ts'
import { filledDatabase } from '../support/databases/filled-database.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { loadAverage, median, quantile } from './figures.ts'

const GOAL_MS = 50
const failed = new Map<string, string>()
const SEARCH_GOAL_MS = 100
const TIMES = 40
const LIST_GOAL_MS = 100
const DAY_MS = 86_400_000

/** What the pages of the console ask for, also for a registrar. */
const FOR_ALL_ROLES: readonly string[] = [
  '/certificates',
  '/certificates?status=revoked',
  '/certificates?status=active&sort=not_after',
  '/certificates?domain_suffix=load.example',
  '/certificates?domain_suffix=host77.load.example',
  '/certificates?profile=short',
  '/certificates?profile=nobody',
  '/certificates?renewed=false',
  '/certificates?renewed=false&status=active&sort=not_after',
  '/certificates?revoked_after=2026-01-01T00:00:00Z',
  '/at-risk',
  '/at-risk?limit=100',
  '/at-risk?muted=true',
  '/failures',
  '/failures?limit=100',
  '/failures?name=failed7.load.example',
  '/failures?kind=order.rejected',
  '/failures/causes',
  '/accounts',
  '/accounts?name=nobody',
  '/accounts?name=ops77%40load.example',
  '/accounts?tag=team',
  '/accounts?tag=nobody',
  '/accounts?contact=mailto:ops77%40load.example',
  '/accounts?eab_kid=nobody',
  '/orders',
  '/orders?status=invalid',
  '/orders?status=pending',
  '/orders?domain=host77.load.example',
  '/search?q=host77.load.example',
  '/search?q=load',
]

const count = Number(process.argv[2] ?? 10_000_000)
const database = await filledDatabase(count, process.argv[3])
const service = await startTestService({ database, config: adminConfig() })
try {
  await measure(service, await administrator(service, `reader-${Date.now()}`))
} finally {
  await service.dispose()
}

async function oneOf(text: string): Promise<string> {
  const client = new pg.Client(database.connection)
  await client.connect()
  try {
    return String((await client.query<{ v: unknown }>(text)).rows[0]?.v)
  } finally {
    await client.end()
  }
}

function chosen<P extends readonly [path: string, ...unknown[]]>(paths: readonly P[]): P[] {
  return paths.filter(([path]) => path.includes(process.argv[4] ?? ''))
}

/** Noted, as the other paths are worth their time. @returns how many rows; none after an error */
async function rowsOf(client: AdminClient, path: string): Promise<number> {
  const { status, text, json } = await client.get(path)
  if (status !== 200) {
    process.exitCode = 1
    failed.set(path, `${status} ${text.slice(0, 100)}`)
  }
  return Array.isArray(json) ? json.length : 1
}

async function measure(tested: TestService, admin: AdminClient): Promise<void> {
  const { baseUrl } = tested
  const some = await oneOf(
    "SELECT encode(serial_number, 'hex') AS v FROM certificates TABLESAMPLE SYSTEM (0.01) WHERE not_after > now() LIMIT 1",
  )
  const middle = (await admin.get(`/certificates/${some}`)).json
  const { serial_number, fingerprint, san_values, account_id, id, order_id } = middle
  const large = await oneOf(
    'SELECT account_id AS v FROM (SELECT account_id FROM orders TABLESAMPLE SYSTEM (0.1)) s GROUP BY 1 ORDER BY count(*) DESC LIMIT 1',
  )
  const retired = await oneOf("SELECT encode(sha256('retired'), 'hex') AS v")
  const second = await oneOf("SELECT encode(sha256('second'), 'hex') AS v")
  const soon = new Date(Date.now() + 7 * DAY_MS).toISOString()
  const longAgo = new Date(Date.now() - 200 * DAY_MS).toISOString()
  const paths: readonly (readonly [path: string, goalMs?: number])[] = [
    // What a request costs without a list, on a machine with this load.
    ['/me'],
    ['/certificates'],
    ['/certificates?limit=200'],
    [`/certificates/${serial_number}`],
    [`/certificates?serial=${serial_number}`],
    [`/certificates/by-fingerprint/${fingerprint}`],
    [`/certificates?fingerprint=${fingerprint}`],
    [`/certificates?domain=${san_values[0]}`],
    ['/certificates?domain=nobody.example'],
    [`/certificates?issuer=${second}`],
    [`/certificates?issuer=${retired}`],
    [`/certificates?issuer=${retired}&status=revoked`],
    [`/certificates?account_id=${account_id}`],
    [`/certificates?account_id=${large}`],
    [`/certificates?account_id=${large}&cursor=${id}`],
    [`/certificates?account_id=${large}&status=revoked`],
    ['/certificates?profile=short'],
    ['/certificates?status=active'],
    ['/certificates?status=revoked'],
    ['/certificates?status=expired'],
    [`/certificates?expiring_before=${soon}`],
    [`/certificates?status=active&expiring_before=${soon}`],
    ['/certificates?sort=-issued_at'],
    ['/certificates?sort=not_after'],
    ['/certificates?sort=-not_after'],
    ['/certificates?sort=not_after&status=revoked'],
    [`/certificates?cursor=${id}`],
    [`/certificates?sort=not_after&cursor=${id}`],
    ['/certificates?offset=1000'],
    ['/certificates?offset=10000', 200],
    ['/certificates?offset=100000', 200],
    ['/certificates/expiry-histogram', 2_000],
    ['/certificates/expiry-histogram?by=profile', 2_000],
    ['/certificates/expiring-by-account', 2_000],
    ['/accounts'],
    [`/accounts/${account_id}`],
    ['/accounts?status=deactivated'],
    ['/orders'],
    [`/orders/${order_id}`],
    [`/orders?domain=${san_values[0]}`],
    [`/orders?account_id=${large}`],
    [`/orders?account_id=${large}&status=invalid`, LIST_GOAL_MS],
    [`/orders?account_id=${large}&status=pending`, LIST_GOAL_MS],
    [`/at-risk?account_id=${large}`, LIST_GOAL_MS],
    ['/orders?status=valid'],
    ['/orders?status=invalid'],
    ['/orders?status=pending'],
    [`/orders?created_before=${longAgo}`],
    [`/search?q=${san_values[0]}`, SEARCH_GOAL_MS],
    ['/search?q=load.example', SEARCH_GOAL_MS],
    ['/search?q=nobody.example', SEARCH_GOAL_MS],
    ['/search?q=host77', SEARCH_GOAL_MS],
    ['/search?q=oad.exa', SEARCH_GOAL_MS],
    [`/search?q=${serial_number}`, SEARCH_GOAL_MS],
    [`/search?q=${serial_number.slice(0, 10)}`, SEARCH_GOAL_MS],
    [`/search?q=${fingerprint}`, SEARCH_GOAL_MS],
    [`/search?q=${account_id}`, SEARCH_GOAL_MS],
    [`/search?q=${order_id}`, SEARCH_GOAL_MS],
    ['/search?q=ops77%40load.example', SEARCH_GOAL_MS],
    [`/names/${san_values[0]}`, SEARCH_GOAL_MS],
    ['/names/failed77.load.example', SEARCH_GOAL_MS],
    ['/names/nobody.example', SEARCH_GOAL_MS],
    ['/audit-log'],
    ['/audit-log?action=certificate.revoke'],
    ['/audit-log?action=users.create', LIST_GOAL_MS],
    ['/audit-log?object=nobody', LIST_GOAL_MS],
    ['/audit-log?ip_address=192.0.2.2', LIST_GOAL_MS],
    // One is made every half second, for all who ask.
    ['/overview', 600],
    ['/events/counts', LIST_GOAL_MS],
    ...FOR_ALL_ROLES.map((path) => [path, LIST_GOAL_MS] as const),
    ['/notifications', LIST_GOAL_MS],
    ['/notifications?status=failed', LIST_GOAL_MS],
    ['/notifications/causes', LIST_GOAL_MS],
    ['/events/dead', LIST_GOAL_MS],
    ['/events/dead/causes', LIST_GOAL_MS],
    ['/eab?name=nobody', LIST_GOAL_MS],
  ]
  console.log(
    `${'request'.padEnd(58)}${'rows'.padStart(6)}${'first ms'.padStart(10)}${'median'.padStart(8)}${'p95'.padStart(9)}   goal`,
  )
  for (const [path, goalMs = GOAL_MS] of chosen(paths)) report(path, goalMs, await timesOf(() => rowsOf(admin, path)))
  for (const tag of ['team', 'large']) {
    const registrar = await administrator(tested, `${tag}-${Date.now()}`, 'registrar', [tag])
    for (const [path] of chosen(FOR_ALL_ROLES.map((one) => [one] as const)))
      report(`${tag}: ${path}`, LIST_GOAL_MS, await timesOf(() => rowsOf(registrar, path)))
  }
  report(
    'POST /audit-log/export, first piece',
    GOAL_MS,
    await timesOf(() => firstPiece(baseUrl, '/audit-log/export', admin.token)),
  )
  console.log(loadAverage())
}

/** @returns its lines */
async function firstPiece(baseUrl: string, path: string, token: string): Promise<number> {
  const ending = new AbortController()
  const reply = await fetch(`${baseUrl}/api${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    signal: ending.signal,
  })
  const { value } = (await reply.body?.getReader().read()) ?? {}
  ending.abort()
  return Buffer.from(value ?? '')
    .toString()
    .split('\n').length
}

async function timesOf(ask: () => Promise<number>): Promise<{ rows: number; times: number[] }> {
  const times: number[] = []
  let rows = 0
  for (let n = 0; n < TIMES; n++) {
    const startedAt = performance.now()
    rows = await ask()
    times.push(performance.now() - startedAt)
  }
  return { rows, times }
}

function report(path: string, goalMs: number, { rows, times }: { rows: number; times: number[] }): void {
  const [first, half, p95] = [times[0] as number, median(times), quantile(times, 0.95)]
  const isTooLong = half > goalMs
  if (isTooLong) process.exitCode = 1
  const plain = path.replace(/^\w+: /, '')
  const error = failed.get(plain)
  failed.delete(plain)
  if (error !== undefined) console.log(`  ${error}`)
  const shown = path.replaceAll(/[0-9a-f-]{20,}/g, '…')
  const cells = [
    String(rows).padStart(6),
    first.toFixed(1).padStart(10),
    half.toFixed(1).padStart(8),
    p95.toFixed(1).padStart(9),
  ]
  console.log(`${shown.padEnd(58)}${cells.join('')}${String(goalMs).padStart(7)}${isTooLong ? '  too long' : ''}`)
}
