/** Incidents as the Admin API shows them. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { AdminError } from '../../domain/admin-error.ts'
import { issuerKeyOfCertificate } from '../../domain/crl-scope.ts'
import { KEY_COMPROMISE } from '../../domain/revocation.ts'
import { ACCOUNT_STATUSES, BULK_REVOCATION_STATUSES } from '../../domain/states.ts'
import { parseCertificate } from '../../shared/pki/certificate.ts'
import { createCrlStore, type PublishedCrl } from '../../store/crl-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import { accountNameMember, withAccountName } from '../certificates/account-list.ts'
import type { AdminContext } from '../context.ts'
import { INCIDENT_FILTERS } from '../resources/certificates.ts'
import { findBlockedKey } from '../revocations/blocked-key-endpoints.ts'
import { confirmCount, left } from '../revocations/bulk-revocation-endpoints.ts'
import { countLeft, findJob, isAnyJobOpen, type RevocationJob } from '../revocations/bulk-revocation-store.ts'
import { reason } from '../revocations/certificate-revocations.ts'
import { filterOf, line, time, timeOrNull, timestamp, whenSound } from '../schemas.ts'
import {
  Actions,
  countMails,
  findHits,
  findKeyAccount,
  type Incident as IncidentRow,
  nameOf,
  type OwnerHit,
} from './incident-store.ts'

/** An incident is about one member. */
export const IncidentFilter = filterOf(INCIDENT_FILTERS).refine(
  (filter) => Object.values(filter).filter((member) => member !== undefined).length === 1,
  { error: 'must have exactly one member', when: whenSound },
)

const actions = {
  revoke: z.boolean().default(false),
  reason: reason().default(KEY_COMPROMISE),
  block_key: z.boolean().default(false).meta({ description: 'Of the filter spki_sha256.' }),
  advise_renewal: z.boolean().default(false).meta({ description: 'To renew now (RFC 9773).' }),
  tell_owners: z.boolean().default(false).meta({ description: 'By mail to the contacts of the accounts.' }),
}
const remark = line(1_000).optional().meta({ description: 'A sentence for the owners.' })

export const IncidentMail = z.strictObject({
  filter: IncidentFilter,
  revoke: actions.revoke,
  reason: actions.reason,
  remark,
})

export const NewIncident = z
  .strictObject({
    filter: IncidentFilter,
    ...actions,
    remark,
    confirm_count: confirmCount().meta({
      description: 'Unrevoked certificates that it concerns; another number is refused.',
    }),
  })
  .refine((one) => one.revoke || one.block_key || one.advise_renewal || one.tell_owners, {
    error: 'must choose something to do',
    when: whenSound,
  })
  .refine((one) => !one.block_key || one.filter.spki_sha256 !== undefined, {
    error: 'needs the filter spki_sha256',
    when: whenSound,
    path: ['block_key'],
  })

export const IncidentOwner = z
  .strictObject({
    account_id: z.uuid().nullable().meta({ description: 'Null for certificates of no account.' }),
    account_name: accountNameMember(),
    contacts: z.array(z.string()),
    tags: z.array(z.string()),
    certificates: z.int().meta({ description: 'Unexpired and not revoked.' }),
    already_revoked: z.int(),
    names: z.array(z.string()).meta({ description: 'The first names of three of them.' }),
  })
  .meta({ id: 'IncidentOwner' })

/** The account whose own key it is; null where nobody's is. */
export const KeyAccount = z
  .strictObject({
    account_id: z.uuid(),
    account_name: accountNameMember(),
    status: z.enum(ACCOUNT_STATUSES),
    certificates: z.int().meta({ description: 'Unexpired and not revoked, whatever their keys.' }),
    authorizations: z.int().meta({ description: 'Valid ones.' }),
  })
  .meta({ id: 'IncidentKeyAccount' })

export async function keyAccountBody(
  db: CommonQueryMethods,
  spkiSha256: string,
): Promise<z.output<typeof KeyAccount> | null> {
  const found = await findKeyAccount(db, spkiSha256)
  if (!found) return null
  const { unrevoked: certificates } = await findHits(db, { account_id: found.account_id })
  return { ...(await withAccountName(db, found)), certificates }
}

export const ownerBody = ({ account_id, owner, unrevoked, revoked, names }: OwnerHit) => ({
  account_id,
  account_name: nameOf(owner),
  contacts: owner?.contacts ?? [],
  tags: owner?.tags ?? [],
  certificates: unrevoked,
  already_revoked: revoked,
  names,
})

const summary = {
  id: z.uuid(),
  filter: z.record(z.string(), z.string()),
  ...Actions.shape,
  certificates: z.int().meta({ description: 'Unrevoked ones that were confirmed.' }),
  job_id: z.uuid().nullable().meta({ description: 'The bulk revocation.' }),
  created_by: z.string(),
  created_at: timestamp(),
}
export const IncidentSummary = z.strictObject(summary).meta({ id: 'IncidentSummary' })

export const summaryBody = ({ id, filter, actions, certificates, job_id, created_by, created_at }: IncidentRow) => ({
  id,
  filter: filter as Record<string, string>,
  ...actions,
  certificates,
  job_id,
  created_by,
  created_at: time(created_at),
})

const Job = z.strictObject({
  status: z.enum(BULK_REVOCATION_STATUSES),
  total_matched: z.int(),
  revoked: z.int(),
  errors_total: z.int(),
  left,
  obstacle: z.string().nullable(),
  finished_at: timestamp().nullable(),
})

const CRL_STATES = ['nothing_revoked', 'revoking', 'waiting', 'published', 'not_known'] as const

