/**
 * How every session begins: on a host whose database takes writes, and with the settings that all
 * statements of the service need.
 *
 * SQL sets them, because pgbouncer refuses `options` and time-outs as start-up parameters. The round trip also asks
 * whether the database takes writes: a standby answers reads, and would be taken for a database that works.
 */

import pg, { cutOff, type SslMode, tlsOptions } from './pg.ts'
import type { Statement } from './pipeline.ts'

/**
 * Makes commits wait for the disk: what clients know of must survive a crash. Replaces only `off`, which no start-up
 * parameter could do; transactions on unlogged tables alone wait for no disk all the same.
 */
const DURABLE_COMMITS = `
  CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'local', false) END`

export interface DatabaseSettings {
  /** Names of hosts, or folders with a Unix socket. Sessions begin on the first that takes writes. */
  hosts: readonly string[]
  port: number
  database: string
  user: string
  password: string
  /** libpq's words; `allow` means the same as `prefer`. */
  sslmode: SslMode
  /** PEM; the roots of Node.js when absent. */
  rootCertificates?: string
  maxConnections: number
  /** Idle connections are closed down to this many; none when absent. */
  minConnections?: number
  connectionTimeoutMs: number
  idleTimeoutMs: number
  /** Bound of every statement, at the server and at the client; 0 for none. */
  statementTimeoutMs: number
  /** Whether a session may begin only where decisions were compared (incarnation.ts); asked for each. Absent for no. */
  requireCompared?: () => boolean
}

/** For people: each host with its port. */
export const placesOf = ({ hosts, port }: DatabaseSettings): string => hosts.map((host) => `${host}:${port}`).join(', ')

/** Names and values of PostgreSQL's settings. */
export type SessionSettings = Readonly<Record<string, string | number>>

/** The database is a standby, or its sessions are read-only: SQLSTATE 25006, before the first statement. */
class TakesNoWrites extends Error {
  readonly code = '25006'

  constructor(host: string, isStandby: boolean) {
    super(`the database at ${host} ${isStandby ? 'is a standby' : 'is read-only'} and takes no writes`)
    this.name = 'TakesNoWrites'
  }
}

/** The encoding cannot hold every text, or `lower('I')` is not `i`, as in Turkish: names in DNS are compared so. */
class UnusableText extends Error {
  constructor(host: string, is: string) {
    super(
      `the database at ${host} has the ${is}; make one with: createdb --template=template0 --encoding=UTF8 --locale=C.UTF-8`,
    )
    this.name = 'UnusableText'
  }
}

/** pg's options for one host. */
export function connectionOptions(settings: DatabaseSettings, host: string): pg.ClientConfig {
  return {
    host,
    port: settings.port,
    database: settings.database,
    user: settings.user,
    password: settings.password,
    connectionTimeoutMillis: settings.connectionTimeoutMs,
    application_name: 'chancery',
    ...(settings.statementTimeoutMs > 0 && { query_timeout: settings.statementTimeoutMs + 1000 }),
    ssl: tlsOptions(host, settings.sslmode, settings.rootCertificates),
  }
}

/** The second one ends a transaction whose thread has died or hangs. */
export const timeLimits = (ms: number): SessionSettings => ({
  statement_timeout: ms,
  idle_in_transaction_session_timeout: ms,
})

/** A role or a database may set these, and then text means something else: with another DateStyle no date is read. */
const MEANING: SessionSettings = {
  DateStyle: 'ISO, YMD',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  array_nulls: 'on',
  bytea_output: 'hex',
  extra_float_digits: 1,
  standard_conforming_strings: 'on',
  transform_null_equals: 'off',
}

/** jit: compiling a plan took 1.6 s for a list of certificates, and pays for no statement of the service. */
const ALWAYS: SessionSettings = {
  ...MEANING,
  default_transaction_isolation: 'read committed',
  lock_timeout: 0,
  statement_timeout: 0,
  idle_in_transaction_session_timeout: 0,
  idle_session_timeout: 0,
  jit: 'off',
}

/** Only PostgreSQL 17 and later have it. */
const NO_TIMEOUT_OF_TRANSACTIONS = `
  (SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'transaction_timeout')`

