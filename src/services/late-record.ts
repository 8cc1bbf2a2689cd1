/**
 * Retries an interrupted record of a signed certificate. If only the reply to the commit was lost,
 * the certificate in the database has this thread's signature.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Certificate } from '../domain/records.ts'
import { BatcherFull } from '../shared/lib/batcher.ts'
import type { CertificateStore } from '../store/certificate-store.ts'
import { isUnavailable } from '../store/database.ts'
import type { IssuanceStore, IssuedCertificate } from '../store/issuance-store.ts'

const PAUSE_MS = 1_000

/** Whether the database is unreachable or overloaded, which may pass. */
export function isPassing(error: unknown): boolean {
  return isUnavailable(error) || error instanceof BatcherFull
}

/**
 * Repeats what the database has not done, for as long as the reason may pass.
 *
 * @param until by `performance.now()`
 * @throws the last error
 */
export async function untilDone<T>(work: () => Promise<T>, until: number): Promise<T> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!isPassing(error) || performance.now() + PAUSE_MS > until) throw error
      await sleep(PAUSE_MS, undefined, { ref: false })
    }
  }
}

/** Asks until the database answers. @returns exactly this certificate, if it is recorded */
export async function recordedAfterAll(
  certificates: Pick<CertificateStore, 'findBySerial'>,
  serialNumber: Buffer,
  der: Buffer,
): Promise<Certificate | undefined> {
  for (;;) {
    await sleep(PAUSE_MS, undefined, { ref: false })
    try {
      return await certificates.findBySerial(serialNumber, der)
    } catch (error) {
      if (!isPassing(error)) return undefined
    }
  }
}

/**
 * @param recordUntil by `performance.now()`; after it only recovery records, and this only reads
 * @returns whether exactly this signature is recorded
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
      const known = await certificates.findBySerial(Buffer.from(issued.serialNumber, 'hex'), issued.der)
      return known !== undefined
    } catch (error) {
      if (!isPassing(error)) return false
    }
  }
}
