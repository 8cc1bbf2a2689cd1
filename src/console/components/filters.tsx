/** Filters of a list: their fields, ranges of days, and views that this browser keeps under a name. */

import { useEffect, useState } from 'preact/hooks'
import { type Filter, isChoice } from '../../admin/resources/filter.ts'
import { DAY_MS } from '../format.ts'
import { instantText } from '../preferences.ts'
import { changeQuery, href, type Query, usePlace } from '../router.ts'
import { Button } from './basics.tsx'
import { Action } from './dialog.tsx'
import { FieldOf } from './form.tsx'

/** A filter, as far as a page shows it. */
type ShownFilter = Omit<Filter, 'says'>
export type ShownFilters = Readonly<Record<string, ShownFilter>>

const choicesOf = ({ kind, words }: ShownFilter) => (isChoice(kind) ? kind : words)

/** A value in the words of its filter. */
export const valueText = (filter: ShownFilter, value: string): string => choicesOf(filter)?.[value] ?? value

/** The filters that a page offers above its list. */
export const offered = <F extends ShownFilters>(filters: F) =>
  (Object.keys(filters) as (keyof F & string)[]).filter((name) => filters[name]?.field !== undefined)

interface FilterFieldProps {
  filter: ShownFilter
  value: string
  onChange: (value: string) => void
  error?: string | undefined
}

export function FilterField({ filter, ...changed }: FilterFieldProps) {
  const { kind, label, field, example: placeholder } = filter
  const choices = choicesOf(filter)
  return (
    <FieldOf
      {...changed}
      label={typeof field === 'string' ? field : label}
      type={kind === 'time' ? 'date' : 'text'}
      placeholder={placeholder}
      options={choices && [['', 'All'], ...Object.entries(choices)]}
    />
  )
}

/** The query, and what is typed over it until it is applied; another query begins anew. */
export function useTyped(query: Query): readonly [Query, (typed: Query) => void] {
  const [typed, setTyped] = useState<Query>({})
  // The event counts: two quick changes of the query may be drawn as one, and look like none.
  useEffect(() => {
    const forget = () => setTyped({})
    addEventListener('hashchange', forget)
    return () => removeEventListener('hashchange', forget)
  }, [])
  return [{ ...query, ...typed }, (more) => setTyped({ ...typed, ...more })]
}

export function FilterBar({ query, filters }: { query: Query; filters: ShownFilters }) {
  const [values, type] = useTyped(query)
  const names = offered(filters)
  const apply = (wanted: Query) => changeQuery(Object.fromEntries(names.map((name) => [name, wanted[name]?.trim()])))
  const change = (name: string, filter: ShownFilter, value: string) =>
    choicesOf(filter) ? apply({ ...values, [name]: value }) : type({ [name]: value })
  return (
    <form
      class="filters"
      onSubmit={(event) => {
        event.preventDefault()
        apply(values)
      }}
    >
      {Object.entries(filters)
        .filter(([name]) => names.includes(name))
        .map(([name, filter]) => (
          <FilterField
            key={name}
            filter={filter}
            value={values[name] ?? ''}
            onChange={(value) => change(name, filter, value)}
          />
        ))}
      <div class="actions">
        <button type="submit">Apply</button>
        {names.some((name) => query[name]) && <Button text="Clear filters" onClick={() => apply({})} />}
      </div>
    </form>
  )
}

/** Days back from today: the first and the last of the range. */
const RANGES = [
  ['Today', 0, 0],
  ['Yesterday', 1, 1],
  ['7 days', 6, 0],
  ['30 days', 29, 0],
] as const

/** Links to usual ranges of the filters `since` and `until`. */
export function Ranges({ query }: { query: Query }) {
  const { path } = usePlace()
  const day = (back: number) => instantText(Date.now() - back * DAY_MS).slice(0, 10)
  const views = RANGES.map(([name, first, last]) => {
    const range = { since: day(first), until: day(last) }
    const isShown = query['since'] === range.since && query['until'] === range.until
    return { name, to: href(path, { ...query, ...range }), isShown }
  })
  return <ViewLinks label="Range" views={views} />
}

interface ViewLinksProps {
  label: string
  views: readonly { name: string; to: string; isShown: boolean }[]
}

/** Links to other views of a list, with a mark at the one that is shown. */
export const ViewLinks = ({ label, views }: ViewLinksProps) => (
  <nav class="views" aria-label={label}>
    {views.map(({ name, to, isShown }) => (
      <a key={name} class="button small" aria-current={isShown || undefined} href={to}>
        {name}
      </a>
    ))}
  </nav>
)

interface View {
  name: string
  query: Query
}

const KEY = 'chancery.views.'
const MOST_VIEWS = 20
const MOST_OF_A_NAME = 40
const NAME = {
  name: { label: 'Name', required: true, help: 'Kept in this browser; a view of the same name is replaced.' },
} as const

function storedViews(path: string): readonly View[] {
  try {
    return JSON.parse(localStorage.getItem(KEY + path) ?? '[]') as View[]
  } catch {
    // Another program may have written it.
    return []
  }
}

/** Links to the views of the list, and a button that saves what is filtered now. */
export function SavedViews({ path, query }: { path: string; query: Query }) {
  const [views, setViews] = useState(() => storedViews(path))
  const keep = (after: readonly View[]) => {
    localStorage.setItem(KEY + path, JSON.stringify(after))
    setViews(after)
  }
  const save = (name: string) => keep([...views.filter((view) => view.name !== name), { name, query }])
  const search = href(path, query)
  const isKnown = views.some((view) => href(path, view.query) === search)
  const isFiltered = Object.values(query).some((value) => value !== '')
  if (views.length === 0 && !isFiltered) return null
  return (
    <nav class="views" aria-label="Saved views">
      {views.map((view) => (
        <span key={view.name} class="badge">
          <a href={href(path, view.query)}>{view.name}</a>{' '}
          <button
            type="button"
            class="small"
            aria-label={`Remove the view ${view.name}`}
            onClick={() => keep(views.filter((one) => one !== view))}
          >
            ×
          </button>
        </span>
      ))}
      {isFiltered && !isKnown && views.length < MOST_VIEWS && (
        <Action
          kind="small"
          action="Save this view"
          fields={NAME}
          onConfirm={async ({ name }) => save(name.trim().slice(0, MOST_OF_A_NAME) || 'View')}
        />
      )}
    </nav>
  )
}
