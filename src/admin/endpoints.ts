/** All endpoints of the Admin API. */

import * as z from 'zod/v4'
import { type AnyEndpoint, endpoint, endpointGroup } from './admin-endpoint.ts'
import { APPROVALS } from './approvals/approval-endpoints.ts'
import { AUDIT_LOG } from './audit/audit-endpoints.ts'
import { LOST_DECISIONS } from './audit/lost-decision-endpoints.ts'
import { ACCOUNTS } from './certificates/account-endpoints.ts'
import { AT_RISK } from './certificates/at-risk-endpoints.ts'
import { CERTIFICATE_DETAILS } from './certificates/certificate-details.ts'
import { CERTIFICATES } from './certificates/certificate-endpoints.ts'
import { EXPIRY } from './certificates/expiry-endpoints.ts'
import { ORDERS } from './certificates/order-endpoints.ts'
import { RENEWALS } from './certificates/renewal-endpoints.ts'
import { EAB_CHANGES } from './eab/credential-creation.ts'
import { EAB, ONBOARDING } from './eab/credential-endpoints.ts'
import { ALLOWED_IDENTIFIERS, CSR_PROFILE_ASSIGNMENTS, EAB_GRANTS } from './grants/grant-endpoints.ts'
import { INCIDENTS } from './incidents/incident-endpoints.ts'
import { NAMES } from './names/name-endpoints.ts'
import { CRLS } from './operation/crl-endpoints.ts'
import { DEAD_LETTERS, EVENT_COUNTS, FAILURES } from './operation/event-endpoints.ts'
import { ISSUERS } from './operation/issuer-endpoints.ts'
import { NOTIFICATIONS } from './operation/notification-endpoints.ts'
import { SETTINGS, SWITCHES, WORKERS } from './operation/operation-endpoints.ts'
import { OVERVIEW } from './operation/overview-endpoints.ts'
import { TERMS } from './operation/terms-endpoints.ts'
import { CSR_PROFILES } from './profiles/profile-endpoints.ts'
import { CSR_PROFILE_CHECK, CSR_PROFILE_TRIALS } from './profiles/profile-trial-endpoints.ts'
import { BACKEND_REVOCATIONS } from './revocations/backend-revocation-endpoints.ts'
import { BLOCKED_KEYS } from './revocations/blocked-key-endpoints.ts'
import { BULK_REVOCATIONS } from './revocations/bulk-revocation-endpoints.ts'
import { CERTIFICATE_REVOCATIONS } from './revocations/certificate-revocations.ts'
import { SEARCH } from './search/search-endpoints.ts'
import { SUMMARIES } from './summaries.ts'
import { TOKENS } from './users/api-tokens.ts'
import { PASSKEYS } from './users/passkey-endpoints.ts'
import { OIDC, SESSIONS } from './users/session-endpoints.ts'
import { SESSION, USERS } from './users/user-endpoints.ts'

const SERVICE = endpointGroup('Service', {
  getName: endpoint({
    route: 'GET /',
    permission: 'none',
    // The paginator of an existing client sends one here.
    query: z.looseObject({}),
    reply: { status: 200, schema: z.strictObject({ name: z.string(), version: z.string() }) },
    handle: async (_request, { version }) => ({ body: { name: 'chancery', version } }),
  }),
  getOpenApi: endpoint({
    route: 'GET /openapi.json',
    permission: 'none',
    reply: { status: 200, schema: z.record(z.string(), z.unknown()) },
    handle: async (_request, { openApi }) => ({ octets: openApi() }),
  }),
})

/** The client (`client.ts`) takes its types from here. */
export const OPERATIONS = {
  ...SERVICE,
  ...SESSION,
  ...SESSIONS,
  ...OIDC,
  ...PASSKEYS,
  ...USERS,
  ...TOKENS,
  ...SEARCH,
  ...NAMES,
  ...APPROVALS,
  ...AUDIT_LOG,
  ...LOST_DECISIONS,
  ...BULK_REVOCATIONS,
  ...OVERVIEW,
  ...SWITCHES,
  ...CRLS,
  ...SETTINGS,
  ...WORKERS,
  ...EVENT_COUNTS,
  ...FAILURES,
  ...DEAD_LETTERS,
  ...NOTIFICATIONS,
  ...TERMS,
  ...ISSUERS,
  ...BACKEND_REVOCATIONS,
  ...EAB,
  ...EAB_CHANGES,
  ...ONBOARDING,
  ...EAB_GRANTS,
  ...ALLOWED_IDENTIFIERS,
  ...CSR_PROFILES,
  ...CSR_PROFILE_TRIALS,
  ...CSR_PROFILE_ASSIGNMENTS,
  ...CSR_PROFILE_CHECK,
  ...ACCOUNTS,
  ...CERTIFICATES,
  ...CERTIFICATE_DETAILS,
  ...CERTIFICATE_REVOCATIONS,
  ...EXPIRY,
  ...AT_RISK,
  ...ORDERS,
  ...RENEWALS,
  ...BLOCKED_KEYS,
  ...INCIDENTS,
}

/** The router and all that is made from the descriptions need no types. */
export const ENDPOINTS = Object.entries<object>(OPERATIONS).map(([id, one]) => ({
  ...one,
  summary: SUMMARIES[id as keyof typeof OPERATIONS],
})) as unknown as readonly AnyEndpoint[]
