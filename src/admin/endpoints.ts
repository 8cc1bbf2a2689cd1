/** All endpoints of the Admin API. */

import { z } from 'zod/v4'
import { ACCOUNTS } from './accounts.ts'
import { ALLOWED_IDENTIFIERS } from './allowed-identifiers.ts'
import { AUDIT_LOG } from './audit-log.ts'
import { BACKEND_REVOCATIONS } from './backend-revocations.ts'
import { BLOCKED_KEYS } from './blocked-keys.ts'
import { BULK_REVOCATIONS } from './bulk-revocations.ts'
import { CERTIFICATES } from './certificates.ts'
import { CSR_PROFILE_CHECK } from './csr-profile-check.ts'
import { CSR_PROFILES } from './csr-profiles.ts'
import { DEAD_LETTERS } from './dead-letters.ts'
import { EAB } from './eab.ts'
import { type AnyEndpoint, endpoint } from './endpoint.ts'
import { EXPIRY } from './expiry.ts'
import { ISSUERS } from './issuers.ts'
import { NOTIFICATIONS } from './notifications.ts'
import { OPERATION } from './operation.ts'
import { ORDERS } from './orders.ts'
import { OVERVIEW } from './overview.ts'
import { RENEWALS } from './renewals.ts'
import { SESSION } from './session.ts'
import { SETTINGS } from './settings.ts'
import { STATISTICS } from './statistics.ts'
import { TERMS } from './terms.ts'
import { TOKENS } from './tokens.ts'
import { USERS } from './users.ts'
import { WORKERS } from './workers.ts'

const getName = endpoint({
  id: 'getName',
  method: 'GET',
  path: '',
  tag: 'Service',
  roles: 'none',
  summary: 'Shows the name and version of the service.',
  // The paginator of an existing client sends one here.
  query: z.looseObject({}),
  reply: { status: 200, schema: z.strictObject({ name: z.string(), version: z.string() }) },
  handle: async (_request, { version }) => ({ body: { name: 'chancery', version } }),
})

const getOpenApi = endpoint({
  id: 'getOpenApi',
  method: 'GET',
  path: '/openapi.json',
  tag: 'Service',
  roles: 'none',
  summary: 'Describes this interface as an OpenAPI 3.1 document.',
  reply: { status: 200, schema: z.record(z.string(), z.unknown()) },
  handle: async (_request, { openApi }) => ({ octets: openApi() }),
})

/** With their types, for the client (`client.ts`). */
export const OPERATIONS = [
  getName,
  getOpenApi,
  ...SESSION,
  ...USERS,
  ...TOKENS,
  ...AUDIT_LOG,
  ...BULK_REVOCATIONS,
  ...OVERVIEW,
  ...OPERATION,
  ...SETTINGS,
  ...WORKERS,
  ...STATISTICS,
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
] as const

/** Without them, for the router and all that is made from the descriptions. */
export const ENDPOINTS = OPERATIONS as unknown as readonly AnyEndpoint[]
