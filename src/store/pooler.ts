/** Finds a pooler that gives one session of PostgreSQL to several connections. */

import type pg from './pg.ts'
import { type DatabaseSettings, openSession, placesOf } from './session.ts'

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
