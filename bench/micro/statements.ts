/**
 * Each statement that issuing a certificate takes, and those of requests around it, through the stores that the service uses, against a database
 * of its own.
 *
 * The statements stand in the order of a certificate's life, because each needs what the ones before have made.
 *
 * `fsync` is off: it costs time and no CPU. CPU is that of the one backend and of this process, which plays the front.
 */

import { randomBytes } from 'node:crypto'
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/dev/postgres.ts'
import { createAccountStore } from '../../src/store/account-store.ts'
import { createAuthorizationStore } from '../../src/store/authorization-store.ts'
import { createCertificateStore } from '../../src/store/certificate-store.ts'
import { type Database, openDatabase } from '../../src/store/database.ts'
import { createIssuanceStore } from '../../src/store/issuance-store.ts'
import { migrate } from '../../src/store/migrate.ts'
import { createNonceStore } from '../../src/store/nonce-store.ts'
import { createOrderStore } from '../../src/store/order-store.ts'
import { createRateLimitStore } from '../../src/store/rate-limit-store.ts'
import { createRenewalStore } from '../../src/store/renewal-store.ts'
import { parseProcStat, TICKS_PER_SECOND } from '../measure/proc-stat.ts'
import { type Life, livesOf } from './life.ts'
import { type Done, type MicroGroup, type MicroSettings, microsSince } from './micro.ts'

type Stores = ReturnType<typeof storesOf>

/** One command for one certificate. @throws Error when the statement did not do what it is for */
type Command = (stores: Stores, life: Life) => Promise<unknown>

interface Step {
  run: Command
  /** Of all certificates, before the first is measured. */
  prepare?: Command
  /** The store sends a statement for each command: measured once, without batches. */
  isAlone?: true
}

/** With the default of `acme.orders_page_size`: one more says that there is another page. */
const ORDERS_PAGE = 51

const STEPS: Readonly<Record<string, Step>> = {
  'account-create': {
    run: async ({ accounts }, { account }) => {
      if (!(await accounts.create(account)).created) throw new Error('the account was there')
    },
  },
  'account-find': { run: async ({ accounts }, { account }) => requireFound(await accounts.find(account.id)) },
  // With `nonce.store: database`.
  'nonce-redeem': { run: async ({ nonces }, { redemption }) => requireTrue(await nonces.redeem(redemption)) },
  // With `security.rate_limits.backend: database`: new-order of an address that came before, for a name that did not.
  'rate-limit-charge': {
    prepare: ({ limits }, { charges }) => limits.charge([charges.address]),
    run: async ({ limits }, { charges }) =>
      requireTrue((await limits.charge([charges.address, charges.identifier])) === undefined),
  },
  'order-create': { run: ({ orders }, { order }) => orders.create(order) },
  'authorization-find': {
    run: ({ authorizations }, { requester, authorizationId }) => authorizations.find({ requester, authorizationId }),
  },
  'attempt-unclaimed': {
    run: async ({ authorizations }, { attempt }) => requireTrue(await authorizations.recordAttempt(attempt)),
  },
  'order-find': { run: ({ orders }, { requester, order }) => orders.find({ requester, orderId: order.id }) },
  'issuance-begin': { run: async ({ issuance }, { intent }) => requireTrue(await issuance.begin(intent)) },
  'issuance-complete': { run: async ({ issuance }, { issued }) => requireTrue(await issuance.complete(issued)) },
  'certificate-find': {
    run: ({ certificates }, { requester, issued: { certificateId } }) =>
      certificates.find({ requester, certificateId }),
  },
  'renewal-find': {
    run: async ({ renewal }, { intent }) => requireFound(await renewal.findBySerial(intent.serialNumber)),
  },
  // An attempt that is not over soon enough is claimed, and then recorded under its claim.
  'claim-trigger': {
    prepare: ({ orders }, { claimed }) => orders.create(claimed.order),
    run: async ({ authorizations }, { claimed }) => {
      const triggered = await authorizations.trigger(claimed.trigger)
      if (typeof triggered !== 'object' || !triggered.moved) throw new Error('the challenge was not triggered')
    },
  },
  'claim-attempt': {
    run: async ({ authorizations }, { claimed }) => requireTrue(await authorizations.recordAttempt(claimed.attempt)),
  },
  // Of the two orders that an account has by now.
  'account-orders': {
    isAlone: true,
    run: async ({ orders }, { requester }) => {
      const ids = await orders.list(requester, undefined, ORDERS_PAGE)
      requireTrue(typeof ids === 'object' && ids.length === 2)
    },
  },
}

const PREPARED_AT_ONCE = 16
const EPOCH_LIFE_SECONDS = 3600

export const STATEMENTS: MicroGroup = {
  names: Object.keys(STEPS),
  summary:
    "the statements of a certificate's life and of requests around it, through the stores; other: the PostgreSQL backend",
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
  const issuerFingerprint = randomBytes(32)
  const counted = countingStatements(db)
  const stores = storesOf(counted)
  const backendMicros = await backendOf(db)
  await stores.certificates.saveIssuer(issuerFingerprint, randomBytes(400), [])
  await stores.nonces.renew(() => randomBytes(32), EPOCH_LIFE_SECONDS)
  const [epoch] = await stores.nonces.epochs()
  if (!epoch) throw new Error('no key for nonces was made')
  // The first turn compiles and prepares, and is not told.
  for (const [turn, batch] of [1, ...batches].entries()) {
    const lives = livesOf(Math.ceil(rows / batch) * batch, { issuerFingerprint, epoch })
    const inBatches = async (command: Command, size: number) => {
      for (let at = 0; at < lives.length; at += size) {
        signal.throwIfAborted()
        // Commands of one turn of the event loop go as one statement.
        await Promise.all(lives.slice(at, at + size).map((life) => command(stores, life)))
      }
    }
    for (const [name, { run, prepare, isAlone }] of Object.entries(STEPS)) {
      const size = isAlone ? 1 : batch
      if (isAlone && turn > 1) continue
      if (prepare) await inBatches(prepare, PREPARED_AT_ONCE)
      const [own, other, sent] = [process.cpuUsage(), backendMicros(), counted.sent]
      await inBatches(run, size)
      if (counted.sent - sent !== lives.length / size)
        throw new Error(`${name}: ${counted.sent - sent} statements for ${lives.length} commands in batches of ${size}`)
      if (turn === 0 || !wanted(name)) continue
      const each = (total: number) => total / lives.length
      const used = { own: each(microsSince(own)), other: each(backendMicros() - other) }
      await done({ name, ...(!isAlone && { batch }), ...used, operations: lives.length })
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
    nonces: createNonceStore(db),
    limits: createRateLimitStore(db),
    renewal: createRenewalStore(db),
  }
}

/** CPU of the one connection's process. */
async function backendOf(db: Database): Promise<() => number> {
  const [row] = await db.query<{ pid: number }>({ name: 'backend', text: 'SELECT pg_backend_pid() AS pid' }, [])
  const stat = `/proc/${row?.pid}/stat`
  return () => (parseProcStat(readFileSync(stat, 'latin1')).ownTicks * 1_000_000) / TICKS_PER_SECOND
}

function requireFound(found: unknown): void {
  requireTrue(found !== undefined)
}

function requireTrue(done: boolean): void {
  if (!done) throw new Error('the statement did not do what it is for')
}
