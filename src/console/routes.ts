/**
 * The pages. To add one:
 * 1. Write `pages/<name>.tsx` with one export, a component that takes `PageProps` and draws `<Page>`.
 * 2. Name it in `WORDS.pages`, and give it a section of words of its own.
 * 3. Add a row here. `needs` is the operation without which it would be empty: a role that may not
 *    call it sees neither page nor link. `group` puts it into the navigation; details have none.
 * 4. Read with `useApi` (one reply) and `useList` (a list by cursor, drawn by `<List>`), write with
 *    `call`; buttons stand in `<Allowed to="operationId">`, changes in `<Confirm>`.
 * 5. Filters are in `query` and change with `changeQuery`: links and the back button then work.
 */

import type { ComponentType } from 'preact'
import type { OperationId } from './api.ts'
import { BulkRevocationPage } from './pages/bulk-revocation.tsx'
import { BulkRevocationsPage } from './pages/bulk-revocations.tsx'
import { CertificatePage } from './pages/certificate.tsx'
import { CertificatesPage } from './pages/certificates.tsx'
import { OverviewPage } from './pages/overview.tsx'
import type { PageProps } from './router.ts'
import type { WORDS } from './words.ts'

export interface Route {
  path: string
  name: keyof typeof WORDS.pages
  page: ComponentType<PageProps>
  needs: OperationId
  group?: keyof typeof WORDS.groups
}

/** In the order of the navigation. */
export const ROUTES: readonly Route[] = [
  { path: '/', name: 'overview', page: OverviewPage, needs: 'listCertificates', group: 'daily' },
  { path: '/certificates', name: 'certificates', page: CertificatesPage, needs: 'listCertificates', group: 'daily' },
  { path: '/certificates/:serial', name: 'certificate', page: CertificatePage, needs: 'getCertificate' },
  {
    ...{ path: '/bulk-revocations', name: 'bulk', page: BulkRevocationsPage },
    ...{ needs: 'listBulkRevocations', group: 'daily' },
  },
  { path: '/bulk-revocations/:job', name: 'bulkRevocation', page: BulkRevocationPage, needs: 'getBulkRevocation' },
]
