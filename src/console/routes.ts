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
import { lazyPage } from './components/lazy-page.tsx'
import { OverviewPage } from './pages/overview.tsx'
import type { PageProps } from './router.ts'

export interface Route {
  path: string
  /** In the navigation, and above what the role may not see. */
  name: string
  page: ComponentType<PageProps>
  needs: OperationId
  group?: string
  /** Opens it after `g`. */
  key?: string
}

/** In the order of the navigation. */
export const ROUTES: readonly Route[] = [
  { path: '/', name: 'Overview', page: OverviewPage, needs: 'getMe', group: 'Daily', key: 'o' },
  {
    path: '/certificates',
    name: 'Certificates',
    page: lazyPage(() => import('./pages/certificates.tsx'), 'CertificatesPage'),
    needs: 'listCertificates',
    group: 'Daily',
    key: 'c',
  },
  {
    path: '/certificates/:serial',
    name: 'Certificate',
    page: lazyPage(() => import('./pages/certificate.tsx'), 'CertificatePage'),
    needs: 'getCertificate',
  },
  {
    path: '/at-risk',
    name: 'At risk',
    page: lazyPage(() => import('./pages/at-risk.tsx'), 'AtRiskPage'),
    needs: 'listAtRisk',
    group: 'Daily',
  },
  {
    path: '/bulk-revocations',
    name: 'Bulk revocations',
    page: lazyPage(() => import('./pages/bulk-revocations.tsx'), 'BulkRevocationsPage'),
    needs: 'listBulkRevocations',
    group: 'Daily',
  },
  {
    path: '/bulk-revocations/new',
    name: 'Bulk revocations',
    page: lazyPage(() => import('./pages/new-bulk-revocation.tsx'), 'NewBulkRevocationPage'),
    needs: 'bulkRevoke',
  },
  {
    path: '/bulk-revocations/:job',
    name: 'Bulk revocation',
    page: lazyPage(() => import('./pages/bulk-revocations.tsx'), 'BulkRevocationPage'),
    needs: 'getBulkRevocation',
  },
  {
    path: '/incident',
    name: 'Incident',
    page: lazyPage(() => import('./pages/incidents.tsx'), 'IncidentsPage'),
    needs: 'examineIncident',
    group: 'Daily',
  },
  {
    path: '/incident/:incident',
    name: 'Incident',
    page: lazyPage(() => import('./pages/incident.tsx'), 'IncidentPage'),
    needs: 'getIncident',
  },
  {
    path: '/failures',
    name: 'Failures',
    page: lazyPage(() => import('./pages/failures.tsx'), 'FailuresPage'),
    needs: 'listFailures',
    group: 'Daily',
    key: 'f',
  },
  {
    path: '/names/:name',
    name: 'Name',
    page: lazyPage(() => import('./pages/name.tsx'), 'NamePage'),
    needs: 'getNameHistory',
  },
  {
    path: '/orders',
    name: 'Orders',
    page: lazyPage(() => import('./pages/orders.tsx'), 'OrdersPage'),
    needs: 'listOrders',
    group: 'Daily',
    key: 'r',
  },
  {
    path: '/orders/:order',
    name: 'Order',
    page: lazyPage(() => import('./pages/orders.tsx'), 'OrderPage'),
    needs: 'getOrder',
  },
  {
    path: '/authorizations/:authorization',
    name: 'Authorization',
    page: lazyPage(() => import('./pages/orders.tsx'), 'AuthorizationPage'),
    needs: 'getAuthorization',
  },
  {
    path: '/accounts',
    name: 'Accounts',
    page: lazyPage(() => import('./pages/accounts.tsx'), 'AccountsPage'),
    needs: 'listAccounts',
    group: 'Clients',
    key: 'a',
  },
  {
    path: '/accounts/:account',
    name: 'Account',
    page: lazyPage(() => import('./pages/accounts.tsx'), 'AccountPage'),
    needs: 'getAccount',
  },
  {
    path: '/eab',
    name: 'EAB credentials',
    page: lazyPage(() => import('./pages/eab.tsx'), 'EabPage'),
    needs: 'listEabCredentials',
    group: 'Clients',
    key: 'e',
  },
  {
    path: '/eab/:credential',
    name: 'EAB credential',
    page: lazyPage(() => import('./pages/eab.tsx'), 'EabCredentialPage'),
    needs: 'getEabCredential',
  },
  {
    path: '/onboarding',
    name: 'Onboarding',
    page: lazyPage(() => import('./pages/onboarding.tsx'), 'OnboardingPage'),
    needs: 'createEabCredential',
    group: 'Clients',
    key: 'w',
  },
  {
    path: '/onboarding/:credential',
    name: 'Hand-over',
    page: lazyPage(() => import('./pages/hand-over.tsx'), 'HandOverPage'),
    needs: 'getEabCredential',
  },
  {
    path: '/identifiers',
    name: 'Allowed identifiers',
    page: lazyPage(() => import('./pages/identifiers.tsx'), 'IdentifiersPage'),
    needs: 'listAllowedIdentifiers',
    group: 'Policy',
    key: 'i',
  },
  {
    path: '/csr-profiles',
    name: 'CSR profiles',
    page: lazyPage(() => import('./pages/csr-profiles.tsx'), 'CsrProfilesPage'),
    needs: 'listCsrProfiles',
    group: 'Policy',
    key: 'p',
  },
  {
    path: '/csr-profiles/:profile',
    name: 'CSR profile',
    page: lazyPage(() => import('./pages/csr-profiles.tsx'), 'CsrProfilePage'),
    needs: 'getCsrProfile',
  },
  {
    path: '/blocked-keys',
    name: 'Blocked keys',
    page: lazyPage(() => import('./pages/blocked-keys.tsx'), 'BlockedKeysPage'),
    needs: 'listBlockedKeys',
    group: 'Policy',
    key: 'b',
  },
  {
    path: '/operation',
    name: 'Maintenance and signing',
    page: lazyPage(() => import('./pages/operation.tsx'), 'OperationPage'),
    needs: 'getOverview',
    group: 'Service',
    key: 'm',
  },
  {
    path: '/issuers',
    name: 'Issuers',
    page: lazyPage(() => import('./pages/issuers.tsx'), 'IssuersPage'),
    needs: 'listIssuers',
    group: 'Service',
  },
  {
    path: '/crl',
    name: 'CRL',
    page: lazyPage(() => import('./pages/issuers.tsx'), 'CrlPage'),
    needs: 'listCrls',
    group: 'Service',
    key: 'l',
  },
  {
    path: '/notifications',
    name: 'Notifications',
    page: lazyPage(() => import('./pages/notifications.tsx'), 'NotificationsPage'),
    needs: 'listNotifications',
    group: 'Service',
    key: 'n',
  },
  {
    path: '/events',
    name: 'Events',
    page: lazyPage(() => import('./pages/events.tsx'), 'EventsPage'),
    needs: 'getWorkers',
    group: 'Service',
    key: 'v',
  },
  {
    path: '/settings',
    name: 'Settings',
    page: lazyPage(() => import('./pages/settings.tsx'), 'SettingsPage'),
    // A registrar is shown only what its clients need.
    needs: 'getOverview',
    group: 'Service',
    key: 's',
  },
  {
    path: '/audit-log',
    name: 'Audit log',
    page: lazyPage(() => import('./pages/audit.tsx'), 'AuditPage'),
    needs: 'listAuditLog',
    group: 'People',
    key: 'h',
  },
  {
    path: '/lost-decisions',
    name: 'Lost decisions',
    page: lazyPage(() => import('./pages/lost-decisions.tsx'), 'LostDecisionsPage'),
    needs: 'listLostDecisions',
    group: 'People',
  },
  {
    path: '/approvals',
    name: 'Approvals',
    page: lazyPage(() => import('./pages/approvals.tsx'), 'ApprovalsPage'),
    needs: 'listApprovals',
    group: 'People',
  },
  {
    path: '/approvals/:approval',
    name: 'Approval',
    page: lazyPage(() => import('./pages/approvals.tsx'), 'ApprovalPage'),
    needs: 'getApproval',
  },
  {
    path: '/users',
    name: 'Users',
    page: lazyPage(() => import('./pages/users.tsx'), 'UsersPage'),
    needs: 'listUsers',
    group: 'People',
    key: 'u',
  },
  {
    path: '/tokens',
    name: 'API tokens',
    page: lazyPage(() => import('./pages/tokens.tsx'), 'TokensPage'),
    needs: 'listTokens',
    group: 'People',
    key: 't',
  },
  {
    path: '/profile',
    name: 'Your profile',
    page: lazyPage(() => import('./pages/profile.tsx'), 'ProfilePage'),
    needs: 'getMe',
    group: 'People',
  },
]
