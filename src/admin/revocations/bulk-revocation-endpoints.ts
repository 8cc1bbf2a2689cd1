/** `/certificates/bulk-revoke` and `/bulk-revocations`: many certificates by a filter, as a job. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { AdminError } from '../../domain/admin-error.ts'
import { BULK_REVOCATION_STATUSES } from '../../domain/states.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { bulkRevocationAct } from '../approvals/acts.ts'
import { limitOf, limitParameter, offsetParameters, readByOffset } from '../pages.ts'
import { REVOCATION_FILTERS } from '../resources/certificates.ts'
import { filterOf, time, timeOrNull, timestamp, uuid, whenSound } from '../schemas.ts'
import { dryRun } from './bulk-revocation-steps.ts'
import {
  BulkRevocationCertificate,
  countLeft,
  listJobs,
  listResults,
  type RevocationJob,
} from './bulk-revocation-store.ts'
import { requireJob } from './bulk-revocations.ts'
import { reason } from './certificate-revocations.ts'

const Filter = filterOf(REVOCATION_FILTERS).refine(
  (filter) => Object.values(filter).some((member) => member !== undefined),
  { error: 'must have at least one member', when: whenSound },
)

const BulkRevocationDryRun = z
  .strictObject({
    dry_run: z.literal(true),
    matching_certificates: z.int().meta({ description: 'That would be revoked.' }),
    already_revoked: z.int().meta({ description: 'That match besides.' }),
    serial_numbers: z.array(z.string()).meta({ description: 'The first 100 that would be revoked.' }),
  })
  .meta({ id: 'BulkRevocationDryRun' })

const errors = z
  .array(z.strictObject({ serial_number: z.string(), error: z.string() }))
  .meta({ description: 'The first 50.' })

const BulkRevocationResult = z
  .strictObject({ job_id: z.uuid(), revoked: z.int(), errors, errors_total: z.int(), total_matched: z.int() })
  .meta({ id: 'BulkRevocationResult' })

const facts = {
  id: z.uuid(),
  status: z.enum(BULK_REVOCATION_STATUSES),
  reason: z.int(),
  at_most: z.int().nullable().meta({ description: 'A filter that matches more ends the job as refused.' }),
  created_by: z.string(),
  created_at: timestamp(),
  finished_at: timestamp().nullable(),
  total_matched: z.int(),
  revoked: z.int(),
  errors_total: z.int(),
  obstacle: z.string().nullable().meta({ description: 'Why it does not get on; it is tried again.' }),
}
const BulkRevocation = z.strictObject(facts).meta({ id: 'BulkRevocation' })
export const confirmCount = () => z.int().min(0).max(2_147_483_647)
export const left = z
  .int()
  .nullable()
  .meta({ description: 'Certificates of it that are valid now; null until it has ended.' })
const BulkRevocationDetails = z
  .strictObject({ ...facts, filter: z.record(z.string(), z.unknown()), errors, left })
  .meta({ id: 'BulkRevocationDetails' })

const jobBody = (job: RevocationJob): z.input<typeof BulkRevocation> => ({
  id: job.id,
  status: job.status,
  reason: job.reason,
  at_most: job.at_most,
  created_by: job.author.operator ?? job.author.username,
  created_at: time(job.created_at),
  finished_at: timeOrNull(job.finished_at),
  total_matched: job.total_matched,
  revoked: job.revoked,
  errors_total: job.failed,
  obstacle: job.obstacle,
})

const MOST_ERRORS = 50

const detailsBody = async (db: CommonQueryMethods, job: RevocationJob) => ({
  ...jobBody(job),
  filter: job.filter,
  errors: await errorsOf(db, job),
  left: await countLeft(db, job),
})

/** The first that were not revoked. */
async function errorsOf(db: CommonQueryMethods, { id, failed }: RevocationJob) {
  const results = failed === 0 ? [] : await listResults(db, id, { limit: MOST_ERRORS, only: 'failed' })
  return results.map(({ serial_number, outcome }) => ({ serial_number, error: outcome ?? '' }))
}

const params = z.strictObject({ job_id: uuid() })

/** Less than the 30 s that clients wait. */
const WAIT_MS = 25_000

