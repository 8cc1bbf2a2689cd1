/** All methods of the daemon (docs/decisions/three-trust-zones.md). */

import { AnnouncedDatabases } from '../announced-databases.ts'
import type { SigningService } from '../signing.ts'
import type { MethodHandlers } from './method-handler.ts'
import { describeMethod, healthMethod, testSignMethod } from './probes.ts'
import { recordMethods } from './records.ts'
import { signCertificateMethod } from './sign-certificate.ts'
import { crlMethods } from './sign-crl.ts'

export function createHandlers(
  service: SigningService,
  version: string,
  crls: Parameters<typeof crlMethods>[1],
  warn: Parameters<typeof recordMethods>[2],
): MethodHandlers {
  const databases = new AnnouncedDatabases()
  return {
    describe: describeMethod(version, service),
    health: healthMethod(service),
    signCertificate: signCertificateMethod(service),
    testSign: testSignMethod(service),
    ...crlMethods(service, crls),
    ...recordMethods(service, crls.signed, warn),
    announceDatabase: (params) => ({ meta: databases.announce(params, performance.now()) }),
  }
}
