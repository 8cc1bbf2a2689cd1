/** All endpoints of the Admin API. */

import { z } from 'zod/v4'
import { AUDIT_LOG } from './audit/audit-endpoints.ts'
import { ACCOUNTS } from './certificates/account-endpoints.ts'
import { CERTIFICATES } from './certificates/certificate-endpoints.ts'
import { EXPIRY } from './certificates/expiry-endpoints.ts'
import { ORDERS } from './certificates/order-endpoints.ts'
import { RENEWALS } from './certificates/renewal-endpoints.ts'
import { EAB } from './eab/credential-endpoints.ts'
import { ALLOWED_IDENTIFIERS } from './eab/identifier-endpoints.ts'
import { type AnyEndpoint, endpoint, endpointGroup } from './endpoint.ts'
import { DEAD_LETTERS } from './operation/dead-letter-endpoints.ts'
import { ISSUERS } from './operation/issuer-endpoints.ts'
import { NOTIFICATIONS } from './operation/notification-endpoints.ts'
import { OPERATION } from './operation/operation-endpoints.ts'
import { OVERVIEW } from './operation/overview-endpoints.ts'
import { SETTINGS } from './operation/settings-endpoints.ts'
import { EVENT_COUNTS, FAILURES } from './operation/statistics-endpoints.ts'
import { TERMS } from './operation/terms-endpoints.ts'
import { WORKERS } from './operation/worker-endpoints.ts'
import { CSR_PROFILE_CHECK } from './profiles/profile-check-endpoints.ts'
import { CSR_PROFILES } from './profiles/profile-endpoints.ts'
import { BACKEND_REVOCATIONS } from './revocations/backend-revocation-endpoints.ts'
import { BLOCKED_KEYS } from './revocations/blocked-key-endpoints.ts'
import { BULK_REVOCATIONS } from './revocations/bulk-revocation-endpoints.ts'
import { TOKENS } from './users/api-tokens.ts'
import { SESSION, USERS } from './users/user-endpoints.ts'

const SERVICE = endpointGroup('Service', {
  getName: endpoint({
    route: 'GET /',
    roles: 'none',
    summary: 'Shows the name and version of the service.',
    // The paginator of an existing client sends one here.
    query: z.looseObject({}),
    reply: { status: 200, schema: z.strictObject({ name: z.string(), version: z.string() }) },
    handle: async (_request, { version }) => ({ body: { name: 'chancery', version } }),
  }),
  getOpenApi: endpoint({
    route: 'GET /openapi.json',
    roles: 'none',
    summary: 'Describes this interface as an OpenAPI 3.1 document.',
    reply: { status: 200, schema: z.record(z.string(), z.unknown()) },
    handle: async (_request, { openApi }) => ({ octets: openApi() }),
  }),
})

/** With their types, for the client (`client.ts`). */
export const OPERATIONS = {
  ...SERVICE,
  ...SESSION,
  ...USERS,
  ...TOKENS,
  ...AUDIT_LOG,
  ...BULK_REVOCATIONS,
  ...OVERVIEW,
  ...OPERATION,
  ...SETTINGS,
  ...WORKERS,
  ...EVENT_COUNTS,
  ...FAILURES,
  ...DEAD_LETTERS,
  ...BACKEND_REVOCATIONS,
  ...NOTIFICATIONS,
  ...EAB,
  ...ALLOWED_IDENTIFIERS,
  ...CSR_PROFILES,
  ...CSR_PROFILE_CHECK,
  ...ACCOUNTS,
  ...TERMS,
  ...CERTIFICATES,
  ...EXPIRY,
  ...ORDERS,
  ...RENEWALS,
  ...BLOCKED_KEYS,
  ...ISSUERS,
}

/** Without them, for the router and all that is made from the descriptions. */
export const ENDPOINTS = Object.values(OPERATIONS) as unknown as readonly AnyEndpoint[]
