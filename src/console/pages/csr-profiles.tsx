/** CSR profiles. */

import { type Output, useList } from '../api.ts'
import { Allowed, Empty, Time } from '../components/basics.tsx'
import { Page } from '../components/page.tsx'
import { type Column, List } from '../components/table.tsx'
import { href, type PageProps } from '../router.ts'
import { WORDS } from '../words.ts'

type Profile = Output<'listCsrProfiles'>[number]

const COLUMNS: readonly Column<Profile>[] = [
  {
    head: WORDS.csrProfiles.name,
    kind: 'wide',
    cell: ({ id, name }) => <a href={href(`/csr-profiles/${id}`)}>{name}</a>,
  },
  { head: WORDS.csrProfiles.description, kind: 'wide', cell: ({ description }) => description },
  {
    head: WORDS.csrProfiles.demands,
    kind: 'number',
    cell: ({ profile_data }) => Object.keys(profile_data).length,
  },
  { head: WORDS.common.changed, kind: 'fixed', cell: ({ updated_at }) => <Time at={updated_at} /> },
]

export function CsrProfilesPage({ entry }: PageProps) {
  const list = useList('listCsrProfiles', {}, entry)
  const create = (
    <Allowed to="createCsrProfile">
      <a class="button" href={href('/csr-profiles/new')}>
        {WORDS.csrProfiles.create}
      </a>
    </Allowed>
  )
  return (
    <Page title={WORDS.pages.csrProfiles} actions={create}>
      <p class="quiet">{WORDS.csrProfiles.about}</p>
      <List
        caption={WORDS.pages.csrProfiles}
        list={list}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        empty={
          <Empty title={WORDS.csrProfiles.empty}>
            <p>{WORDS.csrProfiles.begin}</p>
            {create}
          </Empty>
        }
      />
    </Page>
  )
}
