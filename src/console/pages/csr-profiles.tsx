/** CSR profiles. */

import { type Output, useList } from '../api.ts'
import { Allowed, Empty, Time } from '../components/basics.tsx'
import { Page } from '../components/page.tsx'
import { type Column, List } from '../components/table.tsx'
import { href, type PageProps } from '../router.ts'

type Profile = Output<'listCsrProfiles'>[number]

const COLUMNS: readonly Column<Profile>[] = [
  {
    head: 'Name',
    kind: 'wide',
    cell: ({ id, name }) => <a href={href(`/csr-profiles/${id}`)}>{name}</a>,
  },
  { head: 'Description', kind: 'wide', cell: ({ description }) => description },
  {
    head: 'Rules',
    kind: 'number',
    cell: ({ profile_data }) => Object.keys(profile_data).length,
  },
  { head: 'Changed', kind: 'fixed', cell: ({ updated_at }) => <Time at={updated_at} /> },
]

export function CsrProfilesPage({ entry }: PageProps) {
  const list = useList('listCsrProfiles', {}, entry)
  const create = (
    <Allowed to="createCsrProfile">
      <a class="button" href={href('/csr-profiles/new')}>
        New CSR profile
      </a>
    </Allowed>
  )
  return (
    <Page title="CSR profiles" actions={create}>
      <p class="quiet">Rules for the CSRs of accounts, in addition to the order and the policy.</p>
      <List
        caption="CSR profiles"
        list={list}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        empty={
          <Empty title="No CSR profiles yet">
            <p>
              Without a profile, a CSR only has to match its order. Create one, check it on recent certificates, then
              assign it.
            </p>
            {create}
          </Empty>
        }
      />
    </Page>
  )
}
