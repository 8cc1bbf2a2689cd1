/** What the loaded tables take on disk, in all and for each certificate. */

export interface Size {
  table: string
  /** As PostgreSQL estimates them. */
  rows: number
  /** Null for the table itself. */
  index: string | null
  bytes: number
}

const MIB = 1024 * 1024

export function renderSizes(sizes: readonly Size[], certificates: number): string {
  const lines = sizes.map(({ table, rows, index, bytes }) =>
    row(index === null ? table : `  ${index}`, index === null ? rows : undefined, bytes, certificates),
  )
  const total = sizes.reduce((sum, { bytes }) => sum + bytes, 0)
  return [head(), ...lines, row('in all', undefined, total, certificates)].join('\n')
}

function head(): string {
  return `${'on disk'.padEnd(38)}${'rows'.padStart(12)}${'MiB'.padStart(10)}${'bytes a certificate'.padStart(22)}`
}

function row(name: string, rows: number | undefined, bytes: number, certificates: number): string {
  const count = rows === undefined ? '' : Math.round(rows).toLocaleString('en')
  const each = (bytes / certificates).toFixed(0)
  return `${name.padEnd(38)}${count.padStart(12)}${(bytes / MIB).toFixed(0).padStart(10)}${each.padStart(22)}`
}