const assigned = (settings: SessionSettings): string =>
  Object.entries(settings)
    .map(([name, value]) => `set_config('${name}', '${value}', false)`)
    .join(', ')

/** For a session with a database that is not ours, and maybe of an older PostgreSQL. */
export async function readPlainText(client: Queryable): Promise<void> {
  await client.query(`SELECT ${assigned(MEANING)}`)
}

interface Queryable {
  query(text: string): Promise<{ rows: Record<string, unknown>[] }>
}

/**
 * Call it on a new connection, before its first statement.
 * @returns which server it is: no two begin in the same microsecond, and a new start counts as another
 * @throws TakesNoWrites, UnusableText or the connection's failure; the connection must not be used then
 */
export async function beginSession(client: Queryable, host: string, settings: SessionSettings): Promise<string> {
  const { rows } = await client.query(`
    SELECT pg_is_in_recovery() AS is_standby, current_setting('transaction_read_only') AS read_only,
           current_setting('server_encoding') AS encoding, lower('I') = 'i' AS knows_ascii,
           extract(epoch FROM pg_postmaster_start_time())::text AS server,
           ${DURABLE_COMMITS}, ${NO_TIMEOUT_OF_TRANSACTIONS}, ${assigned({ ...ALWAYS, ...settings })}`)
  const { is_standby: isStandby, read_only: readOnly, encoding, knows_ascii: knowsAscii, server } = rows[0] ?? {}
  if (isStandby === true || readOnly === 'on') throw new TakesNoWrites(host, isStandby === true)
  if (encoding !== 'UTF8') throw new UnusableText(host, `encoding ${encoding}`)
  if (knowsAscii !== true) throw new UnusableText(host, 'locale of a language whose small I is no i')
  return String(server)
}

/** A session of its own, outside any pool. */
interface Primary {
  client: pg.Client
  host: string
  /** `beginSession` returns it. */
  server: string
}

/**
 * Opens a connection of its own, for locks and migrations.
 * @throws Error that names the settings; its cause is the connection's
 */
export async function openSession(settings: DatabaseSettings): Promise<pg.Client> {
  return (await openPrimary(settings)).client
}

/**
 * Asks all hosts at once: one that is cut off would hold up the others. The first session that has begun stays.
 * @throws as `openSession`
 */
export async function openPrimary(settings: DatabaseSettings): Promise<Primary> {
  const found = new AbortController()
  const attempts = settings.hosts.map((host) => openOn(host, settings, found.signal))
  try {
    const primary = await Promise.any(attempts)
    found.abort()
    for (const attempt of attempts)
      void attempt.then(
        ({ client }) => endOther(client, primary.client),
        () => undefined,
      )
    return primary
  } catch (error) {
    throw cannotConnect(settings, new NoSession((error as AggregateError).errors))
  }
}

/** Ends a session that has begun at the same moment on another host. */
async function endOther(client: pg.Client, chosen: pg.Client): Promise<void> {
  if (client !== chosen) await client.end().catch(() => undefined) // nothing ran on it
}

/** @param found another host was faster */
async function openOn(host: string, settings: DatabaseSettings, found: AbortSignal): Promise<Primary> {
  const client = new pg.Client({ ...connectionOptions(settings, host), keepAlive: true })
  // The running statement, or the next one, fails with it. Without a listener it would end the process.
  client.on('error', () => undefined)
  const giveUp = () => cutOff(client)
  found.addEventListener('abort', giveUp)
  try {
    await client.connect()
    const server = await beginSession(client, host, timeLimits(settings.statementTimeoutMs))
    return { client, host, server }
  } catch (error) {
    await client.end().catch(() => undefined) // the first error says what was wrong
    throw error
  } finally {
    found.removeEventListener('abort', giveUp)
  }
}

