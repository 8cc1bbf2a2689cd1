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
import { AccountPage } from './pages/account.tsx'
import { AccountsPage } from './pages/accounts.tsx'
import { AuditPage } from './pages/audit.tsx'
import { BlockedKeysPage } from './pages/blocked-keys.tsx'
import { BulkRevocationPage } from './pages/bulk-revocation.tsx'
import { BulkRevocationsPage } from './pages/bulk-revocations.tsx'
import { CertificatePage } from './pages/certificate.tsx'
import { CertificatesPage } from './pages/certificates.tsx'
import { CrlPage } from './pages/crl.tsx'
import { CsrProfilePage } from './pages/csr-profile.tsx'
import { CsrProfilesPage } from './pages/csr-profiles.tsx'
import { EabPage } from './pages/eab.tsx'
import { EabCredentialPage } from './pages/eab-credential.tsx'
import { EventsPage } from './pages/events.tsx'
import { FailuresPage } from './pages/failures.tsx'
import { IdentifiersPage } from './pages/identifiers.tsx'
import { IssuersPage } from './pages/issuers.tsx'
import { NewBulkRevocationPage } from './pages/new-bulk-revocation.tsx'
import { NotificationsPage } from './pages/notifications.tsx'
import { OperationPage } from './pages/operation.tsx'
import { AuthorizationPage, OrderPage } from './pages/order.tsx'
import { OrdersPage } from './pages/orders.tsx'
import { OverviewPage } from './pages/overview.tsx'
import { ProfilePage } from './pages/profile.tsx'
import { SettingsPage } from './pages/settings.tsx'
import { TokensPage } from './pages/tokens.tsx'
import { UsersPage } from './pages/users.tsx'
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
    path: '/bulk-revocations',
    name: 'bulk',
    page: BulkRevocationsPage,
    needs: 'listBulkRevocations',
    group: 'daily',
  },
  { path: '/bulk-revocations/new', name: 'bulk', page: NewBulkRevocationPage, needs: 'bulkRevoke' },
  { path: '/bulk-revocations/:job', name: 'bulkRevocation', page: BulkRevocationPage, needs: 'getBulkRevocation' },
  { path: '/failures', name: 'failures', page: FailuresPage, needs: 'listFailures', group: 'daily' },
  { path: '/orders', name: 'orders', page: OrdersPage, needs: 'listOrders', group: 'daily' },
  { path: '/orders/:order', name: 'order', page: OrderPage, needs: 'getOrder' },
  {
    path: '/authorizations/:authorization',
    name: 'authorization',
    page: AuthorizationPage,
    needs: 'getAuthorization',
  },
  { path: '/accounts', name: 'accounts', page: AccountsPage, needs: 'listAccounts', group: 'clients' },
  { path: '/accounts/:account', name: 'account', page: AccountPage, needs: 'getAccount' },
  { path: '/eab', name: 'eab', page: EabPage, needs: 'listEabCredentials', group: 'clients' },
  { path: '/eab/:credential', name: 'eabCredential', page: EabCredentialPage, needs: 'getEabCredential' },
  {
    path: '/identifiers',
    name: 'identifiers',
    page: IdentifiersPage,
    needs: 'listAllowedIdentifiers',
    group: 'policy',
  },
  { path: '/csr-profiles', name: 'csrProfiles', page: CsrProfilesPage, needs: 'listCsrProfiles', group: 'policy' },
  { path: '/csr-profiles/:profile', name: 'csrProfile', page: CsrProfilePage, needs: 'getCsrProfile' },
  { path: '/blocked-keys', name: 'blockedKeys', page: BlockedKeysPage, needs: 'listBlockedKeys', group: 'policy' },
  { path: '/operation', name: 'operation', page: OperationPage, needs: 'getOverview', group: 'service' },
  { path: '/issuers', name: 'issuers', page: IssuersPage, needs: 'listIssuers', group: 'service' },
  { path: '/crl', name: 'crl', page: CrlPage, needs: 'listCrls', group: 'service' },
  {
    path: '/notifications',
    name: 'notifications',
    page: NotificationsPage,
    needs: 'listNotifications',
    group: 'service',
  },
  { path: '/events', name: 'events', page: EventsPage, needs: 'getWorkers', group: 'service' },
  { path: '/settings', name: 'settings', page: SettingsPage, needs: 'getSettings', group: 'service' },
  { path: '/audit-log', name: 'audit', page: AuditPage, needs: 'listAuditLog', group: 'people' },
  { path: '/users', name: 'users', page: UsersPage, needs: 'listUsers', group: 'people' },
  { path: '/tokens', name: 'tokens', page: TokensPage, needs: 'listTokens', group: 'people' },
  { path: '/profile', name: 'profile', page: ProfilePage, needs: 'getMe', group: 'people' },
]
