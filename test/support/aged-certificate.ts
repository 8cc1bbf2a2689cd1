/** A certificate that the database takes for older than it is, so that its renewal window is open. */

import { X509Certificate } from 'node:crypto'
import { withQuery } from './revoked.ts'
import type { TestService } from './service.ts'

/** @param der has a lifetime of 90 days */
export async function age({ database }: TestService, der: Buffer, days = 80): Promise<void> {
  const serialNumber = new X509Certificate(der).serialNumber
  await withQuery(database.connection, (query) =>
    query(
      `UPDATE certificates SET not_before = not_before - i, not_after = not_after - i, issued_at = issued_at - i
         FROM make_interval(days => $2) i WHERE serial_number = decode($1, 'hex')`,
      [serialNumber, days],
    ),
  )
}
