/** Filters of a list, in the hash: they can be kept as a link, and the back button knows them. */

import { useEffect, useState } from 'preact/hooks'
import { changeQuery, type Query } from '../router.ts'
import { DayField, SelectField, TextField } from './form.tsx'

export interface Filter {
  name: string
  label: string
  type?: 'text' | 'date' | 'search'
  placeholder?: string
  /** Value and text; makes it a choice. */
  options?: readonly (readonly [value: string, text: string])[]
}

/** The query, and what is typed over it until it is applied; another query begins anew. */
export function useTyped(query: Query): readonly [Query, (typed: Query) => void] {
  const [typed, setTyped] = useState<Query>({})
  // By the event: two quick changes of the query may be drawn as one, and look like none.
  useEffect(() => {
    const forget = () => setTyped({})
    addEventListener('hashchange', forget)
    return () => removeEventListener('hashchange', forget)
  }, [])
  return [{ ...query, ...typed }, (more) => setTyped({ ...typed, ...more })]
}

export function FilterBar({ query, filters }: { query: Query; filters: readonly Filter[] }) {
  const [values, type] = useTyped(query)
  const apply = (wanted: Query) =>
    changeQuery(Object.fromEntries(filters.map(({ name }) => [name, wanted[name]?.trim()])))
  const isFiltered = filters.some(({ name }) => query[name])
  return (
    <form
      class="filters"
      onSubmit={(event) => {
        event.preventDefault()
        apply(values)
      }}
    >
      {filters.map(({ name, label, options, type: kind = 'text', placeholder }) => {
        const shared = { label, value: values[name] ?? '' }
        const onChange = (value: string) => type({ [name]: value })
        if (kind === 'date') return <DayField {...shared} key={name} onChange={onChange} />
        return options ? (
          <SelectField
            {...shared}
            key={name}
            options={[['', 'All'], ...options]}
            onChange={(value) => apply({ ...values, [name]: value })}
          />
        ) : (
          <TextField {...shared} key={name} type={kind} {...(placeholder ? { placeholder } : {})} onChange={onChange} />
        )
      })}
      <div class="actions">
        <button type="submit">Apply</button>
        {isFiltered && (
          <button type="button" onClick={() => apply({})}>
            Clear filters
          </button>
        )}
      </div>
    </form>
  )
}
