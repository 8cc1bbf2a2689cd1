/** A dump of step-ca's database: JSON lines as `deploy/import/step-ca-dump` writes them. */

import { open } from 'node:fs/promises'
import { UnusableSource } from '../unusable-source.ts'
import type { StepCaRow, StepCaTables } from './source.ts'

interface Line {
  table?: string
  /** base64, as `value`. */
  key?: string
  value?: string
  /** In the last line alone: how many lines come before it. */
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
