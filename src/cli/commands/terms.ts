/**
 * `chancery terms accept`: records agreements to the terms of service given outside the protocol.
 */

import type { Config } from '../../config/schema.ts'
import { createAccountStore } from '../../store/account-store.ts'
import { tell } from '../table.ts'
import { CommandError } from '../values.ts'
import { withDatabase } from './operator-database.ts'

/** @param accountId undefined for every account */
export async function acceptTerms(config: Config, accountId: string | undefined, json: boolean): Promise<number> {
  const { version } = config.tos
  if (version === null) throw new CommandError('tos.version is not set: an agreement is good for ever')
  return withDatabase(config, async (db) => {
    const accounts = createAccountStore(db)
    if (accountId === undefined) {
      const agreed = await accounts.agreeAllToTerms(version)
      tell(json, { accounts: agreed, version }, `${agreed} accounts have now agreed to ${version}`)
      return 0
    }
    if (!(await accounts.agreeToTerms(accountId, version)))
      throw new CommandError(`there is no valid account ${accountId}`)
    tell(json, { account: accountId, version }, `${accountId} has agreed to ${version}`)
    return 0
  })
}
