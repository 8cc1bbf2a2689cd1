/**
 * `signCertificate`: signs one TBSCertificate (RFC 5280 §4.1.2) with an issuer key.
 *
 * The daemon never signs an opaque digest. It parses the structure and refuses everything that a
 * subscriber certificate may not contain.
 */

import { sha256Hex } from '../audit/line.ts'
import { auditNames, checkTbsCertificate } from '../policy.ts'
import { SignerNameRefusal, SignerRefusal } from '../protocol/signer-errors.ts'
import { requireIssuer, type SigningService, signAndRecord } from '../signing.ts'
import type { MethodHandler } from './method-handler.ts'

export function signCertificateMethod(service: SigningService): MethodHandler<'signCertificate'> {
  return async ({ issuer: id, requester }, tbs, { deadlineAt }) => {
    const issuer = requireIssuer(service, id)
    const verdict = checkTbsCertificate(tbs, issuer.policy, new Date())
    if ('refusal' in verdict)
      throw verdict.isOfName ? new SignerNameRefusal(verdict.refusal) : new SignerRefusal(verdict.refusal)

    const { serialNumber, names, spki } = verdict
    for (const { id: other, spki: own } of service.issuers.values())
      if (own.equals(spki)) throw new SignerRefusal(`the subject key is that of issuer ${other}`)
    const sha256 = sha256Hex(tbs)
    const record = {
      method: 'signCertificate' as const,
      serial: serialNumber,
      names: auditNames(names),
      sha256,
      requester,
    }
    // `signAndRecord` calls this after its rate limit, so that refused requests push no serial
    // number out of `serials`.
    const make = () => {
      service.serials.claim(id, serialNumber, sha256)
      return issuer.key.sign(tbs)
    }
    return { meta: {}, payload: await signAndRecord(service, { issuer, make, record, deadlineAt }) }
  }
}
