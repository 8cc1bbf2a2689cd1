/**
 * A certificate that was signed and whose record was interrupted. The commit may have been made and only its answer
 * lost, so the thread that has the signature checks whether the recorded certificate is its own.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { BatcherFull } from '../shared/lib/batcher.ts'
import type { CertificateStore } from '../store/certificate-store.ts'
import { isUnavailable } from '../store/database.ts'
import type { IssuanceStore, IssuedCertificate } from '../store/issuance-store.ts'

const PAUSE_MS = 1_000

/** The database is away or overwhelmed, and says nothing about what it was asked. */
export function isPassing(error: unknown): boolean {
  return isUnavailable(error) || error instanceof BatcherFull
}

/**
 * @param recordUntil on the clock of `performance`; from then on recovery decides, and this only looks.
 * @returns whether this very signature is recorded, by now or since before; false also when the thread ends.
 */
export async function recordLate(
  store: Pick<IssuanceStore, 'complete'>,
  certificates: Pick<CertificateStore, 'findBySerial'>,
  issued: IssuedCertificate & { serialNumber: string },
  recordUntil: number,
): Promise<boolean> {
  for (;;) {
    await sleep(PAUSE_MS, undefined, { ref: false })
    try {
      if (performance.now() < recordUntil && (await store.complete(issued))) return true
      const known = await certificates.findBySerial(Buffer.from(issued.serialNumber, 'hex'))
      return known?.der.equals(issued.der) ?? false
    } catch (error) {
      if (!isPassing(error)) return false
    }
  }
}
