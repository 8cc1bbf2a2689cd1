/** Forms: fields whose label, help and error belong to them by their ids, fields as data, and what runs the work of a form. */

import { type ComponentChildren, Fragment } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { ApprovalRequested } from '../api.ts'
import { isDay } from '../format.ts'
import { zoneName } from '../preferences.ts'
import { Button, type ButtonProps, fieldError, Problem, sentenceOf } from './basics.tsx'
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
  type?: undefined | 'text' | 'password' | 'email' | 'number' | 'date' | 'datetime-local' | 'search' | 'url'
  placeholder?: string | undefined
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
const DayField = ({ label, value, ...field }: Omit<TextProps, 'type' | 'rows'>) => (
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

/** A button that does its work at once, and shows the error beside it. */
export function WorkButton({ text, busyText = text, disabled, work, ...button }: WorkButtonProps) {
  const { submit, error, isBusy } = useSubmit(work)
  return (
    <>
      <Button {...button} text={isBusy ? busyText : text} disabled={isBusy || disabled} onClick={submit} />
      <Problem error={error} />
    </>
  )
}

interface WorkButtonProps extends Omit<ButtonProps, 'onClick'> {
  /** Replaces the text meanwhile. */
  busyText?: string
  work: () => Promise<unknown>
}

type Values = Readonly<Record<string, string>>

/** The texts of a form; `field` gives a control its value, its change and its error. @param onChange is called after each */
export function useForm<T extends Values>(initial: T, onChange?: () => void) {
  const [values, setValues] = useState(initial)
  const change = (name: string, value: string) => {
    setValues({ ...values, [name]: value })
    onChange?.()
  }
  /** @param member of the body, where it has another name than the field */
  const field = (name: keyof T & string, error: unknown, member: string = name) => ({
    value: values[name] ?? '',
    onChange: (value: string) => change(name, value),
    error: fieldError(error, member),
  })
  return { values, change, field }
}

/** A field as data. A date is a day of the zone that is shown, and `options` make a choice. */
interface FieldData extends Omit<TextProps, 'value' | 'onChange' | 'error' | 'help'> {
  options?: SelectProps['options'] | undefined
}

interface FormField extends FieldData {
  /** The text at first. */
  value?: string
  help?: ComponentChildren | ((values: Values) => ComponentChildren)
  /** The member of the body, where it has another name than the field. */
  member?: string
  /** The field is shown only then. */
  when?: (values: Values) => boolean
  below?: ComponentChildren
}

export type FormFields = Readonly<Record<string, FormField>>
export type ValuesOf<F extends FormFields> = { readonly [N in keyof F]: string }

/** The texts that a form has at first. */
export const initialOf = <F extends FormFields>(fields: F) =>
  Object.fromEntries(Object.entries(fields).map(([name, { value = '' }]) => [name, value])) as ValuesOf<F>

export const FieldOf = ({ type, options, ...field }: FieldData & Omit<FieldProps, 'label'> & Changed) =>
  options ? (
    <SelectField {...field} options={options} />
  ) : type === 'date' ? (
    <DayField {...field} />
  ) : (
    <TextField {...field} type={type} />
  )

interface Changed {
  value: string
  onChange: (value: string) => void
}

interface FieldsProps {
  fields: FormFields
  values: Values
  onChange: (name: string, value: string) => void
  /** The error of the last attempt, which each field takes its part of. */
  error?: unknown
}

export const Fields = ({ fields, values, onChange, error }: FieldsProps) => (
  <>
    {Object.entries(fields)
      .filter(([, { when }]) => when === undefined || when(values))
      .map(([name, { value: _, when, member = name, help, below, ...field }]) => (
        <Fragment key={name}>
          <FieldOf
            {...field}
            help={typeof help === 'function' ? help(values) : help}
            value={values[name] ?? ''}
            error={fieldError(error, member)}
            onChange={(value) => onChange(name, value)}
          />
          {below}
        </Fragment>
      ))}
  </>
)
