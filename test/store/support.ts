/** What the tests of the store share: stores of two instances on one database, builders of rows, and forced races. */

import { randomBytes } from 'node:crypto'
import { after, afterEach, before } from 'node:test'
import pg from 'pg'
import type { Approval } from '../../src/domain/allowlist.ts'
import type { Account, Order } from '../../src/domain/records.ts'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import type { Identifier } from '../../src/shared/protocol/identifier.ts'
import {
  type AccountStore,
  createAccountStore,
  type NewAccount,
  type Requester,
} from '../../src/store/account-store.ts'
import { type AuthorizationStore, createAuthorizationStore } from '../../src/store/authorization-store.ts'
import { type CertificateStore, createCertificateStore } from '../../src/store/certificate-store.ts'
import { type Database, type DatabaseSettings, openDatabase } from '../../src/store/database.ts'
import { announceInstance, type InstancePresence } from '../../src/store/instance-presence.ts'
import { createIssuanceStore, type IssuanceIntent, type IssuanceStore } from '../../src/store/issuance-store.ts'
import {
  type AuthorizationCandidate,
  createOrderStore,
  type NewOrder,
  type OrderStore,
} from '../../src/store/order-store.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import type { DatabaseConnection } from '../support/postgres.ts'
import { until } from '../support/until.ts'

export interface Stores {
  accounts: AccountStore
  orders: OrderStore
  authorizations: AuthorizationStore
  certificates: CertificateStore
  issuance: IssuanceStore
}

export interface StoreFixture extends Stores {
  /** The same stores of a second instance, with connections and batches of its own. */
  other: Stores
  db: Database
  /** That of the second instance. */
  otherDb: Database
  settings: DatabaseSettings
  /** Any statement, beside the stores. */
  sql<Row extends pg.QueryResultRow = pg.QueryResultRow>(text: string, values?: unknown[]): Promise<Row[]>
  /**
   * Starts `work` while a row is locked, waits until `waiters` sessions of this database wait for a lock, and lets go: the
   * statements then meet at that row, whatever the speed of the machine.
   */
  meetAt<T>(lock: { text: string; values: unknown[] }, waiters: number, work: () => Promise<T>): Promise<T>
  close(): Promise<void>
}

export function settingsFor(connection: DatabaseConnection, maxConnections = 4): DatabaseSettings {
  return {
    hosts: [connection.host],
    port: connection.port,
    database: connection.database,
    user: connection.user,
    password: connection.password ?? '',
    sslmode: 'disable',
    maxConnections,
    connectionTimeoutMs: 10_000,
    idleTimeoutMs: 10_000,
    statementTimeoutMs: 30_000,
  }
}

export function storesOn(db: Database): Stores {
  return {
    accounts: createAccountStore(db),
    orders: createOrderStore(db),
    authorizations: createAuthorizationStore(db),
    certificates: createCertificateStore(db),
    issuance: createIssuanceStore(db),
  }
}

export async function openStores(): Promise<StoreFixture> {
  const database: TestDatabase = await testDatabase()
  const settings = settingsFor(database.connection)
  const ignore = () => undefined
  const db = openDatabase(settings, ignore)
  const otherDb = openDatabase(settings, ignore)
  const beside = new pg.Pool({ ...database.connection, max: 4 })
  beside.on('error', ignore)

  const waitersNow = async () => {
    const { rows } = await beside.query(
      "SELECT count(*)::integer AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
    )
    return rows[0].n
  }

  return {
    ...storesOn(db),
    other: storesOn(otherDb),
    db,
    otherDb,
    settings,
    async sql(text, values = []) {
      return (await beside.query(text, values)).rows
    },
    async meetAt({ text, values }, waiters, work) {
      const holder = await beside.connect()
      try {
        await holder.query('BEGIN')
        await holder.query(text, values)
        const working = work()
        await until(`${waiters} sessions wait for the locked row`, async () => (await waitersNow()) >= waiters)
        await holder.query('COMMIT')
        return await working
      } finally {
        holder.release()
      }
    },
    async close() {
      await Promise.all([db.close(), otherDb.close(), beside.end()])
      await database.drop()
    },
  }
}

