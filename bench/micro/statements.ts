/**
 * Each statement that issuing a certificate takes, through the stores that the service uses, against a database of its own.
 *
 * The statements stand in the order of a certificate's life, because each needs what the ones before have made.
 *
 * `fsync` is off: it costs time and no CPU. CPU is that of the one backend and of this process, which plays the front.
 */

import { randomBytes } from 'node:crypto'
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/main/embedded/postgres.ts'
import { createAccountStore } from '../../src/store/account-store.ts'
import { createAuthorizationStore } from '../../src/store/authorization-store.ts'
import { createCertificateStore } from '../../src/store/certificate-store.ts'
import { type Database, openDatabase } from '../../src/store/database.ts'
import { createIssuanceStore } from '../../src/store/issuance-store.ts'
import { migrate } from '../../src/store/migrate.ts'
import { createOrderStore } from '../../src/store/order-store.ts'
import { parseProcStat, TICKS_PER_SECOND } from '../measure/proc-stat.ts'
import { type Life, livesOf } from './life.ts'
import { type Done, type MicroGroup, type MicroSettings, microsSince } from './micro.ts'

type Stores = ReturnType<typeof storesOf>

/** One command for one certificate. @throws Error when the statement did not do what it is for */
type Step = (stores: Stores, life: Life) => Promise<unknown>

const STEPS: Readonly<Record<string, Step>> = {
  'account-create': async ({ accounts }, { account }) => {
    if (!(await accounts.create(account)).created) throw new Error('the account was there')
  },
  'order-create': ({ orders }, { order }) => orders.create(order),
  'authorization-find': ({ authorizations }, { requester, authorizationId }) =>
    authorizations.find({ requester, authorizationId }),
  'challenge-trigger': async ({ authorizations }, life) => {
    const triggered = await authorizations.trigger(life.trigger)
    if (typeof triggered !== 'object' || !triggered.moved) throw new Error('the challenge was not triggered')
  },
  'attempt-record': async ({ authorizations }, { attempt }) => requireTrue(await authorizations.recordAttempt(attempt)),
  'order-find': ({ orders }, { requester, order }) => orders.find({ requester, orderId: order.id }),
  'issuance-begin': async ({ issuance }, { intent }) => requireTrue(await issuance.begin(intent)),
  'issuance-complete': async ({ issuance }, { issued }) => requireTrue(await issuance.complete(issued)),
  'certificate-find': ({ certificates }, { requester, issued: { certificateId } }) =>
    certificates.find({ requester, certificateId }),
}

export const STATEMENTS: MicroGroup = {
  names: Object.keys(STEPS),
  summary: "the statements of a certificate's life, through the stores; other: the PostgreSQL backend",
  async run(wanted, settings, done) {
    if (!Object.keys(STEPS).some(wanted)) return
    const folder = mkdtempSync(path.join(tmpdir(), 'chancery-micro-'))
    // PostgreSQL may run as another user.
    chmodSync(folder, 0o755)
    let postgres: EmbeddedPostgres | undefined
    try {
      postgres = await startEmbeddedPostgres({ dataDir: folder, settings: { fsync: 'off' }, log: () => undefined })
      const database = {
        ...postgres.connection,
        password: '',
        sslmode: 'disable' as const,
        maxConnections: 1,
        ...{ connectionTimeoutMs: 10_000, idleTimeoutMs: 600_000, statementTimeoutMs: 60_000 },
      }
      await migrate(database)
      const db = openDatabase(database, () => undefined)
      try {
        await measureSteps(db, wanted, settings, done)
      } finally {
        await db.close()
      }
    } finally {
      await postgres?.stop()
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

async function measureSteps(
  db: Database,
  wanted: (name: string) => boolean,
  { rows, batches, signal }: MicroSettings,
  done: Done,
): Promise<void> {
  const issuer = randomBytes(32)
  const counted = countingStatements(db)
  const stores = storesOf(counted)
  const backendMicros = await backendOf(db)
  await stores.certificates.saveIssuer(issuer, randomBytes(400), [])
  // The first turn compiles and prepares, and is not told.
  for (const [turn, batch] of [1, ...batches].entries()) {
    const lives = livesOf(Math.ceil(rows / batch) * batch, issuer)
    for (const [name, step] of Object.entries(STEPS)) {
      const [own, other, sent] = [process.cpuUsage(), backendMicros(), counted.sent]
      for (let at = 0; at < lives.length; at += batch) {
        signal.throwIfAborted()
        // Commands of one turn of the event loop go as one statement.
        await Promise.all(lives.slice(at, at + batch).map((life) => step(stores, life)))
      }
      if (counted.sent - sent !== lives.length / batch)
        throw new Error(
          `${name}: ${counted.sent - sent} statements for ${lives.length} commands in batches of ${batch}`,
        )
      if (turn === 0 || !wanted(name)) continue
      const each = (total: number) => total / lives.length
      const used = { own: each(microsSince(own)), other: each(backendMicros() - other) }
      await done({ name, batch, ...used, operations: lives.length })
    }
  }
}

function countingStatements(db: Database): Database & { readonly sent: number } {
  let sent = 0
  return {
    ...db,
    get sent() {
      return sent
    },
    query(statement, values) {
      sent++
      return db.query(statement, values)
    },
    pipeline: {
      ...db.pipeline,
      run(statement, values) {
        sent++
        return db.pipeline.run(statement, values)
      },
    },
  }
}

function storesOf(db: Database) {
  return {
    accounts: createAccountStore(db),
    orders: createOrderStore(db),
    authorizations: createAuthorizationStore(db),
    issuance: createIssuanceStore(db),
    certificates: createCertificateStore(db),
  }
}

/** CPU of the one connection's process. */
async function backendOf(db: Database): Promise<() => number> {
  const [row] = await db.query<{ pid: number }>({ name: 'backend', text: 'SELECT pg_backend_pid() AS pid' }, [])
  const stat = `/proc/${row?.pid}/stat`
  return () => (parseProcStat(readFileSync(stat, 'latin1')).ownTicks * 1_000_000) / TICKS_PER_SECOND
}

function requireTrue(done: boolean): void {
  if (!done) throw new Error('the statement did not do what it is for')
}
