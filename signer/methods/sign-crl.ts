/**
 * `beginCrl`, `appendCrl`, `signCrl`: sign one TBSCertList (RFC 5280 §5.1.2), piece by piece.
 *
 * The number is on disk before the key is used, the audit line before the signature leaves.
 */

import type { CrlNumbers } from '../crl-numbers.ts'
import type { CrlUpload, CrlUploads } from '../crl-uploads.ts'
import { requireIssuer, type SigningService, signAndRecord } from '../signing.ts'
import type { MethodHandlers } from './method-handler.ts'

type CrlMethods = Pick<MethodHandlers, 'beginCrl' | 'appendCrl' | 'signCrl'>

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
