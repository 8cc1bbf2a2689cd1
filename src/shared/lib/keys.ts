/** `Object.keys` with the type of the keys: for tables whose members are a closed set and never none. */

export function keysOf<K extends string>(table: Readonly<Record<K, unknown>>): [K, ...K[]] {
  return Object.keys(table) as [K, ...K[]]
}
