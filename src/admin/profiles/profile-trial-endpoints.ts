/**
 * `/csr-profiles/…/validate` and `/csr-profiles/check`: what a request would violate, and whom a profile would refuse.
 *
 * The check is tried on issued certificates: each has the names and the key of its CSR. Usages and subject do not come from
 * there (docs/decisions/certificate-content.md), and of the common names it has at most one.
 */

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { CommonQueryMethods, DatabasePool } from 'slonik'
import * as z from 'zod/v4'
import { notFound, requireFound } from '../../domain/admin-error.ts'
import { certifiedNames } from '../../domain/csr-check.ts'
import { asksForHistory, type CsrFacts, type CsrProfile, csrProfileViolations } from '../../domain/csr-profile.ts'
import { hashSpki } from '../../shared/pki/algorithms.ts'
import { parseCertificate, type TbsCertificate } from '../../shared/pki/certificate.ts'
import { type Csr, CsrError, parseCsr } from '../../shared/pki/csr.ts'
import { commonNamesOf, formatName } from '../../shared/pki/name.ts'
import { HISTORY_ANSWERS, type IssuanceHistory, type IssuanceHistoryQuery } from '../../store/account-rules-store.ts'
import { ALL_ROWS } from '../../store/list-page.ts'
import { constantSql, rowsOf, sql } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { notRight } from '../admin-errors.ts'
import { accountNameMember, withAccountNames } from '../certificates/account-list.ts'
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

/** The last certificates are tried on a profile, as far as a certificate shows what its CSR said. */
const CHECKED_CERTIFICATES = 1_000
const MOST_EXAMPLES = 50
const MOST_VIOLATIONS = 5
/** Expressions may take half a second for one certificate, and other requests wait meanwhile. */
const MOST_MS = 2_000
const TURN_MS = 20

const CsrProfileCheck = z
  .strictObject({
    checked: z.int().meta({ description: `Certificates that were tried: at most the last ${CHECKED_CERTIFICATES}.` }),
    complete: z.boolean().meta({ description: 'False when two seconds were over before the last of them.' }),
    refused: z.int(),
    accounts: z.int().meta({ description: 'Accounts of the refused ones.' }),
    examples: z
      .array(
        z.strictObject({
          serial_number: z.string(),
          account_id: z.uuid(),
          account_name: accountNameMember(),
          san_values: z.array(z.string()),
          violations: z.array(z.string()),
        }),
      )
      .meta({ description: 'At most 50 and 48,000 characters, the newest first; five violations of each.' }),
    not_checked: z
      .array(z.strictObject({ field: z.string(), reason: z.string() }))
      .meta({ description: 'Fields that no certificate answers.' }),
  })
  .meta({ id: 'CsrProfileCheck' })

export const CSR_PROFILE_CHECK = endpointGroup('CSR profiles', {
  checkCsrProfile: endpoint({
    route: 'POST /csr-profiles/check',
    permission: 'read',
    body: z.strictObject({
      profile_data: ProfileData,
      profile_id: uuid().optional().meta({
        description: 'Only certificates of accounts for which this profile counts, among the last 10,000.',
      }),
    }),
    reply: { status: 200, schema: CsrProfileCheck },
    errors: ['not_found', 'rate_limited'],
    async handle({ body, author }, { db, profileTrials }) {
      const check = () => checkProfile(db, body.profile_data, body.profile_id)
      return { body: await profileTrials.run(author.userId, check) }
    },
  }),
})

/**
 * @param profileId a stored profile that the data would replace: only its accounts count
 * @throws AdminError for wrong data or an unknown profile
 */
async function checkProfile(
  db: CommonQueryMethods,
  data: object,
  profileId: string | undefined,
): Promise<z.input<typeof CsrProfileCheck>> {
  const profile = profileOf(data)
  if (profileId !== undefined && !(await findProfile(db, profileId))) throw notFound('CSR profile')
  const certificates = await listIssuedLately(db, profileId, CHECKED_CERTIFICATES)
  const tried = await tryAll(certificates, profile)
  const notChecked = Object.entries(UNKNOWABLE)
    .filter(([field]) => Object.hasOwn(data, field))
    .map(([field, reason]) => ({ field, reason }))
  return {
    ...tried,
    examples: await withAccountNames(db, tried.examples),
    complete: tried.checked === certificates.length,
    not_checked: notChecked,
  }
}

