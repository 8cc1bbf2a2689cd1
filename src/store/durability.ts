/**
 * Makes commits wait for the disk: certificates, revocations and accounts that clients know of must
 * survive a crash.
 *
 * Under `synchronous_commit = off` PostgreSQL answers before the disk has the commit. Each new
 * connection reads the level of role, database and server, and replaces only `off`, by `local`. A
 * start-up parameter would save the round trip, but overrule the operator's stricter level. Nonces
 * and rate limits pay nothing: transactions on unlogged tables alone wait for no disk.
 */

import type { Statement } from './pipeline.ts'

/** For the statement that begins a session (session.ts). */
export const DURABLE_COMMITS = `
  CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'local', false) END`

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

interface Queryable {
  query<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]>
}

/** @returns warnings about server settings that may lose data; usually none */
export async function durabilityWarnings(db: Queryable): Promise<string[]> {
  const rows = await db.query<{ name: string }>(UNSAFE, [])
  return rows.map(({ name }) => SENTENCES[name] as string)
}
