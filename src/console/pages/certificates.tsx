/** All certificates: search, filters in the URL, and a list that loads on by cursor. */

import { useState } from 'preact/hooks'
import { type Input, useList } from '../api.ts'
import { Allowed, Empty } from '../components/basics.tsx'
import { CERTIFICATE_COLUMNS, certificatesCsv, type ListedCertificate } from '../components/certificates.tsx'
import { SelectField, TextField } from '../components/form.tsx'
import { Page } from '../components/page.tsx'
import { List } from '../components/table.tsx'
import { saveFile } from '../format.ts'
import { changeQuery, go, href, type PageProps, type Query } from '../router.ts'
import { WORDS } from '../words.ts'

const words = WORDS.certificates
const FILTERS = Object.keys(words.chip) as (keyof typeof words.chip)[]

/** What somebody typed, as the filter that finds it. */
function filterFor(text: string): Record<string, string> {
  const typed = text.trim()
  const digits = typed.replaceAll(/[:\s]/g, '')
  if (/^[0-9a-f]{64}$/i.test(digits)) return { fingerprint: digits }
  if (/^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i.test(typed)) return { account_id: typed }
  if (/^[0-9a-f]{14,40}$/i.test(digits)) return { serial: digits }
  return typed === '' ? {} : { domain_suffix: typed.replace(/^\*?\./, '') }
}

/** The operation's query; what the address has besides is left out. */
function inputOf(query: Query): Input<'listCertificates'> {
  const known = Object.entries(query).filter(([name]) => name === 'sort' || FILTERS.includes(name as 'status'))
  return { query: Object.fromEntries(known) }
}

export function CertificatesPage({ query, entry }: PageProps) {
  const certificates = useList('listCertificates', inputOf(query), entry)
  const isFiltered = FILTERS.some((name) => query[name] !== undefined)
  const [by = 'issued_at', descending] = query['sort']?.startsWith('-')
    ? [query['sort'].slice(1), true]
    : [query['sort'], query['sort'] === undefined]
  return (
    <Page
      title={WORDS.pages.certificates}
      actions={
        <Allowed to="bulkRevoke">
          <a class="button" href={href('/bulk-revocations/new', bulkQuery(query))}>
            {words.revokeMany}
          </a>
        </Allowed>
      }
    >
      <Search key={JSON.stringify(query)} query={query} />
      <Chips query={query} />
      <List<ListedCertificate>
        caption={words.caption}
        columns={CERTIFICATE_COLUMNS}
        list={certificates}
        rowKey={({ id }) => id}
        sorting={{
          ...{ by, direction: descending ? ('descending' as const) : ('ascending' as const) },
          // Issued first or last: identifiers have one order only, the newest first.
          onSort: (sort, direction) =>
            changeQuery({ sort: sort === 'issued_at' ? undefined : direction === 'descending' ? `-${sort}` : sort }),
        }}
        empty={
          isFiltered ? (
            <Empty title={WORDS.table.noMatch}>
              <a href={href('/certificates')}>{WORDS.table.clear}</a>
            </Empty>
          ) : (
            <Empty title={words.empty}>
              <p>
                <a href={href('/')}>{words.emptyHow}</a>
              </p>
            </Empty>
          )
        }
      />
      {certificates.rows.length > 0 && (
        <p>
          <button
            type="button"
            class="small"
            onClick={() => saveFile(words.csvFile, 'text/csv', certificatesCsv(certificates.rows))}
          >
            {WORDS.table.csv}
          </button>
        </p>
      )}
    </Page>
  )
}

/** What the filters of a bulk revocation know of these. */
const bulkQuery = ({ account_id, domain, serial, issued_before }: Query) => ({
  ...{ account_id, domain, serial_numbers: serial, issued_before },
})

function Search({ query }: { query: Query }) {
  const [text, setText] = useState('')
  const [status, setStatus] = useState(query['status'] ?? '')
  const [expiring, setExpiring] = useState(query['expiring_before'] ?? '')
  const [issued, setIssued] = useState(query['issued_before'] ?? '')
  const [profile, setProfile] = useState(query['profile'] ?? '')
  const submit = (event: Event) => {
    event.preventDefault()
    const change = { ...filterFor(text), status, profile, expiring_before: expiring, issued_before: issued }
    go('/certificates', { ...query, ...change })
  }
  const statuses = Object.entries(words.statuses)
  return (
    <search>
      <form class="filters" onSubmit={submit}>
        <TextField
          {...{ label: words.search, value: text, onChange: setText, type: 'search' }}
          placeholder={words.searchPlaceholder}
        />
        <SelectField
          {...{ label: words.status, value: status, onChange: setStatus }}
          options={[['', words.anyStatus], ...statuses]}
        />
        <TextField {...{ label: words.expiringBefore, value: expiring, onChange: setExpiring, type: 'date' }} />
        <TextField {...{ label: words.issuedBefore, value: issued, onChange: setIssued, type: 'date' }} />
        <TextField {...{ label: words.profile, value: profile, onChange: setProfile }} />
        <div class="actions">
          <button type="submit" class="primary">
            {WORDS.table.filter}
          </button>
        </div>
      </form>
    </search>
  )
}

/** Each filter can be taken away by itself. */
function Chips({ query }: { query: Query }) {
  const shown = FILTERS.filter((name) => query[name] !== undefined)
  if (shown.length === 0) return null
  return (
    <div class="chips">
      {shown.map((name) => (
        <span key={name} class="badge">
          {words.chip[name]}: {query[name]}{' '}
          <button
            type="button"
            class="small"
            aria-label={WORDS.table.remove(words.chip[name])}
            onClick={() => changeQuery({ [name]: undefined })}
          >
            ×
          </button>
        </span>
      ))}
      <a href={href('/certificates')}>{WORDS.table.clear}</a>
    </div>
  )
}
