/**
 * Shape of the state tables in this folder: status → event → next status. Final statuses have empty
 * rows.
 */

export type StateTable = Readonly<Record<string, Readonly<Record<string, string>>>>

/** Statuses of a table. */
export type StatusOf<T extends StateTable> = keyof T & string
/** Events of all rows of a table. */
export type EventOf<T extends StateTable> = { [S in keyof T]: keyof T[S] }[keyof T] & string

/** Statuses in which `event` is allowed. */
export function statusesAllowing<T extends StateTable>(table: T, event: EventOf<T>): StatusOf<T>[] {
  return statusesOf(table).filter((status) => event in (table[status] ?? {}))
}

/** The status that `event` leads to. @throws when the table has none, or several */
export function statusAfter<T extends StateTable>(table: T, event: EventOf<T>): StatusOf<T> {
  const targets = new Set(statusesAllowing(table, event).map((status) => table[status]?.[event]))
  const [target] = targets
  if (target === undefined || targets.size !== 1)
    throw new Error(`${event} leads to ${targets.size} statuses, not to one`)
  return target
}

/** Statuses that no event changes. */
export function finalStatuses<T extends StateTable>(table: T): StatusOf<T>[] {
  return statusesOf(table).filter((status) => Object.keys(table[status] ?? {}).length === 0)
}

function statusesOf<T extends StateTable>(table: T): StatusOf<T>[] {
  return Object.keys(table)
}
