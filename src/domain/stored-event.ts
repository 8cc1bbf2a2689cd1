/** From an event as the database keeps it to the one that a consumer gets. */

import { EVENTS, type EventKind, type OccurredEvent } from './event.ts'

export interface StoredEvent {
  id: string
  kind: string
  subject: string
  accountId: string | undefined
  occurredAt: Date
  data: unknown
}

/**
 * A payload that does not fit must not stop the delivery: it is kept as it is, and `misfit` says why. A newer release may
 * have written it.
 */
export function readEvent(stored: StoredEvent): OccurredEvent {
  const misfit = misfitOf(stored)
  return { ...stored, ...(misfit !== undefined && { misfit }) } as OccurredEvent
}

function misfitOf({ kind, data }: StoredEvent): string | undefined {
  if (!Object.hasOwn(EVENTS, kind)) return 'this release does not know the kind'
  const { error } = EVENTS[kind as EventKind].payload.safeParse(data)
  return error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ')
}
