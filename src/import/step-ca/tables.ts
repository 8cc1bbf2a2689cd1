/** step-ca's tables: in its PostgreSQL, or in a dump that `deploy/import/step-ca-dump` writes as JSON lines. */

import { open } from 'node:fs/promises'
import type { FormerDatabase } from '../former-database.ts'
import { UnusableSource } from '../model.ts'
import type { StepCaRow, StepCaTables } from './source.ts'

export async function stepCaDatabase(database: FormerDatabase): Promise<StepCaTables> {
  if (!(await database.hasTable('x509_certs')))
    throw new UnusableSource('the database has no table x509_certs; is it that of step-ca?')
  return {
    async *rows(table) {
      // Releases before external account bindings have no table of them.
      if (!(await database.hasTable(table))) return
      type Row = { nkey: Buffer; nvalue: Buffer }
      const rows = database.rows<Row>(`SELECT nkey, nvalue FROM ${table} ORDER BY nkey`)
      for await (const { nkey, nvalue } of rows) yield { key: nkey, value: nvalue }
    },
  }
}

interface Line {
  table?: string
  /** `key` and `value` are base64. */
  key?: string
  value?: string
  /** Only the last line has it: the number of lines before it. */
  records?: number
}

/** Each table is one walk through the file, so that nothing has to be kept. */
export function openDump(file: string): StepCaTables {
  return {
    rows: (table) => rowsOf(file, (line) => line.table === table),
  }
}

/** @throws UnusableSource when the file ends early, or is no dump */
export async function checkDump(file: string): Promise<void> {
  for await (const _ of rowsOf(file, () => false));
}

async function* rowsOf(file: string, isWanted: (line: Line) => boolean): AsyncGenerator<StepCaRow> {
  let lines = 0
  let announced: number | undefined
  for await (const text of (await open(file)).readLines()) {
    const line = parseLine(text, lines + 1)
    if (announced !== undefined) throw new UnusableSource(`line ${lines + 2} comes after the end of the dump`)
    if (line.records !== undefined) announced = line.records
    else lines++
    if (isWanted(line))
      yield { key: Buffer.from(line.key ?? '', 'base64'), value: Buffer.from(line.value ?? '', 'base64') }
  }
  if (announced !== lines)
    throw new UnusableSource(`the dump is not whole: it ends after ${lines} records; make it anew`)
}

function parseLine(text: string, number: number): Line {
  try {
    return JSON.parse(text) as Line
  } catch {
    // The parser's message quotes the line, which may hold a key.
    throw new UnusableSource(`line ${number} is not JSON; make the dump with step-ca-dump, and take it over whole`)
  }
}
