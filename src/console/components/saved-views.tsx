/** Filters of a list under a name; kept in this browser. */

import { useState } from 'preact/hooks'
import { href, type Query } from '../router.ts'
import { Confirm } from './dialog.tsx'
import { TextField } from './form.tsx'

interface View {
  name: string
  query: Query
}

const KEY = 'chancery.views.'
const MOST_VIEWS = 20
const MOST_OF_A_NAME = 40

function storedViews(path: string): readonly View[] {
  try {
    return JSON.parse(localStorage.getItem(KEY + path) ?? '[]') as View[]
  } catch {
    // Somebody else has written it.
    return []
  }
}

/** Links to the views of the list, and a button that saves what is filtered now. */
export function SavedViews({ path, query }: { path: string; query: Query }) {
  const [views, setViews] = useState(() => storedViews(path))
  const [isNaming, setNaming] = useState(false)
  const keep = (after: readonly View[]) => {
    localStorage.setItem(KEY + path, JSON.stringify(after))
    setViews(after)
  }
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
        <button type="button" class="small" onClick={() => setNaming(true)}>
          Save this view
        </button>
      )}
      {isNaming && (
        <NameView
          onClose={() => setNaming(false)}
          onName={(name) => keep([...views.filter((view) => view.name !== name), { name, query }])}
        />
      )}
    </nav>
  )
}

function NameView({ onName, onClose }: { onName: (name: string) => void; onClose: () => void }) {
  const [name, setName] = useState('')
  return (
    <Confirm
      action="Save this view"
      onClose={onClose}
      onConfirm={async () => onName(name.trim().slice(0, MOST_OF_A_NAME) || 'View')}
    >
      <TextField
        label="Name"
        value={name}
        onChange={setName}
        required
        help="Kept in this browser; a view of the same name is replaced."
      />
    </Confirm>
  )
}
