/**
 * How each decision comes back that a fail-over has lost, in the order in which they were made
 * (docs/decisions/decisions-outlive-the-database.md).
 */

import { ACME_ACTS, type AcmeAct, type Decision, type RestrictingAct } from '../../domain/decision.ts'
import { findLacking } from '../../store/account-decisions.ts'
import { queriesOf } from '../../store/slonik.ts'
import type { Transaction } from '../audit/audit-log.ts'
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

/** Which of these decisions over ACME the database lacks. @returns their ids */
export type FindLacking = (tx: Transaction, decisions: readonly Decision[]) => Promise<ReadonlySet<string>>

export const ACME_LACKING = Object.fromEntries(
  ACME_ACTS.map((act): [AcmeAct, FindLacking] => [act, (tx, decisions) => findLacking(queriesOf(tx), act, decisions)]),
) as Readonly<Record<AcmeAct, FindLacking>>