/**
 * Those of a file or suite, from before its first test until after its last one.
 * @param closing what uses them and ends before them
 */
export function useStores(closing?: () => Promise<unknown>): StoreFixture {
  const stores = {} as StoreFixture
  before(async () => void Object.assign(stores, await openStores()))
  after(async () => {
    await closing?.()
    await stores.close()
  })
  return stores
}

/** Live instances on the database of a suite, which go with the test that has announced them. */
export function useInstances(store: Pick<StoreFixture, 'settings'>) {
  const announced: InstancePresence[] = []
  afterEach(() => Promise.all(announced.splice(0).map((presence) => presence.close())))
  return async (onLost: (error: Error) => void = () => undefined, over: Partial<DatabaseSettings> = {}) => {
    const presence = await announceInstance({ ...store.settings, ...over }, onLost)
    announced.push(presence)
    return presence
  }
}

/** What each of a batch was told, or `failed`. */
export const answers = (results: readonly PromiseSettledResult<unknown>[]) =>
  results.map((result) => (result.status === 'fulfilled' ? result.value : 'failed'))

function failure(code: string): Error {
  const error = new pg.DatabaseError(`injected ${code}`, 0, 'error')
  error.code = code
  return error
}

/** A database where runs of some statements fail with an SQLSTATE before they begin: for what cannot be forced at PostgreSQL. */
export function refusing(db: Database, refusalOf: (statement: string) => string | undefined): Database {
  const { pipeline } = db
  return {
    ...db,
    pipeline: {
      ...pipeline,
      run(statement, values) {
        const code = refusalOf(statement.name)
        return code === undefined ? pipeline.run(statement, values) : Promise.reject(failure(code))
      },
    },
  }
}

/** Lets a row of this table be past its end. */
export const expire = (
  { sql }: Pick<StoreFixture, 'sql'>,
  table: 'orders' | 'authorizations',
  id: string | undefined,
) => sql(`UPDATE ${table} SET expires_at = now() - interval '1 second' WHERE id = $1`, [id])

const HOUR_MS = 3_600_000
export const inHours = (hours: number) => new Date(Date.now() + hours * HOUR_MS)

let counter = 0
/** A name that no other test of this process uses. */
export const aName = (label = 'host') => `${label}${++counter}.example`
export const newId = () => uuidv7(Date.now())
export const newAuthorizationId = () => `${newId().slice(0, -1)}0`

export function aNewAccount(over: Partial<NewAccount> = {}): NewAccount {
  const thumbprint = randomBytes(32).toString('base64url')
  return {
    id: newId(),
    thumbprint,
    jwk: `{"kty":"test","x":"${thumbprint}"}`,
    contacts: [],
    termsAgreed: true,
    ...over,
  }
}

/** Gives a row a key as if it had been made at `madeAt`, and the expiry of that lifetime. @returns the new id */
export async function rekey(
  { sql }: Pick<StoreFixture, 'sql'>,
  table: 'orders' | 'authorizations',
  id: string,
  madeAt: number,
  lifetimeMs: number,
): Promise<string> {
  const time = madeAt.toString(16).padStart(12, '0')
  const aged = `${time.slice(0, 8)}-${time.slice(8)}${id.slice(13)}`
  await sql(`UPDATE ${table} SET id = $2, expires_at = $3 WHERE id = $1`, [id, aged, new Date(madeAt + lifetimeMs)])
  return aged
}

/** As if all clocks had jumped ahead by so many days just now: what is right by now() was not yet before. */
export async function jumped({ sql }: Pick<StoreFixture, 'sql'>, days: number): Promise<void> {
  await sql('INSERT INTO slow_clock (at) VALUES (now() - make_interval(days => $1))', [days])
}

export const requesterOf = ({ id, keyVersion }: Account): Requester => ({ accountId: id, keyVersion })

export async function anAccount({ accounts }: Pick<Stores, 'accounts'>, over: Partial<NewAccount> = {}) {
  const { account } = await accounts.create(aNewAccount(over))
  return { account, requester: requesterOf(account) }
}

export function aCandidate(over: Partial<AuthorizationCandidate> = {}): AuthorizationCandidate {
  return {
    id: newAuthorizationId(),
    identifier: { type: 'dns', value: aName() },
    wildcard: false,
    token: randomBytes(32).toString('base64url'),
    offered: ['http-01', 'dns-01'],
    expiresAt: inHours(24),
    ...over,
  }
}

