/** To be replaced by the functions of each act. */

import type { AcmeAct, Decision, Outcome, RestrictingAct } from '../../domain/decision.ts'
import { queriesOf } from '../../store/slonik.ts'
import { createServerSettings } from '../../store/switch-store.ts'
import type { Transaction } from '../audit/audit-log.ts'

export type Restore = (tx: Transaction, decision: Decision) => Promise<Exclude<Outcome, 'entry'>>
export const RESTORES = {
  'signing.stop': async (tx: Transaction, { by }: Decision) =>
    (await createServerSettings(queriesOf(tx)).setSwitch('stopSigning', true, { by, reason: undefined }))
      ? 'restored'
      : 'overtaken',
} as unknown as Readonly<Record<RestrictingAct, Restore>>
export type FindLacking = (tx: Transaction, decisions: readonly Decision[]) => Promise<ReadonlySet<string>>
export const ACME_LACKING = Object.fromEntries(
  [
    'acme.new_account',
    'acme.update_contacts',
    'acme.deactivate_account',
    'acme.change_key',
    'acme.deactivate_authorization',
    'acme.prove_compromise',
  ].map((act) => [act, async () => new Set<string>()]),
) as unknown as Readonly<Record<AcmeAct, FindLacking>>
