/** `/csr-profiles/…/validate`: what a certification request would violate of a profile. */

import type { CommonQueryMethods, DatabasePool } from 'slonik'
import * as z from 'zod/v4'
import { requireFound } from '../../domain/admin-error.ts'
import { certifiedNames } from '../../domain/csr-check.ts'
import { asksForHistory, type CsrProfile, csrProfileViolations } from '../../domain/csr-profile.ts'
import { type Csr, CsrError, parseCsr } from '../../shared/pki/csr.ts'
import { hashSpki } from '../../shared/pki/spki.ts'
import { HISTORY_ANSWERS, type IssuanceHistory, type IssuanceHistoryQuery } from '../../store/account-rules-store.ts'
import { constantSql, rowsOf, sql } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { notRight } from '../admin-errors.ts'
import { uuid } from '../schemas.ts'
import { ProfileData, profileOf } from './csr-profile-data.ts'
import type { HistoryIndexes } from './history-indexes.ts'
import { findProfile } from './profile-store.ts'

const CsrVerdict = z
  .strictObject({
    valid: z.boolean(),
    violations: z.array(z.string()).meta({ description: 'At most 50, and how many more there are.' }),
    unchecked: z
      .array(z.string())
      .optional()
      .meta({ description: 'Fields that are checked only once a profile with them is stored.' }),
  })
  .meta({ id: 'CsrVerdict' })

const csrText = z.string().max(60_000).meta({ description: 'PKCS #10 in DER, base64.' })

export const CSR_PROFILE_TRIALS = endpointGroup('CSR profiles', {
  validateCsr: endpoint({
    route: 'POST /csr-profiles/{profile_id}/validate',
    permission: 'read',
    summary: 'Lists the violations by a request, and issues nothing.',
    params: z.strictObject({ profile_id: uuid() }),
    body: z.strictObject({ csr: csrText }),
    reply: { status: 200, schema: CsrVerdict },
    errors: ['rate_limited'],
    async handle({ params, body, author }, { db, historyIndexes, profileTrials }) {
      const trial = async () => dryRunOfStored(db, historyIndexes, params.profile_id, csrOf(body.csr))
      return { body: await profileTrials.run(author.userId, trial) }
    },
  }),
  validateCsrAgainst: endpoint({
    route: 'POST /csr-profiles/validate',
    permission: 'read',
    summary: 'Lists the violations by a request under profile data that is not stored; issues nothing.',
    body: z.strictObject({ profile_data: ProfileData, csr: csrText }),
    reply: { status: 200, schema: CsrVerdict },
    errors: ['rate_limited'],
    async handle({ body, author }, { db, historyIndexes, profileTrials }) {
      const trial = async () => dryRun(db, historyIndexes, body.profile_data, csrOf(body.csr))
      return { body: await profileTrials.run(author.userId, trial) }
    },
  }),
})

/** base64 as any tool writes it: line breaks, either alphabet, with or without padding. */
function csrOf(text: string): Csr {
  const base64 = text.replaceAll(/\s/g, '')
  if (!/^(?:[A-Za-z0-9+/]+|[A-Za-z0-9_-]+)={0,2}$/.test(base64)) throw wrongCsr('is not base64')
  try {
    return parseCsr(Buffer.from(base64, 'base64'))
  } catch (error) {
    if (error instanceof CsrError) throw wrongCsr(`is no certification request: ${error.message}`)
    throw error
  }
}

const wrongCsr = (message: string) => notRight('body', [{ field: 'csr', message }])

async function dryRunOfStored(db: DatabasePool, indexes: HistoryIndexes, id: string, csr: Csr) {
  const profile = requireFound(await findProfile(db, id), 'CSR profile')
  return dryRun(db, indexes, profile.profile_data, csr)
}

/** Lists the violations by a request, and issues nothing. @throws AdminError for wrong data */
async function dryRun(
  db: DatabasePool,
  indexes: HistoryIndexes,
  data: object,
  csr: Csr,
): Promise<z.input<typeof CsrVerdict>> {
  const profile = profileOf(data)
  const { history, unchecked } = await historyFor(db, indexes, profile, csr)
  const violations = csrProfileViolations(csr, profile, { history })
  return { valid: violations.length === 0, violations, ...(unchecked.length > 0 && { unchecked }) }
}

const DAY_MS = 86_400_000

async function historyFor(db: DatabasePool, indexes: HistoryIndexes, profile: CsrProfile, csr: Csr) {
  if (!asksForHistory(profile)) return { history: undefined, unchecked: [] }
  if (!(await indexes.exist())) {
    const unchecked = [
      ...(profile.reuseKey ? [] : ['reuse_key']),
      ...(profile.renewalWindowDays > 0 ? ['renewal_window_days'] : []),
    ]
    return { history: undefined, unchecked }
  }
  const history = await readHistory(db, {
    spkiSha256: hashSpki(csr.spki),
    names: certifiedNames(csr).map(({ value }) => value),
    notDueBefore: new Date(Date.now() + profile.renewalWindowDays * DAY_MS),
  })
  return { history, unchecked: [] }
}

const History = z.object({ key_certified: z.boolean(), not_due: z.boolean() })

/** Without the indexes of optional-indexes.ts it reads all certificates. */
async function readHistory(
  db: CommonQueryMethods,
  { spkiSha256, names, notDueBefore }: IssuanceHistoryQuery,
): Promise<IssuanceHistory> {
  const row = await db.one(rowsOf(History)`
    SELECT ${constantSql(HISTORY_ANSWERS)}
      FROM (SELECT ${sql.binary(spkiSha256)}::bytea AS spki_sha256, ${names.join(' ')}::text AS names,
                   ${notDueBefore.toISOString()}::timestamptz AS not_due_before) i`)
  return { keyCertified: row.key_certified, notDue: row.not_due }
}
