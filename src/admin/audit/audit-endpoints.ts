/** `/audit-log`: what administrators did. */

import * as z from 'zod/v4'
import { type NotedHead, parseHead } from '../../domain/audit-chain.ts'
import { AUDIT_VERIFICATION_STATUSES } from '../../domain/states.ts'
import { boundedArray } from '../../shared/lib/bounded.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { limitOf, limitParameter } from '../pages.ts'
import { AUDIT_FILTERS } from '../resources/operation.ts'
import { parametersOf, text, time, timeOrNull, timestamp, uuid } from '../schemas.ts'
import { readAuditPage, type StoredAuditEntry } from './audit-store.ts'
import type { AuditVerification as StoredVerification } from './audit-verification.ts'

/** `readAuditLines` makes the same members. */
const AuditLogEntry = z
  .strictObject({
    id: z.uuid(),
    sequence: z.int().meta({ description: 'Its number in the chain.' }),
    user_id: z.uuid().nullable().meta({ description: 'Null for the command line; details.operator names its user.' }),
    action: z.string(),
    target_user_id: z.uuid().nullable(),
    details: z.record(z.string(), z.unknown()),
    ip_address: z.string().nullable(),
    created_at: timestamp(),
  })
  .meta({ id: 'AuditLogEntry' })

const ListedEntry = AuditLogEntry.extend({
  username: z.string().nullable().meta({ description: 'Of the user now; of the command line, the operator.' }),
}).meta({ id: 'ListedAuditLogEntry' })

function entryBody(entry: StoredAuditEntry): z.input<typeof ListedEntry> {
  const { id, sequence, userId, action, targetUserId, details, ipAddress, createdAt } = entry
  return {
    id,
    sequence,
    action,
    details,
    user_id: userId ?? null,
    username: entry.username ?? (details['operator'] as string | undefined) ?? null,
    target_user_id: targetUserId ?? null,
    ip_address: ipAddress ?? null,
    created_at: time(createdAt),
  }
}

const cursor = z
  .string()
  .regex(/^\d{1,15}$/, { error: "must be the 'cursor' of a Link header" })
  .transform(Number)

const AuditVerification = z
  .strictObject({
    id: z.uuid(),
    status: z.enum(AUDIT_VERIFICATION_STATUSES),
    checked: z.int().meta({ description: 'Entries so far.' }),
    total: z.int().meta({ description: 'Entries of the log; 0 before the first page.' }),
    whole: z.boolean().nullable().meta({ description: 'Null unless status is done.' }),
    entries: z.int().nullable(),
    head: z
      .string()
      .nullable()
      .meta({ description: 'Number and MAC of the last entry, as the log line audit_head has them.' }),
    cut_sequence: z.int().nullable().meta({ description: 'Retention deleted everything up to here; 0 for nothing.' }),
    faults: z.array(z.string()).meta({ description: 'At most 20 sentences.' }),
    written_back: z
      .strictObject({ entries: z.int(), spans: z.array(z.string()).meta({ description: 'At most 20 sentences.' }) })
      .nullable()
      .meta({
        description: 'Entries that a fail-over of the database took and that are at the end again; null for none.',
      }),
    failure: z.string().nullable().meta({ description: 'Why the check did not reach the end of the log.' }),
    created_at: timestamp(),
    finished_at: timestamp().nullable(),
  })
  .meta({ id: 'AuditVerification' })

function verificationBody(job: StoredVerification): z.input<typeof AuditVerification> {
  const { id, status, checked, total, verdict, failure } = job
  return {
    id,
    status,
    checked,
    total,
    whole: verdict && verdict.faults.length === 0,
    entries: verdict?.entries ?? null,
    head: verdict?.head ?? null,
    cut_sequence: verdict?.cut_sequence ?? null,
    faults: verdict ? verdict.faults : [],
    written_back: verdict?.written_back ?? null,
    failure,
    created_at: time(job.created_at),
    finished_at: timeOrNull(job.finished_at),
  }
}

/** Each is compared with every entry. */
const MOST_HEADS = 50

const head = text(84).transform((written, check): NotedHead => {
  const noted = parseHead(written)
  if (noted) return noted
  check.addIssue("must be a number, ':' and 64 hexadecimal digits")
  return z.NEVER
})

export const AUDIT_LOG = endpointGroup('Audit log', {
  listAuditLog: endpoint({
    route: 'GET /audit-log',
    permission: 'read',
    query: z.strictObject({ ...parametersOf(AUDIT_FILTERS), cursor: cursor.optional(), limit: limitParameter() }),
    reply: { status: 200, schema: z.array(ListedEntry) },
    async handle({ query: { cursor, limit: wanted, ...filter } }, { db, pages }) {
      const limit = limitOf(wanted, pages)
      const { entries, next, isCut } = await readAuditPage(db, filter, cursor, limit)
      return {
        body: entries.map(entryBody),
        isCut,
        next: next === undefined ? undefined : { cursor: String(next), limit: String(limit) },
      }
    },
  }),
  exportAuditLog: endpoint({
    route: 'POST /audit-log/export',
    permission: 'administer',
    body: z.strictObject(parametersOf(AUDIT_FILTERS)),
    bodyIsOptional: true,
    reply: { status: 200, schema: AuditLogEntry, contentType: 'application/x-ndjson' },
    errors: ['unavailable'],
    audit: 'audit.export',
    async handle({ body, author }, { auditExports }) {
      return { lines: auditExports.read(author, body) }
    },
  }),
  listAuditVerifications: endpoint({
    route: 'GET /audit-log/verifications',
    permission: 'read',
    query: z.strictObject({ limit: limitParameter() }),
    reply: { status: 200, schema: z.array(AuditVerification) },
    handle: async ({ query }, { auditVerifications, pages }) => ({
      body: (await auditVerifications.list(limitOf(query.limit, pages))).map(verificationBody),
    }),
  }),
  beginAuditVerification: endpoint({
    route: 'POST /audit-log/verifications',
    permission: 'read',
    body: z.strictObject({
      heads: boundedArray(head, MOST_HEADS).default([]).meta({
        description: 'Heads noted earlier, from lines audit_head of the log: they find a cut tail.',
      }),
    }),
    bodyIsOptional: true,
    reply: { status: 202, schema: AuditVerification },
    errors: ['conflict'],
    async handle({ body }, { auditVerifications, baseUrl }) {
      const begun = await auditVerifications.begin(body.heads)
      const headers = [['Location', `${baseUrl}/audit-log/verifications/${begun.id}`] as const]
      return { headers, body: verificationBody(begun) }
    },
  }),
  getAuditVerification: endpoint({
    route: 'GET /audit-log/verifications/{verification_id}',
    permission: 'read',
    params: z.strictObject({ verification_id: uuid() }),
    reply: { status: 200, schema: AuditVerification },
    handle: async ({ params }, { auditVerifications }) => ({
      body: verificationBody(await auditVerifications.find(params.verification_id)),
    }),
  }),
})
