/** The overview of a registrar: what the accounts and credentials with its tags need today. */

import { useState } from 'preact/hooks'
import type { Output } from '../api.ts'
import { ButtonLink, Empty, Freshness } from '../components/basics.tsx'
import { ACCOUNT, type Column } from '../components/columns.tsx'
import { LoadedTable } from '../components/loaded.tsx'
import { Page } from '../components/page.tsx'
import type { TableProps } from '../components/table.tsx'
import { DAY_MS } from '../format.ts'
import { href } from '../router.ts'
import { useSession } from '../stored-session.ts'
import { type Loaded, POLL_MS, useApi } from '../use-api.ts'
import { CertificateStatus, Names } from './certificates.tsx'
import { columnsOf as columnsOfCauses } from './failures.tsx'

type AtRisk = Output<'listAtRisk'>[number]
type Certificate = Output<'listCertificates'>[number]
type Credential = Output<'listEabCredentials'>[number]

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
          <ButtonLink needs="createEabCredential" to={href('/onboarding')} text="Onboard a team" />
        </>
      }
    >
      <p class="quiet">Of accounts and credentials with one of your tags: {user?.scope.join(', ')}.</p>
      <First
        caption="At risk"
        to={href('/at-risk')}
        loaded={atRisk}
        columns={AT_RISK}
        empty={<Empty title="No certificates at risk" />}
      />
      <First
        caption="Failures in 24 hours, by cause"
        to={href('/failures', { since })}
        loaded={causes}
        columns={columnsOfCauses({ since })}
        rowKey={({ kind, problem }) => `${kind} ${problem}`}
        empty={<Empty title="No failures in 24 hours" />}
      />
      <div class="columns">
        <First
          caption="Newest certificates"
          to={href('/certificates')}
          loaded={certificates}
          columns={CERTIFICATES}
          empty={<Empty title="No certificates yet" />}
        />
        <First
          caption="Open credentials"
          to={href('/eab', { status: 'open' })}
          loaded={credentials}
          columns={CREDENTIALS}
          empty={<Empty title="No open credentials" about="An administrator makes the first credential of a tag." />}
        />
      </div>
    </Page>
  )
}

interface FirstProps<R> extends Omit<TableProps<R>, 'rows'> {
  /** The list with all of them. */
  to: string
  loaded: Loaded<readonly R[]>
}

/** The first rows of a list. */
const First = <R,>({ to, ...table }: FirstProps<R>) => (
  <LoadedTable<readonly R[], R>
    {...table}
    rows={(rows) => rows}
    below={(rows) => rows.length >= ROWS && <a href={to}>View all</a>}
  />
)

const CERTIFICATES: readonly Column<Certificate>[] = [
  { head: 'Names', kind: 'wide', cell: (row) => <Names certificate={row} /> },
  { head: 'Status', kind: 'fixed', cell: (row) => <CertificateStatus certificate={row} /> },
]

const AT_RISK: readonly Column<AtRisk>[] = [
  { head: 'Names', kind: 'wide', cell: (row) => <Names certificate={row} /> },
  { head: 'Status', kind: 'fixed', cell: (row) => <CertificateStatus certificate={row} /> },
  { head: 'Expires', member: 'not_after', kind: 'time' },
  ACCOUNT,
]

const CREDENTIALS: readonly Column<Credential>[] = [
  { head: 'Key identifier', member: 'kid', kind: 'wide', to: ({ id }) => href(`/eab/${id}`) },
  {
    head: 'Accounts',
    kind: 'number',
    cell: ({ uses, max_uses }) => (max_uses === null ? uses : `${uses} / ${max_uses}`),
  },
  { head: 'Expires', member: 'expires_at', kind: 'time' },
]
