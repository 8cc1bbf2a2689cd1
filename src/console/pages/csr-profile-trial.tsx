/** Tries a profile that is not saved yet: on a request that is dropped here, and on the last certificates. */

import { useState } from 'preact/hooks'
import { call, type Output } from '../api.ts'
import { Badge, Problem } from '../components/basics.tsx'
import { ACCOUNT, type Column } from '../components/columns.tsx'
import { TextField, useSubmit, WorkButton } from '../components/form.tsx'
import { Section } from '../components/page.tsx'
import { Table } from '../components/table.tsx'
import { counted, countText } from '../format.ts'
import { href } from '../router.ts'
import { type ProfileData, type ReadCsr, readCsrFile, readCsrText } from './profile-fields.ts'

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