async function tryAll(certificates: readonly IssuedCertificate[], profile: CsrProfile) {
  const demands = knowablePart(profile)
  const deadline = performance.now() + MOST_MS
  const accounts = new Set<string>()
  const examples: { certificate: IssuedCertificate; violations: string[] }[] = []
  const keysSeen = new Set<string>()
  let [checked, refused, turnBegan] = [0, 0, performance.now()]
  // The oldest first: a key counts as reused where it comes the second time.
  for (const certificate of certificates.toReversed()) {
    const now = performance.now()
    if (now > deadline) break
    if (now - turnBegan > TURN_MS) {
      await nextTurn()
      turnBegan = performance.now()
    }
    checked++
    const { tbs } = parseCertificate(certificate.der)
    const key = hashSpki(tbs.spki).toString('base64')
    const history = { keyCertified: keysSeen.has(key), notDue: false }
    const violations = csrProfileViolations(csrFactsOf(tbs), demands, { history, most: MOST_VIOLATIONS })
    keysSeen.add(key)
    if (violations.length === 0) continue
    refused++
    accounts.add(certificate.account_id)
    examples.unshift({ certificate, violations })
    if (examples.length > MOST_EXAMPLES) examples.pop()
  }
  const shown = newestWithinAnswer(examples).map(
    ({ certificate: { serial_number, account_id, names }, violations }) => ({
      serial_number,
      account_id,
      san_values: names,
      violations,
    }),
  )
  return { checked, refused, accounts: accounts.size, examples: shown }
}

const Issued = z.object({
  serial_number: z.string(),
  account_id: z.string(),
  names: z.array(z.string()),
  der: z.instanceof(Buffer),
})
type IssuedCertificate = z.infer<typeof Issued>

/** Rows of certificates_pkey that a search for the certificates of one profile reads. */
const LOOKED_THROUGH = 10_000

/**
 * Certificates of accounts, the newest first.
 * @param profileId only certificates whose accounts have this profile, among the last 10,000
 */
function listIssuedLately(
  db: CommonQueryMethods,
  profileId: string | undefined,
  limit: number,
): Promise<readonly IssuedCertificate[]> {
  const concerned =
    profileId === undefined
      ? ALL_ROWS
      : sql.fragment`EXISTS (SELECT FROM account_csr_profiles a
                              WHERE a.account_id = c.account_id AND a.csr_profile_id = ${profileId})`
  return db.any(rowsOf(Issued)`
    SELECT encode(c.serial_number, 'hex') AS serial_number, c.account_id, c.names, c.der
      FROM (SELECT * FROM certificates ORDER BY id DESC LIMIT ${profileId === undefined ? limit : LOOKED_THROUGH}) c
     WHERE c.account_id IS NOT NULL AND length(c.der) > 0 AND ${concerned}
     ORDER BY c.id DESC LIMIT ${limit}`)
}

/** Fields that a certificate cannot answer, with the reason. */
const UNKNOWABLE: Readonly<Record<string, string>> = {
  authorized_signature_algorithms: 'a certificate does not show how its CSR was signed',
  authorized_key_usages: 'the usages of a certificate are those of its CA profile',
  authorized_extended_key_usages: 'the usages of a certificate are those of its CA profile',
  common_name_minimum: 'a certificate has no common name when none of those in its CSR fits',
  subject_regex: 'the subject of a certificate is not the one of its CSR',
  renewal_window_days: 'it depends on when the next certificate is ordered',
}

/** The profile without the demands that a certificate cannot answer. */
function knowablePart(profile: CsrProfile): CsrProfile {
  const { commonNames, subjectPattern: _, ...rest } = profile
  delete rest.authorizedSignatureAlgorithms
  delete rest.authorizedKeyUsages
  delete rest.authorizedExtendedKeyUsages
  return { ...rest, commonNames: { minimum: 0, maximum: commonNames.maximum } }
}

/** The facts of the CSR, as far as its certificate shows them. */
function csrFactsOf(tbs: TbsCertificate): CsrFacts {
  return {
    spki: tbs.spki,
    commonNames: commonNamesOf(tbs.subject),
    subjectText: formatName(tbs.subject),
    subjectAltNames: [...tbs.subjectAltNames],
    signatureAlgorithm: undefined,
    signatureAlgorithmOid: '',
    keyUsages: undefined,
    extendedKeyUsages: undefined,
  }
}

/** Characters of names and sentences: a page of them, and the answer stays below 64 KB. */
const MAX_ANSWER = 48_000

/** The examples that fit in an answer; one with thousands of names does not keep the others out. */
export function newestWithinAnswer<
  T extends { certificate: { names: readonly string[] }; violations: readonly string[] },
>(newestFirst: readonly T[]): T[] {
  let characters = 0
  return newestFirst.filter(({ certificate: { names }, violations }) => {
    const { length } = JSON.stringify([names, violations])
    if (characters + length > MAX_ANSWER) return false
    characters += length
    return true
  })
}
