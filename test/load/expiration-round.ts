/**
 * What does a round of warnings of expiry read and take on ten million certificates?
 *
 * `node compiled/test/load/expiration-round.js [CERTIFICATES [DATABASE]]` fills a database as admin-lists.ts does, lets 5,000
 * certificates be due at the four thresholds, as an hour leaves them, and carries out a round. It ends with 1 when a
 * statement scans a table.
 */

import { warnOfExpiry } from '../../src/main/expiration-tasks.ts'
import { type Database, openDatabase, type Statement } from '../../src/store/database.ts'
import { createExpirationStore } from '../../src/store/expiration-store.ts'
import { settingsFor } from '../store/support.ts'
import { rowsIn } from '../support/database.ts'
import { filledDatabase } from '../support/filled-database.ts'

const THRESHOLDS = [1, 7, 14, 30]
const DUE = 5_000
/** Statements that read no table. */
const SETTINGS = ['expiration-hash-joins', 'expiration-has-names']
/** Few rows whatever the table of certificates holds. */
const SMALL = ['event_consumers', 'expiration_progress']

interface PlanNode {
  'Node Type': string
  'Relation Name'?: string
  'Index Name'?: string
  'Actual Rows': number
  'Actual Loops': number
  Plans?: PlanNode[]
}
interface Explained {
  Plan: PlanNode & { 'Shared Hit Blocks': number; 'Shared Read Blocks': number }
  'Execution Time': number
}

const database = await filledDatabase(Number(process.argv[2] ?? 10_000_000), process.argv[3])
const db = openDatabase({ ...settingsFor(database.connection), statementTimeoutMs: 600_000 }, console.error)
try {
  await rowsIn(
    database,
    `INSERT INTO event_consumers (name, kinds, holder_kinds)
     VALUES ('notifications', '{certificate.expiration}', '{certificate.expiration}') ON CONFLICT DO NOTHING`,
  )
  await becomeDue()
  console.log('\nstatements, each explained and taken back:')
  await round(explaining(db))
  console.log('\nthe round:')
  await round(db)
  await round(db)
} finally {
  await db.close()
  await database.drop()
}

/** As if the last round had been as long ago as it takes this many certificates to come due. */
async function becomeDue(): Promise<void> {
  await rowsIn(database, 'TRUNCATE expiration_progress, expiration_notices, event_deliveries')
  for (const days of THRESHOLDS)
    await rowsIn(
      database,
      `INSERT INTO expiration_progress (warning_days, not_after, certificate_id)
       SELECT $1::integer, not_after, id FROM certificates WHERE not_after <= now() + $1::integer * interval '1 day'
        ORDER BY not_after DESC OFFSET $2 LIMIT 1`,
      [days, DUE / THRESHOLDS.length],
    )
}

async function round(on: Database): Promise<void> {
  const startedAt = performance.now()
  let warned = 0
  await warnOfExpiry({
    store: createExpirationStore(on),
    warningDays: THRESHOLDS,
    isStopping: () => false,
    onWarned: (more) => {
      warned += more
    },
    onCounted: (days, expiring) => console.log(`  ${expiring} expire within ${days} days`),
  })
  console.log(`${warned} warnings in ${Math.round(performance.now() - startedAt)} ms`)
}

/** Each statement is carried out for its plan first, and that is taken back. */
function explaining(real: Database): Database {
  const asked: Pick<Database, 'query'>['query'] = async <Row>(statement: Statement, values: readonly unknown[]) => {
    if (!statement.name.startsWith('expiration-') || SETTINGS.includes(statement.name))
      return real.query<Row>(statement, values)
    await explain(statement, values)
    return [{ seen: 0, warned: 0, expiring: 0 }] as Row[]
  }
  return { ...real, query: asked, transaction: (run) => run({ query: asked } as never) }
}

async function explain({ name, text }: Statement, values: readonly unknown[]): Promise<void> {
  const back = new Error('taken back')
  await db
    .transaction(async (tx) => {
      await tx.query({ name: 'hash-joins', text: "SELECT set_config('enable_hashjoin', 'on', true)" }, [])
      const statement = { name: `explain-${name}`, text: `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}` }
      const [row] = await tx.query<{ 'QUERY PLAN': Explained[] }>(statement, values)
      for (const plan of row?.['QUERY PLAN'] ?? []) report(name, values[0], plan)
      throw back
    })
    .catch((error) => {
      if (error !== back) throw error
    })
}

function nodesOf(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)]
}

function report(name: string, first: unknown, { Plan: plan, 'Execution Time': took }: Explained): void {
  const { 'Shared Hit Blocks': hit, 'Shared Read Blocks': read } = plan
  console.log(`${name} ${String(first)}: ${Math.round(took)} ms, ${hit} blocks in memory and ${read} read`)
  for (const node of nodesOf(plan)) {
    const { 'Node Type': type, 'Index Name': index, 'Relation Name': table = '' } = node
    if (!type.endsWith('Scan') || (index ?? table) === '') continue
    console.log(`  ${type} ${index ?? table}: ${node['Actual Rows']} rows, ${node['Actual Loops']} times`)
    if (type === 'Seq Scan' && !SMALL.includes(table)) process.exitCode = 1
  }
}
