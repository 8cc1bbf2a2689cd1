/** `/audit-log`: what administrators did. */

import { z } from 'zod/v4'
import { parseHead, renderHead } from '../domain/audit-verdict.ts'
import type { AuditFilter, StoredAuditEntry } from '../store/admin/audit-store.ts'
import { ADMINS, BOTH_ROLES, endpoint } from './endpoint.ts'
import { limitOf, limitParameter } from './pages.ts'
import { instantParameter, line, text, time, timestamp, uuid } from './schemas.ts'

/** Its members are also those of `readAuditLines`. */
const AuditLogEntry = z
  .strictObject({
    id: z.uuid(),
    user_id: z.uuid().nullable().meta({ description: 'Null for the command line; details.operator names its user.' }),
    action: z.string(),
    target_user_id: z.uuid().nullable(),
    details: z.record(z.string(), z.unknown()),
    ip_address: z.string().nullable(),
    created_at: timestamp(),
  })
  .meta({ id: 'AuditLogEntry' })

function entryBody(entry: StoredAuditEntry): z.input<typeof AuditLogEntry> {
  const { id, userId, action, targetUserId, details, ipAddress, createdAt } = entry
  return {
    ...{ id, action, details },
    user_id: userId ?? null,
    target_user_id: targetUserId ?? null,
    ip_address: ipAddress ?? null,
    created_at: time(createdAt),
  }
}

const filters = {
  action: z.string().min(1).max(64).optional(),
  user_id: uuid().optional(),
  ip_address: line(64).optional(),
  since: instantParameter().optional().meta({ description: 'Entries of this time and later.' }),
  until: instantParameter().optional().meta({ description: 'Entries of this time and earlier.' }),
}
const Filters = z.strictObject(filters)

const filterOf = ({ action, user_id, ip_address, since, until }: z.output<typeof Filters>): AuditFilter => ({
  ...{ action, userId: user_id, ipAddress: ip_address, since, until },
})

const cursor = z
  .string()
  .regex(/^\d{1,15}$/, { error: "must be the 'cursor' of a Link header" })
  .transform(Number)

const tag = 'Audit log'

const listAuditLog = endpoint({
  ...{ id: 'listAuditLog', method: 'GET', path: '/audit-log', tag, roles: BOTH_ROLES },
  summary: 'Lists what administrators did, the newest first.',
  query: z.strictObject({ ...filters, cursor: cursor.optional(), limit: limitParameter() }),
  reply: { status: 200, schema: z.array(AuditLogEntry) },
  async handle({ query }, { auditReader, pages }) {
    const limit = limitOf(query.limit, pages)
    const { entries, next } = await auditReader.page(filterOf(query), query.cursor, limit)
    return {
      body: entries.map(entryBody),
      next: next === undefined ? undefined : { cursor: String(next), limit: String(limit) },
    }
  },
})

const exportAuditLog = endpoint({
  ...{ id: 'exportAuditLog', method: 'POST', path: '/audit-log/export', tag, roles: ADMINS },
  summary: 'Gives all entries that fit, the newest first, one JSON object a line.',
  body: Filters,
  bodyIsOptional: true,
  reply: { status: 200, schema: AuditLogEntry, contentType: 'application/x-ndjson' },
  errors: ['unavailable'],
  audit: 'audit.export',
  async handle({ body, author }, { auditReader }) {
    return { lines: auditReader.export(author, filterOf(body)) }
  },
})

const AuditChain = z
  .strictObject({
    whole: z.boolean(),
    entries: z.int(),
    head: z.string().meta({ description: 'Number and MAC of the last entry, as the log line audit_head has them.' }),
    cut_sequence: z.int().meta({ description: 'Retention deleted everything up to here; 0 for nothing.' }),
    faults: z.array(z.string()).meta({ description: 'At most 20 sentences.' }),
  })
  .meta({ id: 'AuditChain' })

/** Each is compared with every entry. */
const MOST_HEADS = 50

const heads = text(MOST_HEADS * 84)
  .transform((text) => text.split(',').map(parseHead))
  .refine((noted) => noted.length <= MOST_HEADS && noted.every((one) => one !== undefined), {
    error: `must be a number, ':' and 64 hexadecimal digits, or up to ${MOST_HEADS} of these with ',' between`,
  })
  .transform((noted) => noted.filter((one) => one !== undefined))
  .meta({ description: 'Heads noted earlier, from lines audit_head of the log, with commas between: find a cut tail.' })

const getAuditChain = endpoint({
  ...{ id: 'getAuditChain', method: 'GET', path: '/audit-log/chain', tag, roles: BOTH_ROLES },
  summary: 'Reads the whole audit log and says whether its chain is whole.',
  query: z.strictObject({ head: heads.optional() }),
  reply: { status: 200, schema: AuditChain },
  async handle({ query }, { auditChain }) {
    const { entries, head, cutSequence, faults } = await auditChain(query.head)
    const whole = faults.length === 0
    return { body: { whole, entries, head: renderHead(head), cut_sequence: cutSequence, faults: [...faults] } }
  },
})

export const AUDIT_LOG = [listAuditLog, getAuditChain, exportAuditLog]