export const BULK_REVOCATIONS = endpointGroup('Certificates', {
  bulkRevoke: endpoint({
    route: 'POST /certificates/bulk-revoke',
    permission: 'operate',
    body: z.strictObject({
      filter: Filter,
      reason: reason().default(0),
      dry_run: z.boolean().default(false).meta({ description: 'Counts and changes nothing.' }),
      confirm_count: confirmCount().optional().meta({
        description: 'More certificates are not revoked; needed above admin_api.bulk_revoke_confirm_above.',
      }),
      wait: z.boolean().default(true).meta({ description: 'False answers before the job has ended.' }),
    }),
    reply: {
      status: 200,
      orStatus: 202,
      schema: z.union([BulkRevocationDryRun, BulkRevocationResult, BulkRevocationDetails]),
    },
    audit: 'certificate.bulk_revoke',
    recentSignIn: ({ body }) => !body.dry_run && body.confirm_count !== undefined,
    approval: ({ body: { filter, reason, dry_run: isDryRun } }, context) =>
      bulkRevocationAct({ filter, reason, isDryRun }, context),
    async handle({ body, author, approved }, { db, audit, bulkRevocations, baseUrl }) {
      const { filter, reason, dry_run, confirm_count: confirmCount } = body
      // Who approves sees how far the job is on its own page.
      const wait = body.wait && approved === undefined
      if (dry_run) {
        const { wouldRevoke, alreadyRevoked, serialNumbers } = await dryRun(db, filter)
        const counts = { matching_certificates: wouldRevoke, already_revoked: alreadyRevoked }
        return { body: { dry_run: true as const, ...counts, serial_numbers: serialNumbers } }
      }
      const { id } = await bulkRevocations.begin(
        author,
        { filter, reason, confirmCount, approved: approved?.most ?? undefined },
        audit,
      )
      const job = await bulkRevocations.wait(id, wait ? WAIT_MS : 0)
      if (job.status === 'refused')
        throw new AdminError(
          'conflict',
          `more than the ${job.at_most} confirmed certificates match now; none was revoked`,
        )
      if (job.status === 'cancelled')
        throw new AdminError('conflict', `the bulk revocation was cancelled; ${job.revoked} certificates are revoked`)
      if (job.status !== 'done') {
        const headers = [['Location', `${baseUrl}/bulk-revocations/${id}`] as const]
        return { status: 202, headers, body: await detailsBody(db, job) }
      }
      const errors = await errorsOf(db, job)
      const { revoked, failed, total_matched } = job
      return { body: { job_id: id, revoked, errors, errors_total: failed, total_matched } }
    },
  }),
  listBulkRevocations: endpoint({
    route: 'GET /bulk-revocations',
    permission: 'read',
    query: z.strictObject(offsetParameters()),
    reply: { status: 200, schema: z.array(BulkRevocation) },
    async handle({ query }, { db, pages }) {
      const { rows, next } = await readByOffset(query, pages, (page) => listJobs(db, page))
      return { body: rows.map(jobBody), next }
    },
  }),
  getBulkRevocation: endpoint({
    route: 'GET /bulk-revocations/{job_id}',
    permission: 'read',
    params,
    reply: { status: 200, schema: BulkRevocationDetails },
    async handle({ params }, { db }) {
      const job = await requireJob(db, params.job_id)
      return { body: await detailsBody(db, job) }
    },
  }),
  cancelBulkRevocation: endpoint({
    permission: 'operate',
    route: 'POST /bulk-revocations/{job_id}/cancel',
    params,
    reply: { status: 200, schema: BulkRevocation },
    errors: ['conflict'],
    audit: 'certificate.bulk_revoke',
    handle: async ({ params, author }, { bulkRevocations }) => ({
      body: jobBody(await bulkRevocations.cancel(author, params.job_id)),
    }),
  }),
  listBulkRevocationCertificates: endpoint({
    permission: 'read',
    route: 'GET /bulk-revocations/{job_id}/certificates',
    params,
    query: z.strictObject({
      limit: limitParameter(),
      cursor: uuid().optional(),
      only: z.literal('left').optional().meta({ description: 'Those that are valid now.' }),
    }),
    reply: { status: 200, schema: z.array(BulkRevocationCertificate) },
    async handle({ params, query }, { db, pages }) {
      const limit = limitOf(query.limit, pages)
      await requireJob(db, params.job_id)
      const found = await listResults(db, params.job_id, {
        afterId: query.cursor,
        limit: limit + 1,
        only: query.only,
      })
      const rows = found.slice(0, limit)
      const cursor = rows.at(-1)?.certificate_id
      const next =
        found.length > limit && cursor !== undefined
          ? { ...(query.only && { only: query.only }), limit: String(limit), cursor }
          : undefined
      return { body: rows, next }
    },
  }),
})
