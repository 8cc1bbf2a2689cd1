/** Fields of forms: label, help and error belong to the control by their ids. */

import type { ComponentChildren } from 'preact'
import { useId, useState } from 'preact/hooks'
import { isDay } from '../days.ts'

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

/** A day, in UTC as all times here. A link may bring an instant, which a field for days could not show. */
export const DayField = ({ label, value, ...field }: Omit<TextProps, 'type' | 'rows'>) => (
  <TextField {...field} label={`${label} (UTC)`} value={value} type={value === '' || isDay(value) ? 'date' : 'text'} />
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

/** Runs a form's work once at a time, and keeps its error for the form to show. */
export function useSubmit(work: () => Promise<unknown>) {
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const submit = async (event?: Event) => {
    event?.preventDefault()
    if (isBusy) return
    setBusy(true)
    setError(undefined)
    try {
      await work()
    } catch (cause) {
      setError(cause)
    } finally {
      setBusy(false)
    }
  }
  return { submit, error, isBusy }
}
