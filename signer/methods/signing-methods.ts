/** The type of a method handler, from the method table of the protocol. */

import { sha256Hex } from '../audit/line.ts'
import type { CrlNumbers } from '../crl-numbers.ts'
import type { CrlUpload, CrlUploads } from '../crl-uploads.ts'
import { auditNames, checkTbsCertificate } from '../policy.ts'
import type { MethodName, MethodParams, MethodResult } from '../protocol/methods.ts'
import { SignerNameRefusal, SignerRefusal } from '../protocol/signer-errors.ts'
import { requireIssuer, type SigningService, signAndRecord } from '../signing.ts'

type CrlMethods = Pick<MethodHandlers, 'beginCrl' | 'appendCrl' | 'signCrl'>

/**
 * `beginCrl`, `appendCrl`, `signCrl`: sign one TBSCertList (RFC 5280 §5.1.2), piece by piece.
 *
 * The number is on disk before the key is used, the audit line before the signature leaves.
 */
export function crlMethods(service: SigningService, numbers: CrlNumbers, uploads: CrlUploads): CrlMethods {
  async function sign(upload: CrlUpload, deadlineAt: number): Promise<Buffer> {
    const { issuer, requester } = upload
    const { facts, sha256, sign: make } = upload.finish()
    await numbers.take(issuer.policy.issuer.keyIdentifier, facts.number)
    const record = {
      method: 'signCrl' as const,
      serial: facts.number.toString(16),
      names: [`entries:${facts.entries}`, ...facts.urls.map((url) => `url:${url}`)],
      sha256,
      requester,
    }
    return signAndRecord(service, { issuer, make, record, deadlineAt })
  }

  /** A failed upload cannot continue: its number may be used up, so the client begins again. */
  async function forgettingFailed<T>(id: string, work: () => T | Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      uploads.forget(id)
      throw error
    }
  }

  return {
    beginCrl({ issuer, requester, bytes }, _payload, { connection }) {
      return { meta: { upload: uploads.begin(requireIssuer(service, issuer), requester, bytes, connection) } }
    },
    async appendCrl({ upload: id, offset }, piece) {
      const upload = uploads.require(id)
      return { meta: { received: await forgettingFailed(id, () => upload.append(offset, piece)) } }
    },
    async signCrl({ upload: id }, _payload, { deadlineAt }) {
      const upload = uploads.require(id)
      upload.signature ??= sign(upload, deadlineAt)
      const { signature } = upload
      const payload = await forgettingFailed(id, () => signature)
      uploads.answer(id)
      return { meta: {}, payload }
    },
  }
}

/**
 * `signCertificate`: signs one TBSCertificate (RFC 5280 §4.1.2) with an issuer key.
 *
 * The daemon never signs an opaque digest. It parses the structure and refuses everything that a
 * subscriber certificate may not contain.
 */
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
    // Claimed after the rate limit, so that refused requests push no serial number out of `serials`.
    const make = () => {
      service.serials.claim(id, serialNumber, sha256)
      return issuer.key.sign(tbs)
    }
    return { meta: {}, payload: await signAndRecord(service, { issuer, make, record, deadlineAt }) }
  }
}

interface Call {
  /** When the client stops waiting, in the time of `performance.now()`. */
  deadlineAt: number
  /** Identifies the client connection; every call of one connection has the same object. */
  connection: object
}

interface Reply<M extends MethodName> {
  meta: MethodResult<M>
  payload?: Buffer
}

/** Refuses by throwing SignerRefusal or SignerUnavailable. */
export type MethodHandler<M extends MethodName> = (
  params: MethodParams<M>,
  payload: Buffer,
  call: Call,
) => Reply<M> | Promise<Reply<M>>

export type MethodHandlers = { [M in MethodName]: MethodHandler<M> }
