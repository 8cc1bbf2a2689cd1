/**
 * One service for several test files, because a start takes three seconds of a processor.
 *
 * `npm test` imports the files that name the same service into one process (see `chosen-files.ts`), where they run one after
 * the other. Each file finds a database without the accounts, orders and administrators of the file before; the audit log,
 * the CRL's state and counters of metrics go on. A file that is run alone starts the service for itself.
 *
 * A file that changes what the whole service does, reads its log, or ends it starts one of its own: `startTestService()`.
 */

import { after } from 'node:test'
import { adminConfig } from './admin.ts'
import { rowsIn, type TestDatabase } from './database.ts'
import { startTestService, type TestService, type TestServiceOptions } from './service.ts'

export const TERMS_URL = 'https://ca.example.test/terms'

/** Their configurations hold what any of the files needs and none of them minds. */
const SHARED = {
  admin: {
    config: {
      ...adminConfig(),
      acme: { eab_reusable: true },
      ari: { enabled: true },
      crl: { enabled: true },
      metrics: { auth_required: true },
      tos: { url: TERMS_URL, version: '2', require_agreement: true },
    },
  },
} as const satisfies Record<string, TestServiceOptions>

type SharedServiceName = keyof typeof SHARED

/** What threads of a running service rely on, and what an audit log does not allow. */
const KEPT = [
  ...['schema_migrations', 'server_settings', 'issuers', 'nonce_%', 'crl%', 'event_consumers', 'background_runs'],
  ...['admin_audit_%', 'audit_verifications', '%_progress'],
]

const started = new Map<SharedServiceName, Promise<TestService>>()

// Here, so that it belongs to no suite and runs after the last file.
after(async () => {
  for (const service of started.values()) await (await service).dispose()
})

/** The caller does not end it. */
export async function sharedService(name: SharedServiceName): Promise<TestService> {
  const known = started.get(name)
  if (known) {
    await empty((await known).database)
    return known
  }
  const service = startTestService(SHARED[name])
  started.set(name, service)
  return service
}

async function empty(database: TestDatabase): Promise<void> {
  const tables = await rowsIn<{ name: string }>(
    database,
    `SELECT quote_ident(tablename) AS name FROM pg_tables
      WHERE schemaname = 'public' AND NOT tablename LIKE ANY ($1)`,
    [KEPT],
  )
  await rowsIn(database, `TRUNCATE ${tables.map(({ name }) => name).join(', ')}`)
}
