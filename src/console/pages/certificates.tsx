/** All certificates: search, filters in the URL, and a list that loads on by cursor. */

import {
  CERTIFICATE_FILTERS,
  CERTIFICATE_MEMBERS,
  filterOfText,
  REVOCATION_FILTERS,
  usualSort,
} from '../../admin/resources/certificates.ts'
import { call, type Input, type Output } from '../api.ts'
import { AccountLink, Badge, Button, ButtonLink, Empty, LinkTo } from '../components/basics.tsx'
import type { CellColumn, Column } from '../components/columns.tsx'
import type { CsvFile } from '../components/csv.tsx'
import { Action } from '../components/dialog.tsx'
import { FilterField, offered, SavedViews, useTyped, valueText } from '../components/filters.tsx'
import { TextField } from '../components/form.tsx'
import { List } from '../components/list.tsx'
import { Page } from '../components/page.tsx'
import { certificateState, counted } from '../format.ts'
import { RENEWAL_ADVICE } from '../labels.ts'
import { withWholeDays } from '../preferences.ts'
import { changeQuery, go, href, type PageProps, type Query } from '../router.ts'
import { useList } from '../use-api.ts'

const FILTERS = Object.keys(CERTIFICATE_FILTERS) as (keyof typeof CERTIFICATE_FILTERS)[]

/** The operation's query; what the address has besides is left out. */
function inputOf(query: Query): Input<'listCertificates'> {
  const known = Object.entries(query).filter(([name]) => name === 'sort' || name in CERTIFICATE_FILTERS)
  return { query: withWholeDays(Object.fromEntries(known)) }
}

export function CertificatesPage({ query, entry }: PageProps) {
  const certificates = useList('listCertificates', inputOf(query), entry)
  const isFiltered = FILTERS.some((name) => query[name] !== undefined)
  const sort = query['sort'] ?? usualSort(query)
  return (
    <Page
      title="Certificates"
      actions={
        <ButtonLink needs="bulkRevoke" to={href('/bulk-revocations/new', bulkQuery(query))} text="Revoke many …" />
      }
    >
      <SavedViews path="/certificates" query={query} />
      <Search query={query} />
      <Chips query={query} />
      <List<ListedCertificate>
        caption="Issued certificates"
        columns={COLUMNS}
        list={certificates}
        csv={CERTIFICATES_CSV}
        onChosen={(chosen, done) => <ChosenActions chosen={chosen} done={done} />}
        sorting={{
          by: sort.replace('-', ''),
          direction: sort.startsWith('-') ? 'descending' : 'ascending',
          // Issued first or last: identifiers have one order only, the newest first.
          onSort(by, direction) {
            const wanted = by === 'issued_at' || direction === 'descending' ? `-${by}` : by
            changeQuery({ sort: wanted === usualSort(query) ? undefined : wanted })
          },
        }}
        empty={
          isFiltered ? (
            <Empty title="No matches">
              <a href={href('/certificates')}>Clear filters</a>
            </Empty>
          ) : (
            <Empty title="No certificates yet">
              <p>
                <LinkTo needs="getOverview" to={href('/')}>
                  Point an ACME client at the directory of this service; the overview shows how.
                </LinkTo>
              </p>
            </Empty>
          )
        }
      />
    </Page>
  )
}

/** Revoked and expired ones are left out by the service. */
function ChosenActions({ chosen, done }: { chosen: readonly ListedCertificate[]; done: () => void }) {
  const serials = chosen.map(({ serial_number }) => serial_number)
  return (
    <>
      <Action
        needs="adviseRenewal"
        kind="small"
        text="Ask to renew …"
        action="Ask to renew now"
        title="Ask the clients to renew now"
        consequence={RENEWAL_ADVICE}
        onConfirm={() => call('adviseRenewal', { body: { filter: { serial_numbers: serials } } })}
        done={({ certificates }) => `Renewal information asks to renew ${counted(certificates, 'certificate')}.`}
        onDone={done}
      />
      <Button
        needs="bulkRevoke"
        kind="small"
        text="Revoke …"
        onClick={() => go('/bulk-revocations/new', { serial_numbers: serials.join(' ') })}
      />
    </>
  )
}

