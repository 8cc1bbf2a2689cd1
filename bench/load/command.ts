/**
 * `npm run bench -- load`: fills a database with accounts, orders, authorizations and certificates as years of operation leave
 * them, to measure with. Interrupted, it goes on where it stopped when it is called with the same figures.
 */

import { createPrivateKey, createPublicKey, generateKeyPairSync, hash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fingerprintSha256 } from '../../src/shared/pki/certificate.ts'
import { decodePem } from '../../src/shared/pki/pem.ts'
import type { Database } from '../../src/store/database.ts'
import { type Command, writeLine } from '../command.ts'
import { whyNotWritable } from '../options/outputs.ts'
import { OptionsError, type Raw } from '../options/reader.ts'
import { newIssuer } from './issuer.ts'
import { type Batch, batchesOf, type LoadFigures, type LoadPlan, planOf } from './plan.ts'
import { renderSizes, type Size } from './sizes.ts'
import * as sql from './statements.ts'
import { openDataDir, openUrl, type Target } from './target.ts'
import { cutTemplate } from './template.ts'

export const command: Command = {
  description: [
    'Fill a database with accounts, orders, authorizations and certificates, to measure with.',
    'Called again with the same figures it goes on where it stopped. Nothing is deleted.',
  ],
  examples: [
    '--data-dir /var/tmp/chancery-loaded',
    '--database postgres://chancery@db.example/chancery --certificates 1000000 --accounts 100000',
  ],
  flags: [
    ['database', 'Database to fill: postgres://user:password@host:port/database'],
    ['data-dir', 'Or data folder of the embedded one (chancery serve --dev --data-dir); made when missing'],
    ['certificates', 'Certificates; 4 % more orders, without one, come with them', 10_000_000],
    ['accounts', 'Accounts', 1_000_000],
    ['large-account-orders', 'Orders of the one account whose key is known', 100_000],
    ['history-days', 'Age of the oldest order', 365],
    ['account-key', 'File for that key, PEM (default: bench-account-key.pem in the data folder, or here)'],
    ['issuer', 'PEM file of the certificate the service issues under (default: that of the data folder or database)'],
    ['connections', 'Connections that fill at the same time', 3],
    ['force', 'Fill a database although it has accounts of its own'],
  ],
  async run(raw, { progress, interrupt }) {
    // A statement under way may take minutes. What it leaves is undone, and the embedded database ends with this process.
    interrupt.again.addEventListener('abort', () => process.exit(interrupt.reason.exitCode))
    await load(raw, writeLine, (text) => (text === '' ? progress.end() : progress.begin(text)), interrupt)
    return true
  },
}

const DAY_MS = 86_400_000
/** Part of the history that an issuer signed which is out of use today. */
const FORMER_ISSUER = 0.2

const usage = (sentence: string) => new OptionsError([sentence])

/**
 * @param signal Ends it when the statements under way have ended.
 * @throws OptionsError naming the option that is wrong; Error in a plain sentence when the database must not be filled; the signal's reason
 */
async function load(
  raw: Raw,
  write: (line: string) => void,
  progress: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const figures = readFigures(raw)
  const connections = readNumber(raw, 'connections', 1)
  const keyFile = raw['account-key']
  const reason = keyFile === undefined || existsSync(String(keyFile)) ? undefined : whyNotWritable(String(keyFile))
  if (reason !== undefined) throw usage(`--account-key ${keyFile}: ${reason}`)
  const target = await openTarget(raw, connections, write)
  try {
    const { db } = target
    const plan = await requirePlan(db, figures, raw['force'] === true)
    const key = accountKey(raw)
    const start = plan.end - plan.historyDays * DAY_MS
    const templates = await saveIssuers(db, await issuerOf(raw, target))
    await fill(db, plan, connections, progress, async (batch) => {
      signal.throwIfAborted()
      await db.transaction(async (tx) => {
        await tx.query(sql.QUICK_COMMIT, [])
        if (batch.kind === 'accounts')
          await tx.query(sql.INSERT_ACCOUNTS, [batch.from, batch.to, plan.accounts, start, key.jwk, key.thumbprint])
        else
          await tx.query(sql.INSERT_ORDERS, [
            ...[batch.from, batch.to, plan.orders, start, plan.end, plan.sites, plan.largeAccountSites, plan.accounts],
            ...[templates.fingerprints, templates.pieces, Math.floor(plan.orders * FORMER_ISSUER)],
          ])
      })
    })
    await db.query(sql.SAVE_PROGRESS, [plan.end])
    for (const table of sql.LOADED_TABLES) {
      signal.throwIfAborted()
      progress(`vacuum and statistics: ${table}`)
      await db.query(sql.vacuum(table), [])
    }
    progress('')
    write(renderSizes(await db.query<Size>(sql.SIZES, [sql.LOADED_TABLES]), plan.certificates))
    const [large] = await db.query<{ id: string }>(sql.LARGE_ACCOUNT, [plan.accounts, start])
    write(`account with about ${plan.largeAccountOrders} orders: ${large?.id}; its key: ${key.file}`)
  } finally {
    progress('')
    await target.close()
  }
}

async function openTarget(raw: Raw, connections: number, write: (line: string) => void): Promise<Target> {
  const { database, 'data-dir': dataDir } = raw
  if ((database === undefined) === (dataDir === undefined)) throw usage('name either --database or --data-dir')
  return database === undefined
    ? openDataDir(path.resolve(String(dataDir)), connections, write)
    : openUrl(String(database), connections)
}