function cannotConnect(settings: DatabaseSettings, { message, cause }: NoSession): Error {
  const { database, user, password, sslmode } = settings
  const wantsPassword = !password && /^SASL/.test(message)
  const isAboutTls = /does not support SSL|certificate/i.test(message)
  const reason = wantsPassword ? 'the server asks for a password, and database.password is not set' : message
  const hint = isAboutTls ? `; database.sslmode is ${sslmode}, docs/operations/database.md says which there are` : ''
  return new Error(`cannot connect to database ${database} at ${placesOf(settings)} as ${user}: ${reason}${hint}`, {
    cause,
  })
}

/** The hosts of one pool. The one that took the last session is asked first. */
export class Hosts {
  readonly #all: readonly string[]
  #at = 0

  constructor(all: readonly string[]) {
    this.#all = all
  }

  get current(): string {
    return this.#all[this.#at] ?? ''
  }

  /** The next session is begun on the next host, unless another failure has seen to that. */
  leave(host: string): void {
    if (host === this.current) this.#at = (this.#at + 1) % this.#all.length
  }

  /** The next session is begun there. */
  turnTo(host: string): void {
    const at = this.#all.indexOf(host)
    if (at >= 0) this.#at = at
  }

  /**
   * Repeats an attempt while it leaves hosts, until each has had its turn.
   * @throws NoSession
   */
  async find<T>(attempt: (host: string) => Promise<T>): Promise<T> {
    const failures: Error[] = []
    for (;;) {
      const host = this.current
      try {
        return await attempt(host)
      } catch (error) {
        failures.push(error as Error)
        if (failures.length === this.#all.length || host === this.current) throw new NoSession(failures)
      }
    }
  }
}

/**
 * No host let a session begin: what each said, with the code of the last. For a service that runs the database is away,
 * whatever the reason: also an expired certificate or a changed password. A start judges the cause.
 */
export class NoSession extends Error {
  readonly code: unknown

  constructor(failures: readonly Error[]) {
    const cause = failures.at(-1) as Error & { code?: unknown }
    super([...new Set(failures.map(({ message }) => message))].join('; '), { cause })
    this.code = cause.code
  }
}

const UNSAFE: Statement = {
  name: 'durability-unsafe',
  // The value of RESET: the operator's level, whatever this connection has set.
  text: `
    SELECT name FROM pg_settings
     WHERE name IN ('fsync', 'synchronous_commit') AND reset_val = 'off' ORDER BY name`,
}

const SENTENCES: Readonly<Record<string, string>> = {
  fsync:
    'fsync is off in PostgreSQL: a crash of its machine can ruin the whole database, and lose certificates and revocations that clients were told of',
  synchronous_commit:
    'synchronous_commit is off in PostgreSQL; the connections of the service set it to local, so that what they commit is on disk',
}

/** @returns warnings about server settings that may lose data; usually none */
export async function durabilityWarnings(db: {
  query<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]>
}): Promise<string[]> {
  const rows = await db.query<{ name: string }>(UNSAFE, [])
  return rows.map(({ name }) => SENTENCES[name] as string)
}

/* Finds a pooler that gives one session of PostgreSQL to several connections. */

/** Session locks, prepared statements and settings would reach the wrong connection. */
export class SharedSessions extends Error {
  constructor(settings: DatabaseSettings) {
    super(
      `a pooler at ${placesOf(settings)} gives one session of PostgreSQL to several connections (pgbouncer: pool_mode = transaction or statement); set pool_mode = session for database ${settings.database}, or let database.host and database.port lead to PostgreSQL itself`,
    )
    this.name = 'SharedSessions'
  }
}

/** A busy pooler may give both connections sessions of their own for a moment. */
const ROUNDS = 5

/** @throws SharedSessions and connection errors */
export async function requireOwnSessions(settings: DatabaseSettings): Promise<void> {
  const one = await openSession(settings)
  try {
    const other = await openSession(settings)
    try {
      const own = await sessionOf(one)
      for (let round = 0; round < ROUNDS; round++) {
        const isShared = (await sessionOf(other)) === own || (await sessionOf(one)) !== own
        if (isShared) throw new SharedSessions(settings)
      }
    } finally {
      await other.end()
    }
  } finally {
    await one.end()
  }
}

async function sessionOf(client: pg.Client): Promise<unknown> {
  return (await client.query('SELECT pg_backend_pid() AS pid')).rows[0]?.pid
}
