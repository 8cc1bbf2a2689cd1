/** `chancery reconcile --lost`: what a fail-over has lost and nobody has accepted, from the database alone. */

import { acceptLostDecisions, listLostDecisions, lostDecisionBody } from '../../admin/audit/lost-decision-endpoints.ts'
import { isOpen, reportByOutcome } from '../../domain/lost-decisions.ts'
import { printable } from '../../shared/lib/terminal.ts'
import { createSignerMarkStore, type GivenUp, type SignerMarkStore } from '../../store/signer-mark-store.ts'
import { readConfigFile } from '../config-file.ts'
import { type Administration, withAdministration, withDatabase } from '../operator-database.ts'
import { tell } from '../printing.ts'
import type { Printing } from '../values.ts'

/** Some 2 MB; those that were found last. */
const MOST_SHOWN = 10_000

export const givenUpLine = ({ sequence, serialNumber, reason }: GivenUp): string =>
  `lost         ${serialNumber}  line ${sequence} of the audit chain: ${reason}`
export const givenUpFacts = ({ serialNumber, reason }: GivenUp) => ({ serial_number: serialNumber, reason })

/** @returns 1 while something is lost, wholly or in part, and nobody has accepted it */
export async function showLost(options: Printing & { 'accept-lost': boolean }): Promise<number> {
  const config = await readConfigFile(options.config)
  return withAdministration(config, (administration) =>
    withDatabase(config, async (db) => {
      const marks = createSignerMarkStore(db)
      const isLost = await tellLost(administration, await marks.givenUp(), options.json)
      if (options['accept-lost']) await acceptLost(administration, marks)
      return isLost && !options['accept-lost'] ? 1 : 0
    }),
  )
}

async function tellLost({ db }: Administration, certificates: readonly GivenUp[], json: boolean): Promise<boolean> {
  const rows = await listLostDecisions(db, { accepted: false }, { limit: MOST_SHOWN + 1, offset: 0 })
  const shown = rows.slice(0, MOST_SHOWN)
  const more = rows.length > shown.length
  const acts = shown.map(({ decided_at: at, decided_by: by, ...row }) => ({ at, by, ...row }))
  tell(
    json,
    { decisions: shown.map(lostDecisionBody), more, lost: certificates.map(givenUpFacts) },
    ...reportByOutcome(acts).map(printable),
    ...(more ? [`Only the ${MOST_SHOWN} that were found last are shown.`] : []),
    ...certificates.map(givenUpLine),
    shown.length + certificates.length > 0
      ? '\nWhen nothing more is to be done: chancery reconcile --lost --accept-lost'
      : 'Nothing that a fail-over has lost is left to look at.',
  )
  return more || acts.some(isOpen) || certificates.length > 0
}

/** Certificates and acts. */
export async function acceptLost({ audit, actor }: Administration, marks: SignerMarkStore): Promise<void> {
  const certificates = await marks.givenUp()
  if (certificates.length > 0) {
    const accepted = certificates.map(({ serialNumber }) => serialNumber)
    await audit.record(actor, 'database.reconcile', { accepted })
    await marks.acceptGivenUp()
  }
  await acceptLostDecisions(audit, actor)
}
