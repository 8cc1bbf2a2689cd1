/** All methods of the daemon (docs/decisions/three-trust-zones.md), with `signCertificate` itself. */

import { assembleCertificate } from '../../src/shared/pki/certificate.ts'
import { sha256Hex } from '../audit/line.ts'
import { auditNames, checkTbsCertificate } from '../policy.ts'
import { SignerNameRefusal, SignerRefusal } from '../protocol/signer-errors.ts'
import { certificateRecord } from '../records/record.ts'
import { earlierSignature } from '../signed-serials.ts'
import { requireIssuer, type SigningService, signAndRecord } from '../signing.ts'
import type { MethodHandler, MethodHandlers } from './method-handler.ts'
import { announceDatabaseMethod, describeMethod, healthMethod, testSignMethod } from './probes.ts'
import { recordMethods } from './records.ts'
import { crlMethods } from './sign-crl.ts'

export function createHandlers(
  service: SigningService,
  version: string,
  crls: Parameters<typeof crlMethods>[1],
  warn: Parameters<typeof recordMethods>[2],
): MethodHandlers {
  return {
    describe: describeMethod(version, service),
    health: healthMethod(service),
    signCertificate: signCertificateMethod(service),
    testSign: testSignMethod(service),
    ...crlMethods(service, crls),
    ...recordMethods(service, crls.signed, warn),
    announceDatabase: announceDatabaseMethod(),
  }
}

/** A record of it then fits into a page of `signedCertificates`. 100 names of 253 octets take 26 KiB. */
const MAX_TBS_BYTES = 128 * 1024

/**
 * Signs one TBSCertificate (RFC 5280 §4.1.2) with an issuer key. The daemon never signs an opaque digest: it parses the
 * structure, and refuses everything that a subscriber certificate may not contain.
 */
function signCertificateMethod(service: SigningService): MethodHandler<'signCertificate'> {
  return async ({ issuer: id, requester }, tbs, { deadlineAt }) => {
    const issuer = requireIssuer(service, id)
    if (tbs.length > MAX_TBS_BYTES)
      throw new SignerRefusal(`a TBSCertificate of ${tbs.length} bytes; at most ${MAX_TBS_BYTES} are accepted`)
    const verdict = checkTbsCertificate(tbs, issuer.policy, new Date())
    if ('refusal' in verdict)
      throw verdict.isOfName ? new SignerNameRefusal(verdict.refusal) : new SignerRefusal(verdict.refusal)

    const { serialNumber, names, spki } = verdict
    for (const { id: other, spki: own } of service.issuers.values())
      if (own.equals(spki)) throw new SignerRefusal(`the subject key is that of issuer ${other}`)
    const content = { issuer: id, serial: serialNumber, sha256: sha256Hex(tbs) }
    const earlier = service.serials.find(content)
    const repeated = earlier && (await earlierSignature(earlier, service.records))
    if (repeated) return { meta: {}, payload: repeated }

    const { serial, sha256 } = content
    const record = { method: 'signCertificate' as const, serial, names: auditNames(names), sha256, requester }
    // `signAndRecord` calls this after its rate limit, so that refused requests push no serial
    // number out of `serials`.
    const make = () => {
      service.serials.claim(content)
      return issuer.key.sign(tbs)
    }
    const describe = (signature: Buffer) =>
      certificateRecord({ issuer: id, serial, requester }, assembleCertificate(tbs, issuer.algorithm, signature))
    const signing = signAndRecord(service, { issuer, make, record, describe, deadlineAt })
    service.serials.begin(content, signing)
    return { meta: {}, payload: (await signing).signature }
  }
}
