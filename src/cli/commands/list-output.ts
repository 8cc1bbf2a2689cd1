/**
 * Prints a page of a long list as lines or JSON, with the next page's `--after` on standard error.
 */

import { databaseSettings } from '../../settings/server.ts'
import { type ListPage, type ReadPage, readToEnd } from '../../store/list-page.ts'
import { type DatabasePool, openCheckedDatabase } from '../../store/slonik.ts'
import type { Printing } from '../values.ts'
import { readConfigFile } from './config-file.ts'

export interface PageOptions extends Printing {
  after: string | undefined
  limit: number
  'to-end'?: boolean
}

/** A list: its name, and how to read and print its rows. */
export interface List<T> {
  name: string
  read(db: DatabasePool, after: string | undefined, limit: number): Promise<ListPage<T>>
  /** For JSON. */
  report(row: T): object
  /** @param rows at least one */
  render(rows: readonly T[]): string
}

export async function printPage<T>(options: PageOptions, list: List<T>): Promise<number> {
  const { after, limit } = options
  const db = await openCheckedDatabase(databaseSettings(await readConfigFile(options.config), 1))
  try {
    const read = (from: string | undefined, rows: number) => list.read(db, from, rows)
    const { page, code } = options['to-end']
      ? await search(read, after, limit)
      : { page: await read(after, limit), code: 0 }
    const { rows, next, isComplete, lookedThrough } = page
    if (options.json) {
      const report = { [list.name]: rows.map(list.report), next: next ?? null, complete: isComplete }
      console.log(JSON.stringify(report, null, 2))
      return code
    }
    if (rows.length > 0) console.log(list.render(rows))
    if (!isComplete)
      console.error(
        `found ${rows.length} among ${lookedThrough.toLocaleString('en')}; more may follow: --after ${next}, or all at once: --to-end`,
      )
    else if (next !== undefined) console.error(`there are more: --after ${next}`)
    else if (rows.length === 0) console.error(`no ${list.name}${after === undefined ? '' : ' after that'}`)
    return code
  } finally {
    await db.end()
  }
}

/** 128 plus the number of SIGINT, as in shells. */
const INTERRUPTED = 130

/** Reads to the end of the list or until Ctrl-C. A terminal shows the progress on one line. */
async function search<T>(
  read: ReadPage<T>,
  after: string | undefined,
  limit: number,
): Promise<{ page: ListPage<T>; code: number }> {
  let isStopped = false
  process.once('SIGINT', () => {
    isStopped = true
  })
  const show = (line: string) => process.stderr.isTTY && process.stderr.write(`\r\x1b[K${line}`)
  const page = await readToEnd(read, after, limit, ({ rows, lookedThrough }) => {
    show(`found ${rows.length} among ${lookedThrough.toLocaleString('en')}`)
    return !isStopped
  })
  show('')
  return { page, code: isStopped && !page.isComplete ? INTERRUPTED : 0 }
}
