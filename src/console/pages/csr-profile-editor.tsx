/**
 * The parts of the editor of a CSR profile: its form, made from the schema of its data, and trials of what is not saved yet.
 * A field left alone asks for nothing.
 */

import { useState } from 'preact/hooks'
import { call, type Output } from '../api.ts'
import { Badge, fieldError, Problem } from '../components/basics.tsx'
import { ACCOUNT, type Column } from '../components/columns.tsx'
import { CheckField, SelectField, TextField, useSubmit, WorkButton } from '../components/form.tsx'
import { Section } from '../components/page.tsx'
import { Table } from '../components/table.tsx'
import { counted, countText, linesOf } from '../format.ts'
import { href } from '../router.ts'
import {
  numberOf,
  type ProfileData,
  type ProfileField,
  type ReadCsr,
  readCsrFile,
  readCsrText,
  withField,
} from './profile-fields.ts'

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

type Verdict = Output<'validateCsrAgainst'>
type Check = Output<'checkCsrProfile'>

export function CsrTrial({ data }: { data: ProfileData }) {
  const [text, setText] = useState('')
  const [isOver, setOver] = useState(false)
  const [unread, setUnread] = useState<string>()
  const [verdict, setVerdict] = useState<Verdict & { of: string }>()
  const tried = JSON.stringify(data)
  const [read, setRead] = useState<ReadCsr>()
  const validate = async (csr: ReadCsr | undefined) => {
    setVerdict(undefined)
    setUnread(csr && !csr.ok ? csr.message : undefined)
    if (csr?.ok)
      setVerdict({ ...(await call('validateCsrAgainst', { body: { profile_data: data, csr: csr.csr } })), of: tried })
  }
  const { submit, error, isBusy } = useSubmit(() => validate(text.trim() === '' ? read : readCsrText(text)))
  const take = async (file: File | undefined) => {
    setOver(false)
    if (!file) return
    const csr = readCsrFile(new Uint8Array(await file.slice(0, MOST_BYTES).arrayBuffer()))
    setRead(csr)
    setText('')
    await validate(csr).catch((cause: Error) => setUnread(cause.message))
  }
  return (
    <Section title="Test a CSR">
      <form
        class={isOver ? 'drop over' : 'drop'}
        onSubmit={submit}
        onDragOver={(event) => {
          event.preventDefault()
          setOver(true)
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault()
          void take(event.dataTransfer?.files[0])
        }}
      >
        <TextField
          label="Certificate signing request (CSR)"
          help="Paste PEM or base64, or drop a file here. Nothing is issued."
          rows={4}
          value={text}
          onChange={(typed) => {
            setText(typed)
            setVerdict(undefined)
          }}
        />
        <div class="actions left">
          <label class="file">
            Choose a file
            <input
              type="file"
              accept=".csr,.pem,.der,.req,.txt"
              onChange={(event) => take(event.currentTarget.files?.[0])}
            />
          </label>
          <button type="submit" disabled={isBusy}>
            Validate
          </button>
        </div>
        {unread && (
          <p class="error" role="alert">
            {unread}
          </p>
        )}
        <Problem error={error} />
      </form>
      <div role="status">{verdict?.of === tried && <VerdictOf verdict={verdict} />}</div>
    </Section>
  )
}

/** No request is longer. */
const MOST_BYTES = 100_000

const VerdictOf = ({ verdict: { valid, violations, unchecked } }: { verdict: Verdict }) => (
  <>
    <p>
      <Badge tone={valid ? 'good' : 'bad'}>{valid ? 'The request matches.' : 'The request would be refused.'}</Badge>
    </p>
    <ul>
      {violations.map((violation) => (
        <li key={violation}>{violation}</li>
      ))}
    </ul>
    {unchecked && <p class="quiet">Checked only after the profile is saved: {unchecked.join(', ')}.</p>}
  </>
)

export function ProfileTrial({ data, profileId }: { data: ProfileData; profileId: string | undefined }) {
  const [found, setFound] = useState<Check & { of: string }>()
  const tried = JSON.stringify(data)
  const check = async () => {
    const body = { profile_data: data, ...(profileId !== undefined && { profile_id: profileId }) }
    setFound({ ...(await call('checkCsrProfile', { body })), of: tried })
  }
  return (
    <Section title="Who would be affected?">
      <p class="quiet">
        {profileId === undefined
          ? 'Checks this draft on the last 1,000 certificates of all accounts.'
          : 'Checks this draft on the last 1,000 certificates of its accounts.'}
      </p>
      <div class="actions left">
        <WorkButton text="Check" busyText="Checking …" work={check} />
      </div>
      <div role="status">{found?.of === tried && <Found found={found} />}</div>
    </Section>
  )
}

const REFUSED_COLUMNS: readonly Column<Check['examples'][number]>[] = [
  {
    head: 'Names',
    member: 'san_values',
    kind: 'names',
    to: ({ serial_number }) => href(`/certificates/${serial_number}`),
  },
  { head: 'Reasons', kind: 'wide', cell: ({ violations }) => violations.join('; ') },
  ACCOUNT,
]

const Found = ({ found }: { found: Check }) => (
  <>
    <p>
      <Badge tone={found.refused === 0 ? 'good' : 'warn'}>
        {countText(found.refused)} of {counted(found.checked, 'certificate')} would be refused
      </Badge>{' '}
      {found.refused > 0 && `to ${counted(found.accounts, 'account')}. `}
      {!found.complete && 'The check stopped after two seconds because the expressions are slow.'}
    </p>
    {found.not_checked.length > 0 && (
      <>
        <p>Not checked, because a certificate does not show it:</p>
        <ul>
          {found.not_checked.map(({ field, reason }) => (
            <li key={field}>
              <code>{field}</code>: {reason}
            </li>
          ))}
        </ul>
      </>
    )}
    {found.examples.length > 0 && (
      <Table
        caption="Certificates that would be refused"
        rows={found.examples}
        rowKey={({ serial_number }) => serial_number}
        columns={REFUSED_COLUMNS}
      />
    )}
  </>
)