/** The figures of an earlier call count with its date: its rows follow from them. */
async function requirePlan(db: Database, figures: LoadFigures, force: boolean): Promise<LoadPlan> {
  const [state] = await db.query<{ marked: boolean; used: boolean }>(sql.FIND_MARKER, [])
  if (state?.used && !state.marked && !force)
    throw new Error('this database has accounts that are not of a load; --force fills it nevertheless')
  await db.query(sql.CREATE_MARKER, [])
  await db.query(sql.SAVE_FIGURES, [JSON.stringify({ ...figures, end: Date.now() })])
  type Marker = { kind: string; figures: (LoadFigures & { end: number }) | null }
  const saved = (await db.query<Marker>(sql.READ_MARKER, [])).find(({ kind }) => kind === 'figures')?.figures
  if (!saved) throw new Error('the figures of the load are missing in bench_load')
  const { end, ...earlier } = saved
  const different = Object.entries(figures).filter(([name, value]) => earlier[name as keyof LoadFigures] !== value)
  if (different.length > 0)
    throw new Error(
      `this database was filled with other figures: ${JSON.stringify(earlier)}; use those, or another one`,
    )
  return planOf(figures, end)
}

async function issuerOf(raw: Raw, { db, issuer }: Target): Promise<Buffer> {
  if (raw['issuer'] !== undefined) {
    const [first] = decodePem(readFileSync(String(raw['issuer']), 'utf8'))
    if (!first) throw usage(`--issuer ${raw['issuer']}: no certificate in it`)
    return first.der
  }
  const [newest] = await db.query<{ certificate: Buffer }>(sql.NEWEST_ISSUER, [])
  return issuer ?? newest?.certificate ?? newIssuer('Load Issuer')
}

async function saveIssuers(db: Database, current: Buffer) {
  const [known] = await db.query<{ certificate: Buffer }>(sql.FORMER_ISSUER, [])
  const former = known?.certificate ?? newIssuer('Former Load Issuer')
  const issuers = [former, current]
  const fingerprints = issuers.map((issuer) => Buffer.from(fingerprintSha256(issuer), 'hex'))
  for (const [i, issuer] of issuers.entries()) await db.query(sql.SAVE_ISSUER, [fingerprints[i], issuer])
  if (!known) await db.query(sql.SAVE_FORMER_ISSUER, [fingerprints[0]?.toString('hex')])
  return { fingerprints, pieces: issuers.flatMap((issuer) => [false, true].flatMap((www) => cutTemplate(issuer, www))) }
}

async function fill(
  db: Database,
  plan: LoadPlan,
  connections: number,
  progress: (line: string) => void,
  insert: (batch: Batch) => Promise<void>,
): Promise<void> {
  const done = new Set(
    (await db.query<{ kind: string; first: number }>(sql.READ_MARKER, [])).map(({ kind, first }) => `${kind} ${first}`),
  )
  const batches = batchesOf(plan).filter(({ kind, from }) => !done.has(`${kind} ${from}`))
  const total = batches.reduce((sum, { from, to }) => sum + to - from, 0)
  const startedAt = performance.now()
  let rows = 0
  const waiting = batches.values()
  async function work(): Promise<void> {
    for (const batch of waiting) {
      await insert(batch)
      rows += batch.to - batch.from
      progress(renderProgress(batch.kind, rows, total, (performance.now() - startedAt) / 1000))
    }
  }
  await Promise.all(Array.from({ length: connections }, work))
}

function renderProgress(kind: string, rows: number, total: number, seconds: number): string {
  const left = (seconds / rows) * (total - rows)
  const share = ((100 * rows) / total).toFixed(1)
  return `${kind}: ${share} %, ${Math.round(rows / seconds)} a second, ${Math.ceil(left)} s left`
}

/** The key of the large account: that of the file, or a new one. */
function accountKey(raw: Raw): { jwk: string; thumbprint: string; file: string } {
  const folder = raw['data-dir'] === undefined ? '.' : String(raw['data-dir'])
  const file = path.resolve(String(raw['account-key'] ?? path.join(folder, 'bench-account-key.pem')))
  if (!existsSync(file)) {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    writeFileSync(file, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 })
  }
  const { x, y } = createPublicKey(createPrivateKey(readFileSync(file))).export({ format: 'jwk' })
  const jwk = JSON.stringify({ crv: 'P-256', kty: 'EC', x, y })
  return { jwk, thumbprint: hash('sha256', jwk, 'base64url'), file }
}

function readFigures(raw: Raw): LoadFigures {
  const figures = {
    accounts: readNumber(raw, 'accounts', 2),
    certificates: readNumber(raw, 'certificates', 1),
    largeAccountOrders: readNumber(raw, 'large-account-orders', 0),
    historyDays: readNumber(raw, 'history-days', 1),
  }
  if (figures.largeAccountOrders > figures.certificates) throw usage('--large-account-orders: more than --certificates')
  return figures
}

function readNumber(raw: Raw, name: string, least: number): number {
  const value = Number(raw[name])
  if (Number.isInteger(value) && value >= least) return value
  throw usage(`--${name}: a whole number of at least ${least}`)
}
