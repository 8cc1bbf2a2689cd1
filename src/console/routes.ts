/**
 * The pages. To add one:
 * 1. Write `pages/<name>.tsx` with a component that takes `PageProps`. A page that is one list is a descriptor for
 *    `listPage`; others draw `<Page>`, or `<LoadedPage>` where one reply fills them.
 * 2. Write its words where they are shown; what several pages show is in `labels.ts`.
 * 3. Add its file to `PAGES` and a row to its group below. `needs` is the operation without which it would be empty: a
 *    role that may not call it sees neither page nor link.
 * 4. Read with `useApi` (one reply) and `useList` (a list by cursor, drawn by `<List>`), write with `call`; a button that
 *    changes something is an `<Action needs="operationId">`.
 * 5. Filters are in `query` and change with `changeQuery`: links and the back button then work.
 */

import type { ComponentType } from 'preact'
import type { OperationId } from './api.ts'
import { lazyPages } from './components/lazy-page.tsx'
import { OverviewPage } from './pages/overview.tsx'
import type { PageProps } from './router.ts'

/** The files of the pages, with what each exports. All but the first page are loaded when they are opened. */
const PAGES = {
  OverviewPage,
  ...lazyPages(() => import('./pages/certificates.tsx'), 'CertificatesPage'),
  ...lazyPages(() => import('./pages/certificate.tsx'), 'CertificatePage'),
  ...lazyPages(() => import('./pages/at-risk.tsx'), 'AtRiskPage'),
  ...lazyPages(
    () => import('./pages/bulk-revocations.tsx'),
    'BulkRevocationsPage',
    'BulkRevocationPage',
    'NewBulkRevocationPage',
  ),
  ...lazyPages(() => import('./pages/incidents.tsx'), 'IncidentsPage'),
  ...lazyPages(() => import('./pages/incident.tsx'), 'IncidentPage'),
  ...lazyPages(() => import('./pages/failures.tsx'), 'FailuresPage'),
  ...lazyPages(() => import('./pages/name.tsx'), 'NamePage'),
  ...lazyPages(() => import('./pages/orders.tsx'), 'OrdersPage', 'OrderPage', 'AuthorizationPage'),
  ...lazyPages(() => import('./pages/accounts.tsx'), 'AccountsPage', 'AccountPage'),
  ...lazyPages(() => import('./pages/eab.tsx'), 'EabPage', 'EabCredentialPage'),
  ...lazyPages(() => import('./pages/onboarding.tsx'), 'OnboardingPage', 'HandOverPage'),
  ...lazyPages(() => import('./pages/identifiers.tsx'), 'IdentifiersPage'),
  ...lazyPages(() => import('./pages/csr-profiles.tsx'), 'CsrProfilesPage', 'CsrProfilePage'),
  ...lazyPages(() => import('./pages/blocked-keys.tsx'), 'BlockedKeysPage'),
  ...lazyPages(() => import('./pages/issuers.tsx'), 'IssuersPage', 'CrlPage'),
  ...lazyPages(() => import('./pages/notifications.tsx'), 'NotificationsPage'),
  ...lazyPages(() => import('./pages/events.tsx'), 'EventsPage'),
  ...lazyPages(() => import('./pages/settings.tsx'), 'SettingsPage', 'OperationPage'),
  ...lazyPages(() => import('./pages/audit.tsx'), 'AuditPage'),
  ...lazyPages(() => import('./pages/lost-decisions.tsx'), 'LostDecisionsPage'),
  ...lazyPages(() => import('./pages/approvals.tsx'), 'ApprovalsPage', 'ApprovalPage'),
  ...lazyPages(() => import('./pages/users.tsx'), 'UsersPage', 'TokensPage'),
  ...lazyPages(() => import('./pages/profile.tsx'), 'ProfilePage'),
} satisfies Readonly<Record<string, ComponentType<PageProps>>>

interface Row {
  path: string
  /** The words in the navigation, and above what the role may not see. */
  name: string
  needs: OperationId
  /** Opens it after `g`. */
  key?: string
  page: keyof typeof PAGES
}

