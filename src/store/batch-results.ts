/** Rows as results: of a batch by `ord` (`WITH ORDINALITY`), and without NULL. */

import { STALE_ACCOUNT, type StaleAccount } from './account-store.ts'

/** One result for each command, in their order; undefined for a command without a row. */
export function resultsByOrd<Row extends { ord: number }, Result>(
  rows: readonly Row[],
  commands: readonly unknown[],
  decode: (row: Row) => Result,
): (Result | undefined)[] {
  const results: (Result | undefined)[] = commands.map(() => undefined)
  for (const row of rows) results[row.ord - 1] = decode(row)
  return results
}

/** A row whose columns are named as in `Row`. Its NULLs become undefined in place. */
export function withoutNulls<Row extends object>(row: Row): Row {
  for (const column in row) if (row[column] === null) row[column] = undefined as never
  return row
}

/** Whether each command has a row. */
export function movedByOrd(rows: readonly { ord: number }[], commands: readonly unknown[]): boolean[] {
  const moved = new Set(rows.map((row) => row.ord))
  return commands.map((_, i) => moved.has(i + 1))
}

/** Decodes a row of a look-up joined to the account; a changed key makes it stale, no match undefined. */
export const unlessStale =
  <Row, Result>(decode: (row: Row) => Result) =>
  (row: Row & { stale: boolean; id: string | null }): Result | StaleAccount | undefined =>
    row.stale ? STALE_ACCOUNT : row.id === null ? undefined : decode(row)