export const preAuthorizing = (requester: Requester, candidate: AuthorizationCandidate, approval?: Approval) => ({
  requester,
  candidate,
  reuseUntil: inHours(1),
  approval,
})

/** An order for `names`, each with a candidate; a leading `*.` makes a wildcard. */
export function aNewOrder(requester: Requester, over: Partial<NewOrder> = {}, names = [aName()]): NewOrder {
  const identifiers: Identifier[] = names.map((value) => ({ type: 'dns', value }))
  return {
    id: newId(),
    requester,
    identifiers,
    profile: 'default',
    notBefore: undefined,
    notAfter: undefined,
    expiresAt: inHours(24),
    authorizations: names.map((value) =>
      aCandidate({
        identifier: { type: 'dns', value: value.replace(/^\*\./, '') },
        wildcard: value.startsWith('*.'),
      }),
    ),
    reuseUntil: inHours(1),
    ...over,
  }
}

/** @throws Error when the store says that the account is stale */
export async function anOrder(fixture: Stores, requester: Requester, over: Partial<NewOrder> = {}, names?: string[]) {
  const order = await fixture.orders.create(aNewOrder(requester, over, names))
  if (typeof order === 'symbol') throw new Error('the account of the order is stale')
  return order
}

/** Makes every authorization of an order valid, as a validation does. */
export async function authorize({ authorizations }: Stores, requester: Requester, order: Order): Promise<void> {
  for (const authorizationId of order.authorizationIds) {
    await authorizations.trigger({ requester, authorizationId, type: 'http-01', instanceId: 1 })
    await authorizations.recordAttempt({
      authorizationId,
      type: 'http-01',
      attempt: { status: 'valid', tries: 0, validated: '2026-01-01T00:00:00Z' },
      outcome: 'valid',
      instanceId: 1,
    })
  }
}

export async function aReadyOrder(
  fixture: Stores,
  requester: Requester,
  over: Partial<NewOrder> = {},
  names?: string[],
) {
  const order = await anOrder(fixture, requester, over, names)
  await authorize(fixture, requester, order)
  return order
}

export function anIntent(order: { id: string; requester: Requester } | undefined, over: Partial<IssuanceIntent> = {}) {
  return {
    certificateId: newId(),
    order,
    serialNumber: Buffer.concat([Buffer.from([1]), randomBytes(15)]),
    issuerId: 'default',
    issuerFingerprint: Buffer.alloc(32, 7),
    tbs: randomBytes(64),
    spkiSha256: randomBytes(32),
    instanceId: 1,
    ...over,
  }
}

export function anIssued({ certificateId, tbs }: IssuanceIntent, names = ['host.example']) {
  return {
    certificateId,
    der: Buffer.concat([Buffer.from('signed '), tbs]),
    names,
    notBefore: new Date('2026-01-01T00:00:00Z'),
    notAfter: new Date('2026-04-01T00:00:00Z'),
  }
}

/** A certificate of a new order, which is recorded. */
export async function aCertificate(
  fixture: Stores,
  requester: Requester,
  {
    names,
    intent: over,
    issued: more,
  }: {
    names?: string[]
    intent?: Partial<IssuanceIntent>
    issued?: Partial<ReturnType<typeof anIssued>>
  } = {},
) {
  const order = await aReadyOrder(fixture, requester, {}, names)
  const intent = anIntent({ id: order.id, requester }, over)
  const issued = { ...anIssued(intent, names), ...more }
  if (!(await fixture.issuance.begin(intent)) || !(await fixture.issuance.complete(issued)))
    throw new Error('the certificate was not recorded')
  return { order, intent, issued }
}

/** A call of a backend that the end of the service meets, and which then fails for that reason. */
export const cutOff = (signal: AbortSignal, stopping: AbortController) =>
  new Promise<undefined>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason))
    stopping.abort(new Error('the service is stopping'))
  })

/** As many as there are `true` among the outcomes of a race. */
export const winners = (outcomes: readonly unknown[]) => outcomes.filter((outcome) => outcome === true).length