/** The filters that a bulk revocation takes; `without` names the others, which its page shows. */
function bulkQuery(query: Query): Record<string, string | undefined> {
  const given = Object.keys(query).filter((name) => name in CERTIFICATE_FILTERS)
  const taken = given.filter((name) => name in REVOCATION_FILTERS)
  // It hits none but active ones anyway.
  const without = given.filter((name) => !taken.includes(name) && name !== 'serial' && query[name] !== 'active')
  return {
    ...Object.fromEntries(taken.map((name) => [name, query[name]])),
    serial_numbers: query['serial'],
    without: without.join(' ') || undefined,
  }
}

function Search({ query }: { query: Query }) {
  const [values, type] = useTyped(query)
  const submit = (event: Event) => {
    event.preventDefault()
    const { search = '', ...filters } = values
    go('/certificates', { ...filters, ...filterOfText(search) })
  }
  const field = (name: string) => ({
    value: values[name] ?? '',
    onChange: (value: string) => type({ [name]: value }),
  })
  return (
    <search>
      <form class="filters" onSubmit={submit}>
        <TextField label="Search" type="search" placeholder="host.example.com, serial number …" {...field('search')} />
        {offered(CERTIFICATE_FILTERS).map((name) => (
          <FilterField key={name} filter={CERTIFICATE_FILTERS[name]} {...field(name)} />
        ))}
        <div class="actions">
          <button type="submit" class="primary">
            Search
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
          {CERTIFICATE_FILTERS[name].label}: {valueText(CERTIFICATE_FILTERS[name], query[name] ?? '')}{' '}
          <button
            type="button"
            class="small"
            aria-label={`Remove the filter ${CERTIFICATE_FILTERS[name].label}`}
            onClick={() => changeQuery({ [name]: undefined })}
          >
            ×
          </button>
        </span>
      ))}
      <a href={href('/certificates')}>Clear filters</a>
    </div>
  )
}

export type ListedCertificate = Output<'listCertificates'>[number]
type Dated = Pick<ListedCertificate, 'revoked_at' | 'not_after' | 'renewal'>

/** Names in a row of a list; the page of the certificate has all. */
const NAMES_SHOWN = 4

export function CertificateStatus({ certificate }: { certificate: Dated }) {
  const { text, tone } = certificateState(certificate, Date.now())
  return <Badge tone={tone}>{text}</Badge>
}

export function Names({
  certificate: { serial_number, san_values },
}: {
  certificate: Pick<ListedCertificate, 'serial_number' | 'san_values'>
}) {
  const [first = serial_number, ...others] = san_values
  const shown = others.slice(0, NAMES_SHOWN - 1)
  return (
    <span class="names">
      <a href={href(`/certificates/${serial_number}`)}>{first}</a>
      {shown.map((name) => (
        <span key={name}>{name}</span>
      ))}
      {others.length > shown.length && <span class="quiet">+{others.length - shown.length}</span>}
    </span>
  )
}

/** Columns of more than one member. */
const CELLS: Readonly<Record<string, Pick<CellColumn<ListedCertificate>, 'kind' | 'cell'>>> = {
  san_values: { kind: 'wide', cell: (row) => <Names certificate={row} /> },
  revoked_at: { kind: 'fixed', cell: (row) => <CertificateStatus certificate={row} /> },
  account_name: {
    cell: ({ account_id, account_name }) =>
      account_id ? (
        <AccountLink id={account_id} name={account_name} />
      ) : (
        <span class="quiet">none: imported, or of this service itself</span>
      ),
  },
  serial_number: {
    kind: 'fixed',
    cell: ({ serial_number }) => <code title={serial_number}>{shortSerial(serial_number)}</code>,
  },
}
const COLUMNS = CERTIFICATE_MEMBERS.page.map((column): Column<ListedCertificate> => {
  const own = CELLS[column.member]
  return own ? { head: column.head, ...own } : column
})

/** The end of a UUID of version 7 differs; the beginning is its time. */
export const shortId = (id: string) => `…${id.slice(-8)}`
const shortSerial = (serial: string) => (serial.length > 16 ? `${serial.slice(0, 8)}…${serial.slice(-6)}` : serial)

const CERTIFICATES_CSV: CsvFile<ListedCertificate> = { name: 'certificates.csv', members: CERTIFICATE_MEMBERS.file }
