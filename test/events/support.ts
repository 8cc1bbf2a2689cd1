/** What the tests of consumers share: a database, an instance, and a delivery that runs. */

import assert from 'node:assert/strict'
import pg from 'pg'
import type { CommonQueryMethods } from 'slonik'
import { z } from 'zod/v4'
import type { OccurredEvent } from '../../src/domain/event.ts'
import { readEvent } from '../../src/domain/stored-event.ts'
import type { ExternalConsumer } from '../../src/events/consumer.ts'
import { ExternalDelivery } from '../../src/events/delivery.ts'
import { registerConsumer } from '../../src/events/event-store.ts'
import { announceInstance } from '../../src/store/instance-presence.ts'
import { openCheckedDatabase, rowsOf } from '../../src/store/slonik.ts'
import { settingsFor } from '../store/support.ts'
import { testDatabase } from '../support/database.ts'

export const silent = { delivered: () => {}, postponed: () => {}, buried: () => {}, failed: () => {}, misfit: () => {} }
const LOOK_MS = 20

const Stored = z.object({
  id: z.string(),
  kind: z.string(),
  subject: z.string(),
  account_id: z.string().nullable(),
  occurred_at: z.date(),
  data: z.record(z.string(), z.unknown()),
})

/** What waits for a consumer, in its order. Each payload must be as described. */
export async function eventsFor(db: CommonQueryMethods, consumer: string): Promise<readonly OccurredEvent[]> {
  const rows = await db.any(rowsOf(Stored)`
    SELECT event_id AS id, kind, subject, account_id, occurred_at, data FROM event_deliveries
     WHERE consumer = ${consumer} ORDER BY sequence`)
  return rows.map(({ account_id, occurred_at, ...row }) => {
    const event = readEvent({ ...row, accountId: account_id ?? undefined, occurredAt: occurred_at })
    assert.equal(event.misfit, undefined, `${event.kind}: ${event.misfit}`)
    return event
  })
}

export type EventFixture = Awaited<ReturnType<typeof eventFixture>>

export async function eventFixture() {
  const database = await testDatabase()
  const db = await openCheckedDatabase(settingsFor(database.connection, 6))
  const presence = await announceInstance(settingsFor(database.connection), () => undefined)
  const client = new pg.Client({ ...database.connection })
  await client.connect()
  const run = async (text: string, values: unknown[] = []) =>
    (await client.query<Record<string, unknown>>(text, values)).rows

  const running: { stop(): Promise<void> }[] = []
  return {
    db,
    instanceId: presence.instanceId,
    run,
    async waiting({ name }: ExternalConsumer): Promise<number> {
      return (await run('SELECT FROM event_deliveries WHERE consumer = $1', [name])).length
    },
    /** Delivers in the background until it is stopped. */
    async delivering(consumer: ExternalConsumer, name = consumer.name) {
      const named = { ...consumer, name }
      await registerConsumer(db, name, named.kinds)
      const delivery = new ExternalDelivery({ db, instanceId: presence.instanceId, consumer: named, events: silent })
      let stopped = false
      const loop = (async () => {
        while (!stopped)
          if ((await delivery.round()) === 0) await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
      })()
      const stop = async (deadlineMs = 2_000) => {
        if (stopped) return
        stopped = true
        await delivery.stop(deadlineMs)
        await loop
      }
      running.push({ stop })
      return {
        consumer: named,
        stop,
        /** It stops, and nothing is written for it any more. */
        async end() {
          await stop()
          await run('DELETE FROM event_consumers WHERE name = $1', [name])
        },
      }
    },
    async close() {
      // Of a test that failed: a file that still delivers never ends.
      for (const one of running) await one.stop()
      await client.end()
      await presence.close()
      await db.end()
      await database.drop()
    },
  }
}
