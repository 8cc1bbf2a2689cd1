/** Credentials whose networks need no challenge: a name that one grants is certified without validation. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import type { AllowedIdentifier } from '../../domain/allowlist.ts'
import { rowsOf } from '../../store/slonik.ts'
import type { Note } from '../audit/audit-log.ts'
import type { AdminContext } from '../context.ts'

const Found = z.object({ kid: z.string(), networks: z.array(z.string()).nullable() })

const find = (db: CommonQueryMethods, id: string) =>
  db.maybeOne(rowsOf(Found)`
    SELECT kid, preapproved_networks::text[] AS networks FROM eab_credentials WHERE id = ${id}`)

/** None where each name needs its challenge. */
export const networksWithoutChallenge = async (db: CommonQueryMethods, id: string): Promise<readonly string[]> =>
  (await find(db, id))?.networks ?? []

const preApproves = async ({ params }: { params: { cred_id: string } }, { db }: Pick<AdminContext, 'db'>) =>
  (await networksWithoutChallenge(db, params.cred_id)).length > 0

/** For endpoints that grant a name to a credential. */
export const IN_PERSON = { needsSession: preApproves, recentSignIn: preApproves } as const

/** All administrators hear of this entry. */
export async function notePreApproval(
  tx: CommonQueryMethods,
  note: Note,
  id: string,
  names: readonly AllowedIdentifier[],
): Promise<void> {
  const found = names.length > 0 ? await find(tx, id) : null
  if (!found?.networks) return
  const { kid, networks } = found
  note('eab.pre_approve', { eab_id: id, kid, names: names.map(({ value }) => value), networks })
}
