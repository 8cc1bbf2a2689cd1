/** `/backend-revocations`: revocations that another CA has not confirmed. */

import { z } from 'zod/v4'
import { revocationReasonName } from '../../domain/revocation.ts'
import { ADMINS, BOTH_ROLES, endpoint, endpointGroup } from '../endpoint.ts'
import { limitOf, limitParameter, offsetPage, offsetParameter, requireNear } from '../pages.ts'
import { time, timestamp, uuid } from '../schemas.ts'
import type { WaitingRevocation } from './backend-revocations.ts'

const BackendRevocation = z
  .strictObject({
    certificate_id: z.uuid(),
    backend: z.string(),
    serial_number: z.string(),
    reason: z.string(),
    attempts: z.int(),
    error: z.string().nullable().meta({ description: 'Of the last attempt.' }),
    next_attempt_at: timestamp(),
    created_at: timestamp(),
  })
  .meta({ id: 'BackendRevocation' })

const bodyOf = (row: WaitingRevocation): z.input<typeof BackendRevocation> => ({
  certificate_id: row.certificateId,
  backend: row.backend,
  serial_number: row.serialNumber,
  reason: revocationReasonName(row.reason),
  attempts: row.failures,
  error: row.error ?? null,
  next_attempt_at: time(row.dueAt),
  created_at: time(row.createdAt),
})

export const BACKEND_REVOCATIONS = endpointGroup('Certificates', {
  listBackendRevocations: endpoint({
    route: 'GET /backend-revocations',
    roles: BOTH_ROLES,
    summary: 'Lists revocations that another CA has not confirmed, the oldest first.',
    query: z.strictObject({ limit: limitParameter(), offset: offsetParameter() }),
    reply: { status: 200, schema: z.array(BackendRevocation) },
    async handle({ query }, { backendRevocations, pages }) {
      const limit = limitOf(query.limit, pages)
      requireNear(query.offset)
      const page = offsetPage(await backendRevocations.list(limit + 1, query.offset), limit, query.offset)
      return { body: page.rows.map(bodyOf), next: page.next }
    },
  }),
  giveUpBackendRevocation: endpoint({
    roles: ADMINS,
    route: 'DELETE /backend-revocations/{certificate_id}',
    summary: 'Asks the CA no more to revoke this certificate.',
    params: z.strictObject({ certificate_id: uuid() }),
    reply: { status: 204 },
    errors: ['not_found'],
    audit: 'backend.revocation_given_up',
    async handle({ params, author }, { backendRevocations }) {
      await backendRevocations.giveUp(author, params.certificate_id)
      return {}
    },
  }),
})