const Crl = z.strictObject({
  state: z.enum(CRL_STATES).meta({ description: 'published: every list that is served contains the revocations.' }),
  reason: z.string().nullable().meta({ description: 'Why it is not known.' }),
  lists: z.array(
    z.strictObject({
      issuer: z.string(),
      shard: z.int(),
      shards: z.int(),
      number: z.string(),
      this_update: timestamp(),
      contains: z.boolean().meta({ description: 'All revocations of the incident.' }),
    }),
  ),
})

export const Incident = z
  .strictObject({
    ...summary,
    key_blocked: z.boolean().nullable().meta({ description: 'Null where the incident is not about a key.' }),
    advised: z.int().nullable().meta({ description: 'Certificates whose clients were advised to renew.' }),
    without_contact: z.int().meta({ description: 'Accounts that cannot be written to.' }),
    mails: z.strictObject({ total: z.int(), waiting: z.int(), sent: z.int(), failed: z.int() }).meta({
      description: 'What is missing from the total is no longer recorded.',
    }),
    job: Job.nullable(),
    crl: Crl,
  })
  .meta({ id: 'Incident' })

const crlBody = ({ state, reason, lists }: CrlPublication): z.input<typeof Crl> => ({
  state,
  reason: reason ?? null,
  lists: lists.map(({ list: { issuerId, shard, shards, number, thisUpdate }, contains }) => ({
    issuer: issuerId,
    shard,
    shards,
    number: String(number),
    this_update: time(thisUpdate),
    contains,
  })),
})

/** An incident with what has come of it so far. */
export async function incidentBody(
  { db, policy }: Pick<AdminContext, 'db' | 'policy'>,
  row: IncidentRow,
): Promise<z.input<typeof Incident>> {
  const { job_id, notifications, issuers, filter, advised, without_contact } = row
  const job = job_id === null ? undefined : ((await findJob(db, job_id)) ?? undefined)
  const mails = await countMails(db, notifications)
  const { spki_sha256 } = filter
  const crl = await watchCrls(db, job, issuers, policy.staleCrlAfterMs !== undefined)
  return {
    ...summaryBody(row),
    key_blocked: spki_sha256 === undefined ? null : (await findBlockedKey(db, spki_sha256)) !== null,
    advised,
    without_contact,
    mails: { total: notifications.length, ...mails },
    job: job
      ? {
          status: job.status,
          total_matched: job.total_matched,
          revoked: job.revoked,
          errors_total: job.failed,
          left: await countLeft(db, job),
          obstacle: job.obstacle,
          finished_at: timeOrNull(job.finished_at),
        }
      : null,
    crl: crlBody(crl),
  }
}

export const unreadable = (message: string) =>
  new AdminError('invalid_request', `the body is not right: 'text': ${message}`, {
    fields: [{ field: 'text', message }],
  })

interface CrlPublication {
  state: (typeof CRL_STATES)[number]
  /** Why it is not known. */
  reason: string | undefined
  lists: { list: PublishedCrl; contains: boolean }[]
}

/** The last page of a job is committed seconds after the time that it notes as its end. */
const COMMITTED_MS = 60_000

const without = (state: CrlPublication['state'], reason?: string): CrlPublication => ({ state, reason, lists: [] })

/**
 * Looks whether the CRLs that are served contain the revocations of a job.
 * @param issuers SHA-256 of the certificates of the issuers, in hexadecimal @param isPublished whether this service has CRLs
 */
async function watchCrls(
  db: CommonQueryMethods,
  job: RevocationJob | undefined,
  issuers: readonly string[],
  isPublished: boolean,
): Promise<CrlPublication> {
  if (!job || (job.finished_at !== null && job.revoked === 0)) return without('nothing_revoked')
  if (job.finished_at === null) return without('revoking')
  if (!isPublished) return without('not_known', 'crl.enabled is false: this service publishes no CRL')
  const store = createCrlStore(queriesOf(db))
  const keyOf = new Map<string, Buffer>()
  for (const { fingerprint, certificate } of await store.issuerCertificates())
    keyOf.set(fingerprint.toString('hex'), issuerKeyOfCertificate(parseCertificate(certificate).tbs))
  const served = (await store.published()).filter(({ nextUpdate }) => nextUpdate.getTime() > Date.now())
  const lists: CrlPublication['lists'] = []
  const seen = new Set<string>()
  for (const issuer of issuers) {
    const issuerKey = keyOf.get(issuer)
    const own = served.filter((list) => issuerKey?.equals(list.issuerKey))
    if (!issuerKey || own.length === 0) return without('not_known', 'no CRL of one of the issuers is served here')
    if (seen.has(issuerKey.toString('hex'))) continue
    seen.add(issuerKey.toString('hex'))
    const fingerprints = [...keyOf].filter(([, key]) => key.equals(issuerKey)).map(([hex]) => Buffer.from(hex, 'hex'))
    const states = await store.states(issuerKey, own, fingerprints)
    // While a job is open, what bulk revocations add is not counted as missing.
    const isCounted = !(await isAnyJobOpen(db))
    lists.push(
      ...own.map((list, at) => {
        const lacksNothing = isCounted && states[at]?.missing === 0
        return { list, contains: lacksNothing || isBegunAfter(list, job.finished_at as Date) }
      }),
    )
  }
  return { state: lists.every(({ contains }) => contains) ? 'published' : 'waiting', reason: undefined, lists }
}

const isBegunAfter = ({ startedAt }: PublishedCrl, finishedAt: Date) =>
  startedAt.getTime() > finishedAt.getTime() + COMMITTED_MS
