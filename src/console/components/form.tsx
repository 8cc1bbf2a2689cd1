/** Forms: fields whose label, help and error belong to them by their ids, and the filters of a list. */

import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { ApprovalRequested } from '../api.ts'
import { isDay } from '../format.ts'
import { changeQuery, href, type Query, usePlace } from '../router.ts'
import { instantText, zoneName } from '../time-zone.ts'
import { fieldError, sentenceOf } from './basics.tsx'
import { tell } from './page.tsx'

interface FieldProps {
  label: string
  help?: ComponentChildren
  error?: string | undefined
}

interface Described {
  id: string
  'aria-describedby': string | undefined
  'aria-invalid': boolean | undefined
}

function Field({ label, help, error, children }: FieldProps & { children: (control: Described) => ComponentChildren }) {
  const id = useId()
  const [helpId, errorId] = [`${id}-help`, `${id}-error`]
  const describedBy = [help !== undefined && helpId, error !== undefined && errorId].filter(Boolean).join(' ')
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, 'aria-describedby': describedBy || undefined, 'aria-invalid': error !== undefined || undefined })}
      {help !== undefined && (
        <p class="quiet" id={helpId}>
          {help}
        </p>
      )}
      {error !== undefined && (
        <p class="error" id={errorId}>
          {error}
        </p>
      )}
    </div>
  )
}

interface TextProps extends FieldProps {
  value: string
  onChange: (value: string) => void
  type?: 'text' | 'password' | 'email' | 'number' | 'date' | 'datetime-local' | 'search' | 'url'
  placeholder?: string
  autoComplete?: string
  required?: boolean
  /** Lines of a larger field. */
  rows?: number
}

export function TextField({
  value,
  onChange,
  type = 'text',
  rows,
  placeholder,
  autoComplete,
  required,
  ...field
}: TextProps) {
  const shared = { value, placeholder, required, spellcheck: false, autocomplete: (autoComplete ?? 'off') as 'off' }
  return (
    <Field {...field}>
      {(control) =>
        rows === undefined ? (
          <input
            {...control}
            {...shared}
            type={type as 'text'}
            onInput={(event) => onChange(event.currentTarget.value)}
          />
        ) : (
          <textarea {...control} {...shared} rows={rows} onInput={(event) => onChange(event.currentTarget.value)} />
        )
      }
    </Field>
  )
}

/** A day of the zone that is shown. A link may bring an instant, which a field for days could not show. */
export const DayField = ({ label, value, ...field }: Omit<TextProps, 'type' | 'rows'>) => (
  <TextField
    {...field}
    label={`${label} (${zoneName()})`}
    value={value}
    type={value === '' || isDay(value) ? 'date' : 'text'}
  />
)

interface SelectProps extends FieldProps {
  value: string
  onChange: (value: string) => void
  /** Value and text. */
  options: readonly (readonly [value: string, text: string])[]
}

export const SelectField = ({ value, onChange, options, ...field }: SelectProps) => (
  <Field {...field}>
    {(control) => (
      <select {...control} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map(([option, text]) => (
          <option key={option} value={option} selected={option === value}>
            {text}
          </option>
        ))}
      </select>
    )}
  </Field>
)

interface CheckProps {
  label: ComponentChildren
  checked: boolean
  onChange: (checked: boolean) => void
}

export const CheckField = ({ label, checked, onChange }: CheckProps) => (
  <label class="check">
    <input type="checkbox" checked={checked} onChange={(event) => onChange(event.currentTarget.checked)} />
    <span>{label}</span>
  </label>
)

/** The act is not done: it waits for another person. */
export const tellRequested = () => tell('Asked for approval: another person decides.')

/** Runs a form's work once at a time, and keeps its error for the form to show. */
export function useSubmit(work: () => Promise<unknown>) {
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const isLeft = useRef(false)
  useEffect(
    () => () => {
      isLeft.current = true
    },
    [],
  )
  const submit = async (event?: Event) => {
    event?.preventDefault()
    if (isBusy) return
    setBusy(true)
    setError(undefined)
    try {
      await work()
    } catch (cause) {
      if (cause instanceof ApprovalRequested) tellRequested()
      // The user has left the page, so the result goes to the line of the frame.
      else if (isLeft.current) tell(sentenceOf(cause), 'bad')
      else setError(cause)
    } finally {
      setBusy(false)
    }
  }
  return { submit, error, isBusy }
}

/** The texts of a form; `field` gives a control its value, its change and its error. @param onChange told of each */
export function useForm<T extends Readonly<Record<string, string>>>(initial: T, onChange?: () => void) {
  const [values, setValues] = useState(initial)
  /** @param member of the body, where it has another name than the field */
  const field = (name: keyof T & string, error: unknown, member: string = name) => ({
    value: values[name] ?? '',
    onChange: (value: string) => {
      setValues({ ...values, [name]: value })
      onChange?.()
    },
    error: fieldError(error, member),
  })
  return { values, field, reset: () => setValues(initial) }
}

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
  return (
    <nav class="views" aria-label="Range">
      {RANGES.map(([name, first, last]) => {
        const range = { since: day(first), until: day(last) }
        const isShown = query['since'] === range.since && query['until'] === range.until
        return (
          <a
            key={name}
            class="button small"
            aria-current={isShown || undefined}
            href={href(path, { ...query, ...range })}
          >
            {name}
          </a>
        )
      })}
    </nav>
  )
}
