/** Records revocations that are in no signed CRL yet. */

import { sha256Hex } from './audit/line.ts'
import { type Issuer, issuerKeyOf } from './issuers.ts'
import { type RevocationEntry, revocationRecord } from './records/record.ts'
import type { SigningService } from './signing.ts'

/** Resolves when they are on disk. @throws SignerUnavailable */
export async function noteEntries(
  { audit, recorded }: Pick<SigningService, 'audit' | 'recorded'>,
  { issuer, requester }: { issuer: Issuer; requester: string },
  entries: readonly RevocationEntry[],
): Promise<void> {
  const sha256 = sha256Hex(JSON.stringify(entries))
  const [id, key] = [issuer.id, issuerKeyOf(issuer)]
  const content = { issuer: id, serial: '', names: [`entries:${entries.length}`], sha256, requester }
  await audit.append({ method: 'noteRevocations', ...content }, (place) =>
    revocationRecord(place, { issuer: id, key }, entries),
  )
  recorded.add(key, entries)
}
