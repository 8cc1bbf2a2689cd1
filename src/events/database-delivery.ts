/** Delivers to a consumer that writes to the database alone. */

import type { DatabasePool } from 'slonik'
import { takeDeliveries } from '../store/event-store.ts'
import type { DatabaseConsumer } from './consumer.ts'

const BATCH = 200

/** @returns how many events it took; a full batch means that more wait */
export function takeBatch(db: DatabasePool, consumer: DatabaseConsumer): Promise<number> {
  return db.transaction(async (tx) => {
    const deliveries = await takeDeliveries(tx, consumer.name, BATCH)
    if (deliveries.length === 0) return 0
    await consumer.take(
      deliveries.map(({ event }) => event),
      tx,
    )
    return deliveries.length
  })
}

export const isFull = (taken: number) => taken === BATCH
