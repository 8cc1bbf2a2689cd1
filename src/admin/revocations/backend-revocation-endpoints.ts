/** `/backend-revocations`: revocations that another CA has not confirmed, seen and given up. */

import * as z from 'zod/v4'
import { requireFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { revocationReasonName } from '../../domain/revocation.ts'
import { parseCertificate, serialNumberHex } from '../../shared/pki/certificate.ts'
import {
  giveUpBackendRevocation,
  listBackendRevocations,
  type BackendRevocation as Waiting,
} from '../../store/backend-revocation-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import { endpoint, endpointGroup, withoutBody } from '../admin-endpoint.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { offsetParameters, readByOffset } from '../pages.ts'
import { time, timestamp, uuid } from '../schemas.ts'

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

const bodyOf = (row: Waiting): z.input<typeof BackendRevocation> => ({
  certificate_id: row.certificateId,
  backend: row.backend,
  serial_number: serialNumberHex(parseCertificate(row.certificate).tbs.serialNumber),
  reason: revocationReasonName(row.reason),
  attempts: row.failures,
  error: row.error ?? null,
  next_attempt_at: time(row.dueAt),
  created_at: time(row.createdAt),
})

export const BACKEND_REVOCATIONS = endpointGroup('Certificates', {
  listBackendRevocations: endpoint({
    route: 'GET /backend-revocations',
    permission: 'read',
    query: z.strictObject(offsetParameters()),
    reply: { status: 200, schema: z.array(BackendRevocation) },
    async handle({ query }, { db, pages }) {
      const { rows, next } = await readByOffset(query, pages, ({ limit, offset }) =>
        listBackendRevocations(queriesOf(db), limit, offset),
      )
      return { body: rows.map(bodyOf), next }
    },
  }),
  giveUpBackendRevocation: endpoint({
    permission: 'operate',
    route: 'DELETE /backend-revocations/{certificate_id}',
    params: z.strictObject({ certificate_id: uuid() }),
    reply: { status: 204 },
    audit: 'backend.revocation_given_up',
    handle: ({ params, author }, { audit }) => withoutBody(giveUp(audit, author, params.certificate_id)),
  }),
})

/** The CA is asked no more; our own records stay. @throws AdminError not_found */
function giveUp(audit: AuditLog, author: Actor, certificateId: string): Promise<void> {
  return audit.transaction(author, async (tx, note) => {
    const backend = requireFound(await giveUpBackendRevocation(queriesOf(tx), certificateId), 'revocation')
    note('backend.revocation_given_up', { certificate_id: certificateId, backend })
  })
}
