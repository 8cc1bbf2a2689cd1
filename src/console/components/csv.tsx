/** The rows of a list as a file for a spreadsheet, under the names that the Admin API gives them. */

import { csvOf, saveFile } from '../format.ts'

export interface CsvFile<R> {
  name: string
  members: readonly (keyof R & string)[]
}

export const SaveAsCsv = <R,>({ rows, name, members }: CsvFile<R> & { rows: readonly R[] }) => (
  <div class="actions">
    <button
      type="button"
      class="small"
      onClick={() =>
        saveFile(name, 'text/csv', csvOf([members, ...rows.map((row) => members.map((member) => cellOf(row[member])))]))
      }
    >
      Save as CSV
    </button>
  </div>
)

function cellOf(value: unknown): string {
  if (Array.isArray(value)) return value.map((one) => cellOf((one as { value?: unknown }).value ?? one)).join(' ')
  if (value === null || value === undefined) return ''
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}
