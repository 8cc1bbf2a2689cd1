/** Operations of the Admin API on the database itself: with a configuration file, and without a service. */

import type { Config } from '../../config/schema.ts'
import { LocalAdminApi } from '../../main/admin/local-admin.ts'
import { VERSION } from '../../main/version.ts'
import { type Administration, withAdministration } from '../commands/administration.ts'
import { OperationCaller } from './caller.ts'
import { signingIssuers } from './signing-issuers.ts'

/** @param schema `any` for what must work between two releases */
export function withLocalApi(
  config: Config,
  work: (caller: OperationCaller) => Promise<number>,
  schema: 'current' | 'any' = 'current',
): Promise<number> {
  const withCaller = async ({ db, audit, actor }: Administration) => {
    const api = new LocalAdminApi({
      config,
      version: VERSION,
      db,
      audit,
      operator: actor,
      signingIssuers: () => signingIssuers(config),
    })
    const caller = new OperationCaller({
      baseUrl: api.baseUrl,
      fetch: api.fetch as typeof fetch,
      token: () => undefined,
      explain: (error) => error,
    })
    try {
      return await work(caller)
    } finally {
      await api.close()
    }
  }
  return withAdministration(config, withCaller, schema)
}
