/** Rows that were chosen in a table, and the bar with what can be done to them. */

import type { ComponentChildren } from 'preact'
import { useCallback, useMemo, useState } from 'preact/hooks'
import { countText, plural } from '../format.ts'

type Key = string | number

export interface RowSelection {
  chosen: ReadonlySet<Key>
  choose(keys: readonly Key[], isChosen: boolean): void
}

/** @param rows that are shown; a row that has left the page is no longer chosen */
export function useRowSelection<R>(rows: readonly R[], rowKey: (row: R) => Key) {
  const [marked, setMarked] = useState<ReadonlySet<Key>>(new Set())
  const chosenRows = useMemo(() => rows.filter((row) => marked.has(rowKey(row))), [rows, marked, rowKey])
  // One function for good, so that no row is drawn again for it.
  const choose = useCallback((keys: readonly Key[], isChosen: boolean) => {
    setMarked((before) => {
      const after = new Set(before)
      for (const key of keys) isChosen ? after.add(key) : after.delete(key)
      return after
    })
  }, [])
  const selection: RowSelection = { chosen: new Set(chosenRows.map(rowKey)), choose }
  return { selection, chosenRows, clear: () => setMarked(new Set()) }
}

/** Says how many rows are chosen, above the table and in view while it scrolls. */
export function SelectionBar({
  count,
  clear,
  children,
}: {
  count: number
  clear: () => void
  children: ComponentChildren
}) {
  return (
    <section class="bar selection" aria-label="Selected rows">
      <p role="status">{plural(countText(count), 'row')} selected</p>
      {children}
      <button type="button" class="small" onClick={clear}>
        Clear selection
      </button>
    </section>
  )
}

/** The head of the column: all rows that are shown, or none. */
export function ChooseAll({ keys, selection }: { keys: readonly Key[]; selection: RowSelection }) {
  const chosen = keys.filter((key) => selection.chosen.has(key)).length
  const isAll = keys.length > 0 && chosen === keys.length
  return (
    <th scope="col" class="choose">
      <input
        type="checkbox"
        aria-label="Select all rows that are shown"
        disabled={keys.length === 0}
        checked={isAll}
        // No attribute says it.
        ref={(box) => {
          if (box) box.indeterminate = chosen > 0 && !isAll
        }}
        onChange={() => selection.choose(keys, !isAll)}
      />
    </th>
  )
}
