/** The overview of a registrar: what the accounts and credentials with its tags need today. */

import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { Output } from '../api.ts'
import { AccountLink, ButtonLink, Empty, Freshness, Ready, Time } from '../components/basics.tsx'
import { Page, Section } from '../components/page.tsx'
import { type Column, Table } from '../components/table.tsx'
import { href } from '../router.ts'
import { useSession } from '../stored-session.ts'
import { type Loaded, POLL_MS, useApi } from '../use-api.ts'
import { CertificateStatus, Names } from './certificates.tsx'
import { columnsOf as columnsOfCauses } from './failures.tsx'

type AtRisk = Output<'listAtRisk'>[number]
type Certificate = Output<'listCertificates'>[number]
type Credential = Output<'listEabCredentials'>[number]

const DAY_MS = 86_400_000
const ROWS = 5
const LIMIT = { limit: String(ROWS) }
const EVERY = { every: POLL_MS }

export function TeamOverviewPage() {
  const { user } = useSession()
  const [since] = useState(() => new Date(Date.now() - DAY_MS).toISOString())
  const atRisk = useApi('listAtRisk', { query: LIMIT }, EVERY)
  const causes = useApi('listFailureCauses', { query: { since, ...LIMIT } }, EVERY)
  const certificates = useApi('listCertificates', { query: LIMIT }, EVERY)
  const credentials = useApi('listEabCredentials', { query: { status: 'open', ...LIMIT } }, EVERY)
  return (
    <Page
      title="Overview"
      actions={
        <>
          <Freshness loaded={atRisk} />
          <ButtonLink needs="createEabCredential" to={href('/onboarding')}>
            Onboard a team
          </ButtonLink>
        </>
      }
    >
      <p class="quiet">Of accounts and credentials with one of your tags: {user?.scope.join(', ')}.</p>
      <First title="At risk" to={href('/at-risk')} loaded={atRisk} columns={AT_RISK} empty="No certificates at risk" />
      <First
        title="Failures in 24 hours, by cause"
        to={href('/failures', { since })}
        loaded={causes}
        columns={columnsOfCauses({ since })}
        rowKey={({ kind, problem }) => `${kind} ${problem}`}
        empty="No failures in 24 hours"
      />
      <div class="columns">
        <First
          title="Newest certificates"
          to={href('/certificates')}
          loaded={certificates}
          columns={CERTIFICATES}
          empty="No certificates yet"
        />
        <First
          title="Open credentials"
          to={href('/eab', { status: 'open' })}
          loaded={credentials}
          columns={CREDENTIALS}
          empty="No open credentials"
        >
          <p>An administrator makes the first credential of a tag.</p>
        </First>
      </div>
    </Page>
  )
}

interface FirstProps<R> {
  title: string
  /** The list with all of them. */
  to: string
  loaded: Loaded<readonly R[]>
  columns: readonly Column<R>[]
  rowKey?: (row: R) => string
  empty: string
  /** Below the words for an empty list. */
  children?: ComponentChildren
}

/** The first rows of a list. */
const First = <R,>({ title, to, loaded, empty, children, ...table }: FirstProps<R>) => (
  <Section title={title}>
    <Ready loaded={loaded}>
      {(rows) => (
        <>
          <Table {...table} caption={title} rows={rows} empty={<Empty title={empty}>{children}</Empty>} />
          {rows.length >= ROWS && <a href={to}>View all</a>}
        </>
      )}
    </Ready>
  </Section>
)

const AT_RISK: readonly Column<AtRisk>[] = [
  { head: 'Names', kind: 'wide', cell: (row) => <Names certificate={row} /> },
  { head: 'Status', kind: 'fixed', cell: (row) => <CertificateStatus certificate={row} /> },
  { head: 'Expires', kind: 'fixed', cell: ({ not_after }) => <Time at={not_after} /> },
  {
    head: 'Account',
    cell: ({ account_id, account_name }) => account_id && <AccountLink id={account_id} name={account_name} />,
  },
]

const CERTIFICATES: readonly Column<Certificate>[] = [
  { head: 'Names', kind: 'wide', cell: (row) => <Names certificate={row} /> },
  { head: 'Status', kind: 'fixed', cell: (row) => <CertificateStatus certificate={row} /> },
]

const CREDENTIALS: readonly Column<Credential>[] = [
  { head: 'Key identifier', kind: 'wide', cell: ({ id, kid }) => <a href={href(`/eab/${id}`)}>{kid}</a> },
  {
    head: 'Accounts',
    kind: 'number',
    cell: ({ uses, max_uses }) => (max_uses === null ? uses : `${uses} / ${max_uses}`),
  },
  { head: 'Expires', kind: 'fixed', cell: ({ expires_at }) => <Time at={expires_at} /> },
]
