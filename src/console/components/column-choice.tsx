/** Which columns of a list are shown; kept in this browser. */

import { useState } from 'preact/hooks'
import { CheckField } from './form.tsx'
import type { Column } from './table.tsx'

const keyOf = (list: string) => `chancery.columns.${list}`

/** @returns the heads of the columns that are left out */
function storedHeads(list: string): readonly string[] {
  const kept = localStorage.getItem(keyOf(list))
  return kept === null ? [] : kept.split('\n')
}

/** @param list its name. The first column names the row, and stays. */
export function useColumns<R>(list: string, columns: readonly Column<R>[]) {
  const [hidden, setHidden] = useState(() => storedHeads(list))
  const [isOpen, setOpen] = useState(false)
  const show = (head: string, isShown: boolean) => {
    const after = isShown ? hidden.filter((one) => one !== head) : [...hidden, head]
    if (after.length === 0) localStorage.removeItem(keyOf(list))
    else localStorage.setItem(keyOf(list), after.join('\n'))
    setHidden(after)
  }
  const isShown = ({ head }: Column<R>) => !hidden.includes(head)
  const choice = (
    <details class="choice" open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Columns</summary>
      <div>
        {isOpen &&
          columns
            .slice(1)
            .map((column) => (
              <CheckField
                key={column.head}
                label={column.head}
                checked={isShown(column)}
                onChange={(checked) => show(column.head, checked)}
              />
            ))}
      </div>
    </details>
  )
  return {
    shown: hidden.length === 0 ? columns : columns.filter((column, index) => index === 0 || isShown(column)),
    choice,
  }
}
