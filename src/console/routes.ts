/**
 * The pages. To add one:
 * 1. Write `pages/<name>.tsx` with one export, a component that takes `PageProps` and draws `<Page>`.
 * 2. Write its words where they are shown; what several pages show is in `labels.ts`.
 * 3. Add a row here. `needs` is the operation without which it would be empty: a role that may not
 *    call it sees neither page nor link. `group` puts it into the navigation; details have none.
 * 4. Read with `useApi` (one reply) and `useList` (a list by cursor, drawn by `<List>`), write with
 *    `call`; a button that changes something is an `<Action needs="operationId">`.
 * 5. Filters are in `query` and change with `changeQuery`: links and the back button then work.
 */

import type { ComponentType } from 'preact'
import type { OperationId } from './api.ts'
import { AccountPage, AccountsPage } from './pages/accounts.tsx'
import { AuditPage } from './pages/audit.tsx'
import { BlockedKeysPage } from './pages/blocked-keys.tsx'
import { BulkRevocationPage, BulkRevocationsPage } from './pages/bulk-revocations.tsx'
import { CertificatePage } from './pages/certificate.tsx'
import { CertificatesPage } from './pages/certificates.tsx'
import { CsrProfilePage, CsrProfilesPage } from './pages/csr-profiles.tsx'
import { EabCredentialPage, EabPage } from './pages/eab.tsx'
import { EventsPage } from './pages/events.tsx'
import { FailuresPage } from './pages/failures.tsx'
import { IdentifiersPage } from './pages/identifiers.tsx'
import { CrlPage, IssuersPage } from './pages/issuers.tsx'
import { NewBulkRevocationPage } from './pages/new-bulk-revocation.tsx'
import { NotificationsPage } from './pages/notifications.tsx'
import { OperationPage } from './pages/operation.tsx'
import { AuthorizationPage, OrderPage, OrdersPage } from './pages/orders.tsx'
import { OverviewPage } from './pages/overview.tsx'
import { SettingsPage } from './pages/settings.tsx'
import { TokensPage } from './pages/tokens.tsx'
import { ProfilePage, UsersPage } from './pages/users.tsx'
import type { PageProps } from './router.ts'

export interface Route {
  path: string
  /** In the navigation, and above what the role may not see. */
  name: string
  page: ComponentType<PageProps>
  needs: OperationId
  group?: string
}

/** In the order of the navigation. */
export const ROUTES: readonly Route[] = [
  { path: '/', name: 'Overview', page: OverviewPage, needs: 'listCertificates', group: 'Daily' },
  { path: '/certificates', name: 'Certificates', page: CertificatesPage, needs: 'listCertificates', group: 'Daily' },
  { path: '/certificates/:serial', name: 'Certificate', page: CertificatePage, needs: 'getCertificate' },
  {
    path: '/bulk-revocations',
    name: 'Bulk revocations',
    page: BulkRevocationsPage,
    needs: 'listBulkRevocations',
    group: 'Daily',
  },
  { path: '/bulk-revocations/new', name: 'Bulk revocations', page: NewBulkRevocationPage, needs: 'bulkRevoke' },
  { path: '/bulk-revocations/:job', name: 'Bulk revocation', page: BulkRevocationPage, needs: 'getBulkRevocation' },
  { path: '/failures', name: 'Failures', page: FailuresPage, needs: 'listFailures', group: 'Daily' },
  { path: '/orders', name: 'Orders', page: OrdersPage, needs: 'listOrders', group: 'Daily' },
  { path: '/orders/:order', name: 'Order', page: OrderPage, needs: 'getOrder' },
  {
    path: '/authorizations/:authorization',
    name: 'Authorization',
    page: AuthorizationPage,
    needs: 'getAuthorization',
  },
  { path: '/accounts', name: 'Accounts', page: AccountsPage, needs: 'listAccounts', group: 'Clients' },
  { path: '/accounts/:account', name: 'Account', page: AccountPage, needs: 'getAccount' },
  { path: '/eab', name: 'EAB credentials', page: EabPage, needs: 'listEabCredentials', group: 'Clients' },
  { path: '/eab/:credential', name: 'EAB credential', page: EabCredentialPage, needs: 'getEabCredential' },
  {
    path: '/identifiers',
    name: 'Allowed identifiers',
    page: IdentifiersPage,
    needs: 'listAllowedIdentifiers',
    group: 'Policy',
  },
  { path: '/csr-profiles', name: 'CSR profiles', page: CsrProfilesPage, needs: 'listCsrProfiles', group: 'Policy' },
  { path: '/csr-profiles/:profile', name: 'CSR profile', page: CsrProfilePage, needs: 'getCsrProfile' },
  { path: '/blocked-keys', name: 'Blocked keys', page: BlockedKeysPage, needs: 'listBlockedKeys', group: 'Policy' },
  { path: '/operation', name: 'Maintenance and signing', page: OperationPage, needs: 'getOverview', group: 'Service' },
  { path: '/issuers', name: 'Issuers', page: IssuersPage, needs: 'listIssuers', group: 'Service' },
  { path: '/crl', name: 'CRL', page: CrlPage, needs: 'listCrls', group: 'Service' },
  {
    path: '/notifications',
    name: 'Notifications',
    page: NotificationsPage,
    needs: 'listNotifications',
    group: 'Service',
  },
  { path: '/events', name: 'Events', page: EventsPage, needs: 'getWorkers', group: 'Service' },
  { path: '/settings', name: 'Settings', page: SettingsPage, needs: 'getSettings', group: 'Service' },
  { path: '/audit-log', name: 'Audit log', page: AuditPage, needs: 'listAuditLog', group: 'People' },
  { path: '/users', name: 'Users', page: UsersPage, needs: 'listUsers', group: 'People' },
  { path: '/tokens', name: 'API tokens', page: TokensPage, needs: 'listTokens', group: 'People' },
  { path: '/profile', name: 'Your profile', page: ProfilePage, needs: 'getMe', group: 'People' },
]
