/** What commands print: rows of text as a table, or facts. */

/** Pads all columns but the last, so that long lists of names get no trailing spaces. */
export function tableOf<T>(
  heading: readonly string[],
  cells: (row: T) => readonly string[],
): (rows: readonly T[]) => string {
  return (rows) => {
    const lines = [heading, ...rows.map(cells)]
    const widths = heading.map((_, i) => Math.max(...lines.map((line) => line[i]?.length ?? 0)))
    return lines
      .map((line) =>
        line.map((cell, i) => (i === line.length - 1 ? cell : cell.padEnd(widths[i] as number))).join('  '),
      )
      .join('\n')
  }
}

/** What a command has done: its facts with `--json`, else lines for a reader. */
export function tell(json: boolean, facts: unknown, ...lines: readonly string[]): void {
  if (json) console.log(JSON.stringify(facts, null, 2))
  else for (const line of lines) console.log(line)
}
