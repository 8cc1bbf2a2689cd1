/** Revocations that a CA backend has not confirmed: seen, and given up by an administrator. */

import type { DatabasePool } from 'slonik'
import { notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { parseCertificate } from '../../shared/pki/certificate.ts'
import { serialNumberHex } from '../../shared/pki/tbs-certificate.ts'
import {
  type BackendRevocation,
  giveUpBackendRevocation,
  listBackendRevocations,
} from '../../store/backend-revocation-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import type { AuditLog } from '../audit/audit-log.ts'

export interface WaitingRevocation extends BackendRevocation {
  /** Lower-case hexadecimal. */
  serialNumber: string
}

export class BackendRevocations {
  readonly #db: DatabasePool
  readonly #audit: AuditLog

  constructor(db: DatabasePool, audit: AuditLog) {
    this.#db = db
    this.#audit = audit
  }

  /** The oldest first. */
  async list(limit: number, offset: number): Promise<WaitingRevocation[]> {
    const rows = await listBackendRevocations(queriesOf(this.#db), limit, offset)
    return rows.map((row) => ({
      ...row,
      serialNumber: serialNumberHex(parseCertificate(row.certificate).tbs.serialNumber),
    }))
  }

  /** Nobody asks the CA any more; our own records stay. @throws AdminError not_found */
  giveUp(author: Actor, certificateId: string): Promise<void> {
    return this.#audit.transaction(author, async (tx, note) => {
      const backend = await giveUpBackendRevocation(queriesOf(tx), certificateId)
      if (backend === undefined) throw notFound('revocation')
      note('backend.revocation_given_up', { certificate_id: certificateId, backend })
    })
  }
}
