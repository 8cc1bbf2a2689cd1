/**
 * How each decision comes back that a fail-over has lost, in the order in which they were made
 * (docs/decisions/decisions-outlive-the-database.md).
 */

import type { RestrictingAct } from '../../domain/decision.ts'
import { ACCOUNT_RESTORES } from './accounts.ts'
import { APPROVAL_RESTORES } from './approvals.ts'
import { CREDENTIAL_RESTORES } from './credentials.ts'
import { PROFILE_RESTORES } from './profiles.ts'
import type { Restore } from './restore.ts'
import { REVOCATION_RESTORES } from './revocations.ts'
import { SWITCH_RESTORES } from './switches.ts'
import { USER_RESTORES } from './users.ts'

export type { Restore } from './restore.ts'

export const RESTORES: Readonly<Record<RestrictingAct, Restore>> = {
  ...ACCOUNT_RESTORES,
  ...APPROVAL_RESTORES,
  ...CREDENTIAL_RESTORES,
  ...PROFILE_RESTORES,
  ...REVOCATION_RESTORES,
  ...SWITCH_RESTORES,
  ...USER_RESTORES,
}
