/** One field over everything: a button in the header, `/` or Ctrl-K opens it from everywhere. */

import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { call, type Output } from '../api.ts'
import { go } from '../router.ts'
import { createStore, useStore } from '../store.ts'
import { Problem } from './basics.tsx'
import { Dialog } from './dialog.tsx'

const isOpen = createStore(false)
export const openSearch = () => isOpen.set(true)

/** The field in the header. Its dialog lies over any page, but not over another dialog. */
export function SearchField() {
  const isShown = useStore(isOpen)
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return
      event.preventDefault()
      if (document.querySelector('dialog[open]') === null) openSearch()
    }
    addEventListener('keydown', press)
    return () => removeEventListener('keydown', press)
  }, [])
  return (
    <>
      <button type="button" class="searchfield" aria-haspopup="dialog" onClick={openSearch}>
        Search <kbd>Ctrl K</kbd>
      </button>
      {isShown && <SearchDialog onClose={() => isOpen.set(false)} />}
    </>
  )
}

type Result = Output<'search'>
type Kind = Result['groups'][number]['kind']

const part = encodeURIComponent
/** Each group has a title, the page of a hit, and the list that has more. */
const KINDS: Readonly<Record<Kind, readonly [title: string, of: (id: string) => Target, list: string]>> = {
  names: ['Names', (id) => ({ path: `/names/${part(id)}` }), '/certificates'],
  certificates: ['Certificates', (id) => ({ path: `/certificates/${id}` }), '/certificates'],
  accounts: ['Accounts', (id) => ({ path: `/accounts/${id}` }), '/accounts'],
  orders: ['Orders', (id) => ({ path: `/orders/${id}` }), '/orders'],
  credentials: ['EAB credentials', (id) => ({ path: `/eab/${id}` }), '/eab'],
  users: ['Users', () => ({ path: '/users' }), '/users'],
  settings: ['Settings', (id) => ({ path: '/settings', query: { part: id } }), '/settings'],
}

interface Target {
  path: string
  query?: Readonly<Record<string, string>>
}
interface Option {
  key: string
  title: string
  detail: string
  to: Target
}

const optionsOf = ({ kind, hits, more }: Result['groups'][number]): Option[] => [
  ...hits.map(({ id, title, detail }) => ({ key: `${kind} ${id}`, title, detail, to: KINDS[kind][1](id) })),
  ...(more === null
    ? []
    : [{ key: `${kind} more`, title: 'Show all in the list', detail: '', to: { path: KINDS[kind][2], query: more } }]),
]

/** It is longer than the time between two keys. */
const TYPING_MS = 150
const SHORTEST = 2

function SearchDialog({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('')
  const { result, error } = useSearch(text)
  const [chosen, setChosen] = useState(0)
  const id = useId()
  useEffect(() => setChosen(0), [result])
  const groups = (result?.groups ?? []).map((group) => ({ kind: group.kind, options: optionsOf(group) }))
  const all = groups.flatMap(({ options }) => options)
  const active = all[chosen]
  const open = ({ to }: Option) => {
    onClose()
    go(to.path, to.query)
  }
  const awaited = useEarlyEnter(text, result ?? error, () => active && open(active))
  const press = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown') setChosen((chosen + 1) % Math.max(all.length, 1))
    else if (event.key === 'ArrowUp') setChosen((chosen + all.length - 1) % Math.max(all.length, 1))
    else if (event.key === 'Enter' && active) open(active)
    else if (event.key === 'Enter') awaited.current = (event.currentTarget as HTMLInputElement).value
    else return
    event.preventDefault()
  }
  return (
    <Dialog title="Search" onClose={onClose} wide>
      <input
        type="search"
        // biome-ignore lint/a11y/noRedundantRoles: without a datalist its role would be searchbox
        role="combobox"
        // The hits are no datalist.
        list={undefined}
        aria-label="Search everything"
        aria-expanded={all.length > 0}
        aria-controls={`${id}-hits`}
        aria-activedescendant={active && `${id}-${chosen}`}
        placeholder="Name, serial number, fingerprint, kid, contact, account, order, user, setting"
        autocomplete="off"
        spellcheck={false}
        maxLength={255}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={press}
      />
      <Problem error={error} />
      <div class="hits" role="listbox" id={`${id}-hits`} aria-label="Hits">
        {groups.map(({ kind, options }) => (
          // biome-ignore lint/a11y/useSemanticElements: a fieldset is no part of a listbox
          <div key={kind} role="group" aria-label={KINDS[kind][0]}>
            <p class="quiet" aria-hidden="true">
              {KINDS[kind][0]}
            </p>
            {options.map((option) => (
              // biome-ignore lint/a11y/useFocusableInteractive: the field keeps the focus, and names the active option
              // biome-ignore lint/a11y/useKeyWithClickEvents: the field takes the keys
              <div
                key={option.key}
                id={`${id}-${all.indexOf(option)}`}
                role="option"
                aria-selected={option === active}
                ref={option === active ? show : null}
                onClick={() => open(option)}
              >
                {option.title} <span class="quiet">{option.detail}</span>
              </div>
            ))}
          </div>
        ))}
      </div>
      <p class="quiet" role="status">
        {statusOf(text, result, error, all.length)}
      </p>
      {result?.not_searched.map(({ kind, reason }) => (
        <p key={kind + reason} class="quiet">
          {KINDS[kind][0]}: {reason}
        </p>
      ))}
    </Dialog>
  )
}

/** Opens the first hit when Enter was pressed before the reply. @param answer the reply of the search, once it is there */
function useEarlyEnter(text: string, answer: unknown, openFirst: () => void) {
  /** The text after which Enter was pressed. */
  const awaited = useRef<string | undefined>(undefined)
  useEffect(() => {
    if (answer !== undefined && awaited.current === text) openFirst()
  }, [answer])
  return awaited
}

const show = (element: HTMLElement | null): void => element?.scrollIntoView({ block: 'nearest' })

function statusOf(text: string, result: Result | undefined, error: unknown, hits: number): string {
  if (text.trim().length < SHORTEST) return `Type ${SHORTEST} characters or more.`
  if (error !== undefined) return 'The search has failed.'
  if (!result) return 'Searching …'
  const isWhole = result.not_searched.every(({ searched }) => searched === 'in_part')
  if (!isWhole) return 'Not everything was searched: what is missing may be there.'
  return hits === 0 ? 'No matches' : 'Arrow keys choose, Enter opens.'
}

interface Searched {
  /** The text that the result belongs to. */
  text: string
  result?: Result
  error?: unknown
}

/** Asks when the typing pauses. A reply to an earlier text is dropped. */
function useSearch(typed: string): Omit<Searched, 'text'> {
  const text = typed.trim()
  const [searched, setSearched] = useState<Searched>({ text: '' })
  useEffect(() => {
    if (text.length < SHORTEST) return
    let isOver = false
    const timer = setTimeout(async () => {
      const got = await call('search', { query: { q: text } }).then(
        (result) => ({ text, result }),
        (error: unknown) => ({ text, error }),
      )
      if (!isOver) setSearched(got)
    }, TYPING_MS)
    return () => {
      isOver = true
      clearTimeout(timer)
    }
  }, [text])
  return searched.text === text ? searched : {}
}