/** The groups of the navigation, in its order. A path of one part has a link there; the others are details of it. */
const GROUPS: Readonly<Record<string, readonly Row[]>> = {
  Daily: [
    { path: '/', name: 'Overview', needs: 'getMe', key: 'o', page: 'OverviewPage' },
    { path: '/certificates', name: 'Certificates', needs: 'listCertificates', key: 'c', page: 'CertificatesPage' },
    { path: '/certificates/:serial', name: 'Certificate', needs: 'getCertificate', page: 'CertificatePage' },
    { path: '/at-risk', name: 'At risk', needs: 'listAtRisk', page: 'AtRiskPage' },
    { path: '/bulk-revocations', name: 'Bulk revocations', needs: 'listBulkRevocations', page: 'BulkRevocationsPage' },
    { path: '/bulk-revocations/new', name: 'Bulk revocations', needs: 'bulkRevoke', page: 'NewBulkRevocationPage' },
    { path: '/bulk-revocations/:job', name: 'Bulk revocation', needs: 'getBulkRevocation', page: 'BulkRevocationPage' },
    { path: '/incident', name: 'Incident', needs: 'examineIncident', page: 'IncidentsPage' },
    { path: '/incident/:incident', name: 'Incident', needs: 'getIncident', page: 'IncidentPage' },
    { path: '/failures', name: 'Failures', needs: 'listFailures', key: 'f', page: 'FailuresPage' },
    { path: '/names/:name', name: 'Name', needs: 'getNameHistory', page: 'NamePage' },
    { path: '/orders', name: 'Orders', needs: 'listOrders', key: 'r', page: 'OrdersPage' },
    { path: '/orders/:order', name: 'Order', needs: 'getOrder', page: 'OrderPage' },
    {
      path: '/authorizations/:authorization',
      name: 'Authorization',
      needs: 'getAuthorization',
      page: 'AuthorizationPage',
    },
  ],
  Clients: [
    { path: '/accounts', name: 'Accounts', needs: 'listAccounts', key: 'a', page: 'AccountsPage' },
    { path: '/accounts/:account', name: 'Account', needs: 'getAccount', page: 'AccountPage' },
    { path: '/eab', name: 'EAB credentials', needs: 'listEabCredentials', key: 'e', page: 'EabPage' },
    { path: '/eab/:credential', name: 'EAB credential', needs: 'getEabCredential', page: 'EabCredentialPage' },
    { path: '/onboarding', name: 'Onboarding', needs: 'createEabCredential', key: 'w', page: 'OnboardingPage' },
    { path: '/onboarding/:credential', name: 'Hand-over', needs: 'getEabCredential', page: 'HandOverPage' },
  ],
  Policy: [
    {
      path: '/identifiers',
      name: 'Allowed identifiers',
      needs: 'listAllowedIdentifiers',
      key: 'i',
      page: 'IdentifiersPage',
    },
    { path: '/csr-profiles', name: 'CSR profiles', needs: 'listCsrProfiles', key: 'p', page: 'CsrProfilesPage' },
    { path: '/csr-profiles/:profile', name: 'CSR profile', needs: 'getCsrProfile', page: 'CsrProfilePage' },
    { path: '/blocked-keys', name: 'Blocked keys', needs: 'listBlockedKeys', key: 'b', page: 'BlockedKeysPage' },
  ],
  Service: [
    { path: '/operation', name: 'Maintenance and signing', needs: 'getOverview', key: 'm', page: 'OperationPage' },
    { path: '/issuers', name: 'Issuers', needs: 'listIssuers', page: 'IssuersPage' },
    { path: '/crl', name: 'CRL', needs: 'listCrls', key: 'l', page: 'CrlPage' },
    { path: '/notifications', name: 'Notifications', needs: 'listNotifications', key: 'n', page: 'NotificationsPage' },
    { path: '/events', name: 'Events', needs: 'getWorkers', key: 'v', page: 'EventsPage' },
    // A registrar is shown only what its clients need.
    { path: '/settings', name: 'Settings', needs: 'getOverview', key: 's', page: 'SettingsPage' },
  ],
  People: [
    { path: '/audit-log', name: 'Audit log', needs: 'listAuditLog', key: 'h', page: 'AuditPage' },
    { path: '/lost-decisions', name: 'Lost decisions', needs: 'listLostDecisions', page: 'LostDecisionsPage' },
    { path: '/approvals', name: 'Approvals', needs: 'listApprovals', page: 'ApprovalsPage' },
    { path: '/approvals/:approval', name: 'Approval', needs: 'getApproval', page: 'ApprovalPage' },
    { path: '/users', name: 'Users', needs: 'listUsers', key: 'u', page: 'UsersPage' },
    { path: '/tokens', name: 'API tokens', needs: 'listTokens', key: 't', page: 'TokensPage' },
    { path: '/profile', name: 'Your profile', needs: 'getMe', page: 'ProfilePage' },
  ],
}

export interface Route extends Omit<Row, 'page'> {
  page: ComponentType<PageProps>
  /** The group of its link in the navigation; details have none. */
  group: string | undefined
}

export const ROUTES: readonly Route[] = Object.entries(GROUPS).flatMap(([group, rows]) =>
  rows.map((row) => ({ ...row, page: PAGES[row.page], group: row.path.lastIndexOf('/') === 0 ? group : undefined })),
)
