/**
 * `Object.keys` with the type of the keys, for tables with a fixed and non-empty set of members.
 */

export function keysOf<K extends string>(table: Readonly<Record<K, unknown>>): [K, ...K[]] {
  return Object.keys(table) as [K, ...K[]]
}
