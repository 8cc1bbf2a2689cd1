/** Filters of a resource on a page: the control of each by its kind, and the words of its values. */

import { type Filter, type Filters, isChoice } from '../../admin/resources/filter.ts'
import type { Filter as BarFilter } from './filters.tsx'
import { DayField, SelectField, TextField } from './form.tsx'

const labelOf = ({ label, field }: Filter) => (typeof field === 'string' ? field : label)
const choicesOf = ({ kind, words }: Filter) => (isChoice(kind) ? kind : words)

/** A value in the words of its filter. */
export const valueText = (filter: Filter, value: string): string => choicesOf(filter)?.[value] ?? value

/** The filters that a page offers above its list. */
export const offered = <F extends Filters>(filters: F) =>
  (Object.keys(filters) as (keyof F & string)[]).filter((name) => filters[name]?.field !== undefined)

interface FilterFieldProps {
  filter: Filter
  value: string
  onChange: (value: string) => void
  error?: string | undefined
}

export function FilterField({ filter, ...field }: FilterFieldProps) {
  const choices = choicesOf(filter)
  const label = labelOf(filter)
  if (choices) return <SelectField label={label} {...field} options={[['', 'Any'], ...Object.entries(choices)]} />
  return filter.kind === 'time' ? <DayField label={label} {...field} /> : <TextField label={label} {...field} />
}

/** The same for a bar of filters. */
export const barOf = (filters: Filters): readonly BarFilter[] =>
  offered(filters).map((name) => {
    const filter = filters[name] as Filter
    const choices = choicesOf(filter)
    return {
      name,
      label: labelOf(filter),
      ...(choices && { options: Object.entries(choices) }),
      ...(filter.kind === 'time' && { type: 'date' as const }),
    }
  })
