/** How far the database of a test service is compared with its signer, which brings back what a test deletes too early. */

import { readFileSync } from 'node:fs'
import path from 'node:path'
import { type AuditLine, parseAuditLine } from '../../signer/audit/line.ts'
import { rowsIn } from './database.ts'
import type { TestService } from './service.ts'
import { until } from './until.ts'

/** The number of the newest line in the audit chain of the service's own signer; 0 when there is none. */
export function lastLineOf(
  { folder }: Pick<TestService, 'folder'>,
  isWanted: (line: AuditLine) => boolean = () => true,
): number {
  const lines = readFileSync(path.join(folder, 'signer-audit.jsonl'), 'utf8').split('\n').map(parseAuditLine)
  return lines.findLast((line) => line !== undefined && isWanted(line))?.seq ?? 0
}

/** Waits until the certificates signed so far have been compared: one that is deleted from then on stays away. */
export async function untilCompared(service: Pick<TestService, 'database' | 'folder'>): Promise<void> {
  const last = lastLineOf(service, ({ method }) => method === 'signCertificate')
  await until('the comparison', async () => {
    const [mark] = await rowsIn<{ seq: number }>(
      service.database,
      'SELECT max(certificates_seq)::integer AS seq FROM signer_marks',
    )
    return (mark?.seq ?? 0) >= last
  })
}
