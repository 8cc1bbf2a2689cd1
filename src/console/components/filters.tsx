/** Filters of a list: their fields, ranges of days, and views that this browser keeps under a name. */

import { useEffect, useState } from 'preact/hooks'
import { changeQuery, href, type Query, usePlace } from '../router.ts'
import { instantText } from '../time-zone.ts'
import { Button } from './basics.tsx'
import { Action } from './dialog.tsx'
import { FieldOf } from './form.tsx'

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
      {filters.map(({ name, options, ...filter }) => (
        <FieldOf
          key={name}
          {...filter}
          {...(options && { options: [['', 'All'], ...options] })}
          value={values[name] ?? ''}
          onChange={(value) => (options ? apply({ ...values, [name]: value }) : type({ [name]: value }))}
        />
      ))}
      <div class="actions">
        <button type="submit">Apply</button>
        {isFiltered && <Button text="Clear filters" onClick={() => apply({})} />}
      </div>
    </form>
  )
}

const DAY_MS = 86_400_000
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
