/**
 * What was committed is on disk: a certificate, a revocation or an account that a client was told of must outlive a crash.
 *
 * With `synchronous_commit = off` PostgreSQL answers a commit before it is. The role, the database or the server may have
 * it so for others, so each connection looks once, when it is new, and sets `local` where it finds `off`; a level that waits at least for
 * the own disk is the operator's choice and stays. A start-up parameter would need no round trip, and would overrule that
 * choice, or miss what is changed while the service runs. Nonces and rate limits cost nothing more by it: a transaction that wrote to unlogged
 * tables only waits for no disk.
 */

import type pg from './pg.ts'
import type { Statement } from './statement-group.ts'

const AWAIT_DISK = `
  SELECT set_config('synchronous_commit', 'local', false) WHERE current_setting('synchronous_commit') = 'off'`

/** For a new connection, before its first statement. @throws what the connection fails with; it is not to be used then */
export async function awaitDiskAtCommit(client: pg.ClientBase): Promise<void> {
  await client.query(AWAIT_DISK)
}

const UNSAFE: Statement = {
  name: 'durability-unsafe',
  // What RESET would bring back: as the operator has it, whatever this connection has set.
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

/** @returns sentences for the operator on what of the server's settings may lose data; none as a rule */
export async function durabilityWarnings(db: Queryable): Promise<string[]> {
  const rows = await db.query<{ name: string }>(UNSAFE, [])
  return rows.map(({ name }) => SENTENCES[name] as string)
}
