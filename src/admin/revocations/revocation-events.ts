/** Log line and metric of a revocation, by an administrator or a client. */

import type { Metrics } from '../../ops/metrics.ts'
import type { RevocationEvents } from '../../services/revocation.ts'
import type { BulkRevocationEvents } from './bulk-revocations.ts'

interface Reporting {
  log: Record<'info' | 'error' | 'debug', (facts: object, message: string) => void>
  metrics: Metrics
}

export function revocationEvents({ log, metrics }: Reporting): RevocationEvents {
  return {
    revoked(certificate, reason) {
      metrics.certificatesRevoked.inc()
      const { id, accountId, serialNumber } = certificate
      log.info({ event: 'certificate_revoked', id, accountId, serialNumber, reason }, 'certificate revoked')
    },
  }
}

/** For a page of a bulk revocation, and for what stops one. */
export function bulkRevocationEvents({ log, metrics }: Reporting): BulkRevocationEvents {
  return {
    revoked(job, count, reason) {
      metrics.certificatesRevoked.inc(count)
      log.info({ event: 'certificates_revoked', job, count, reason }, 'certificates revoked')
    },
    failed: (job, error) => log.error({ job, err: error }, 'a bulk revocation could not continue; it is tried again'),
    // The parts that need the database say that it is away.
    notLooked: (error) => log.debug({ err: error }, 'bulk revocations could not be looked for'),
  }
}
