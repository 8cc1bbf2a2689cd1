/** The report of an incident, in lines: the incident, its owners, and each certificate with its outcome. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import type { Actor } from '../../domain/administrator.ts'
import { accountNameMember } from '../account-names.ts'
import type { AdminContext } from '../context.ts'
import { listResults } from '../revocations/bulk-revocation-store.ts'
import { requireAuthority } from '../users/sessions.ts'
import { Incident, incidentBody } from './incident-bodies.ts'
import { MOST_OWNERS, nameOf } from './incident-hits.ts'
import { findOwners, type Incident as IncidentRow, outcomesByOwner } from './incident-store.ts'

export const OutcomeOfOwner = z
  .strictObject({
    account_id: z.uuid().nullable(),
    account_name: accountNameMember(),
    contacts: z.array(z.string()),
    certificates: z.int().meta({ description: 'That the bulk revocation found.' }),
    not_revoked: z.int().meta({ description: 'Of them, those that are valid now.' }),
  })
  .meta({ id: 'IncidentOutcomeOfOwner' })

export const ReportLine = z
  .union([
    z.strictObject({ incident: Incident }),
    z.strictObject({ owner: OutcomeOfOwner }),
    z.strictObject({
      certificate: z.strictObject({
        serial_number: z.string(),
        names: z.array(z.string()),
        account_id: z.uuid().nullable(),
        outcome: z.string().nullable().meta({ description: 'Null until its turn.' }),
      }),
    }),
  ])
  .meta({ id: 'IncidentReportLine' })
type ReportLine = z.input<typeof ReportLine>

const PAGE = 500

/** @throws AdminError as soon as the author may no longer read on */
export async function* reportLines(
  context: Pick<AdminContext, 'db' | 'policy'>,
  author: Actor,
  row: IncidentRow,
): AsyncGenerator<string> {
  const { db } = context
  const line = (one: ReportLine) => JSON.stringify(one)
  yield line({ incident: await incidentBody(context, row) })
  if (row.job_id === null) return
  for (const owner of await outcomes(db, row.job_id, MOST_OWNERS)) yield line({ owner })
  for (let afterId: string | undefined; ; ) {
    await requireAuthority(db, author)
    const found = await listResults(db, row.job_id, { afterId, limit: PAGE })
    if (found.length > 0)
      yield found
        .map(({ serial_number, names, account_id, outcome }) =>
          line({ certificate: { serial_number, names, account_id, outcome } }),
        )
        .join('\n')
    if (found.length < PAGE) return
    afterId = found.at(-1)?.certificate_id
  }
}

/** Counts by owner what a job has done so far, the most certificates first. */
export async function outcomes(db: CommonQueryMethods, jobId: string, limit: number) {
  const found = await outcomesByOwner(db, jobId, limit)
  const owners = await findOwners(
    db,
    found.flatMap(({ account_id }) => account_id ?? []),
  )
  return found.map(({ account_id, certificates, not_revoked }) => {
    const owner = owners.get(account_id ?? '')
    return { account_id, account_name: nameOf(owner), contacts: owner?.contacts ?? [], certificates, not_revoked }
  })
}
