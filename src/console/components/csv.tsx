/** Rows of a list as a file, and their number: of all pages, also of those that are not shown. */

import { useRef, useState } from 'preact/hooks'
import { counted, countText, csvOf } from '../format.ts'
import { Button, Problem } from './basics.tsx'

export interface CsvFile<R> {
  name: string
  members: readonly (keyof R & string)[]
}

/** A spreadsheet takes about a million rows, and a page of the service has a thousand. */
const MOST_ROWS = 200_000
const SAID_EVERY = 1_000

type Cell = ReturnType<typeof cellOf>

function cellOf(value: unknown): string {
  if (Array.isArray(value)) return value.map((one) => cellOf((one as { value?: unknown }).value ?? one)).join(' ')
  if (value === null || value === undefined) return ''
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

interface AllRowsProps<R> {
  all: () => AsyncIterable<R>
  csv?: CsvFile<R> | undefined
  /** They are all there, and need no walk. */
  shown?: readonly R[] | undefined
}

/** Reads all pages, for a file or for their number alone. It can be stopped. */
export function AllRows<R>({ all, csv, shown }: AllRowsProps<R>) {
  const [said, say] = useState<string>()
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const isStopped = useRef(false)
  const walk = async (take: (row: R) => void): Promise<string> => {
    let count = 0
    for await (const row of shown ?? all()) {
      if (isStopped.current) return `Stopped after ${counted(count, 'row')}.`
      if (count === MOST_ROWS) return `The first ${countText(MOST_ROWS)} rows; there are more.`
      take(row)
      if (++count % SAID_EVERY === 0) say(`${countText(count)} rows …`)
    }
    return counted(count, 'row')
  }
  const run = async (work: () => Promise<string>) => {
    isStopped.current = false
    setBusy(true)
    setError(undefined)
    await work().then(say, setError)
    setBusy(false)
  }
  const save = async ({ name, members }: CsvFile<R>) => {
    const rows: (readonly Cell[])[] = [members]
    const said = await walk((row) => rows.push(members.map((member) => cellOf(row[member]))))
    if (!isStopped.current) saveFile(name, 'text/csv', csvOf(rows))
    return said
  }
  return (
    <div class="actions">
      {isBusy ? (
        <Button kind="small" text="Stop" onClick={() => (isStopped.current = true)} />
      ) : (
        <>
          {!shown && <Button kind="small" text="Count" onClick={() => run(() => walk(() => undefined))} />}
          {csv && <Button kind="small" text="Save as CSV" onClick={() => run(() => save(csv))} />}
        </>
      )}
      {said !== undefined && (
        <span class="quiet" role="status">
          {said}
        </span>
      )}
      <Problem error={error} />
    </div>
  )
}

/** Gives a file to the person at the browser. */
export function saveFile(name: string, type: string, content: string | Uint8Array<ArrayBuffer>): void {
  // By this mark a spreadsheet knows UTF-8.
  const parts = type === 'text/csv' ? ['\ufeff', content] : [content]
  const url = URL.createObjectURL(new Blob(parts, { type }))
  const link = document.createElement('a')
  Object.assign(link, { href: url, download: name })
  link.click()
  // The download has begun by then.
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}
