/** The form of a CSR profile, made from the schema of its data. A field left alone asks for nothing. */

import { fieldError } from '../components/basics.tsx'
import { CheckField, SelectField, TextField } from '../components/form.tsx'
import { linesOf } from '../format.ts'
import { numberOf, type ProfileData, type ProfileField, withField } from './profile-fields.ts'

interface FormProps {
  fields: readonly ProfileField[]
  data: ProfileData
  onChange: (data: ProfileData) => void
  error: unknown
}

export const ProfileForm = ({ fields, data, onChange, error }: FormProps) => (
  <>
    {fields.map((field) => (
      <FieldOf
        key={field.name}
        field={field}
        value={data[field.name]}
        error={fieldError(error, `profile_data.${field.name}`)}
        onChange={(value) => onChange(withField(data, field.name, value))}
      />
    ))}
  </>
)

interface FieldProps {
  field: ProfileField
  value: unknown
  error: string | undefined
  onChange: (value: unknown) => void
}

function FieldOf({ field, value, error, onChange }: FieldProps) {
  const { label, kind, options } = field
  const shared = { label, error, ...(field.help !== '' && { help: field.help }) }
  const text = value === undefined || value === null ? '' : String(value)
  if (kind === 'flag')
    return (
      <SelectField
        {...shared}
        value={text}
        options={[
          ['', 'no rule'],
          ['true', 'allowed'],
          ['false', 'forbidden'],
        ]}
        onChange={(chosen) => onChange(chosen === '' ? undefined : chosen === 'true')}
      />
    )
  if (kind === 'number')
    return <TextField {...shared} type="number" value={text} onChange={(typed) => onChange(numberOf(typed))} />
  if (kind === 'pattern')
    return <TextField {...shared} value={text} onChange={(typed) => onChange(typed === '' ? undefined : typed)} />
  if (kind === 'texts') {
    const lines = Array.isArray(value) ? value.join('\n') : ''
    return <TextField {...shared} rows={3} value={lines} onChange={(typed) => onChange(textsOf(typed))} />
  }
  if (kind === 'choices') return <Choices {...shared} options={options} value={value} onChange={onChange} />
  if (kind === 'sizes') return <Sizes {...shared} options={options} value={value} onChange={onChange} />
  return null
}

/** A line that is being typed stays, even when it is still empty. */
function textsOf(typed: string): string[] | undefined {
  const lines = linesOf(typed)
  return typed.endsWith('\n') && lines ? [...lines, ''] : lines
}

interface ManyProps {
  label: string
  help?: string
  error: string | undefined
  options: readonly string[]
  value: unknown
  onChange: (value: unknown) => void
}

function Choices({ label, help, error, options, value, onChange }: ManyProps) {
  const chosen = Array.isArray(value) ? (value as string[]) : []
  const toggle = (option: string, isOn: boolean) => {
    const next = options.filter((one) => (one === option ? isOn : chosen.includes(one)))
    onChange(next.length === 0 ? undefined : next)
  }
  return (
    <fieldset class="group">
      <legend>{label}</legend>
      {help && <p class="quiet">{help}</p>}
      <div class="choices">
        {options.map((option) => (
          <CheckField
            key={option}
            label={option}
            checked={chosen.includes(option)}
            onChange={(isOn) => toggle(option, isOn)}
          />
        ))}
      </div>
      {error && <p class="error">{error}</p>}
    </fieldset>
  )
}

function Sizes({ label, help, error, options, value, onChange }: ManyProps) {
  const sizes = (typeof value === 'object' && value !== null ? value : {}) as Readonly<Record<string, number>>
  const change = (next: Readonly<Record<string, unknown>>) =>
    onChange(Object.keys(next).length === 0 ? undefined : next)
  return (
    <fieldset class="group">
      <legend>{label}</legend>
      {help && <p class="quiet">{help}</p>}
      {options.map((option) => {
        const isOn = Object.hasOwn(sizes, option)
        return (
          <div class="size" key={option}>
            <CheckField
              label={option}
              checked={isOn}
              onChange={(wanted) => change(withField(sizes, option, wanted ? 0 : undefined))}
            />
            {isOn && (
              <input
                type="number"
                min={0}
                aria-label={`Minimum size of ${option} in bits`}
                value={sizes[option] ?? 0}
                onInput={(event) => change(withField(sizes, option, numberOf(event.currentTarget.value) ?? 0))}
              />
            )}
          </div>
        )
      })}
      {error && <p class="error">{error}</p>}
    </fieldset>
  )
}
