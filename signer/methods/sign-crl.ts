/**
 * `beginCrl`, `appendCrl`, `signCrl`: sign one TBSCertList (RFC 5280 §5.1.2), piece by piece.
 *
 * The number is on disk before the key is used. Audit line, record, and the number that was signed are
 * there before the signature leaves.
 */

import type { LinePlace } from '../audit/chain.ts'
import type { CrlNumbers, SignedCrls } from '../crl-numbers.ts'
import type { CrlUpload, CrlUploads } from '../crl-uploads.ts'
import { issuerKeyOf } from '../issuers.ts'
import { revocationRecord } from '../records/record.ts'
import { type MethodHandlers, noteEntries, requireIssuer, type SigningService, signAndRecord } from '../signing.ts'

type CrlMethods = Pick<MethodHandlers, 'beginCrl' | 'appendCrl' | 'signCrl'>

/**
 * Entries in the record of one line: formatting them takes 4 ms, for which nothing else is signed. The
 * first list after a start has more. They are recorded while it comes in, in lines of their own.
 */
const MOST_ADDED = 5000

interface CrlState {
  numbers: CrlNumbers
  signed: SignedCrls
  uploads: CrlUploads
}

export function crlMethods(service: SigningService, { numbers, signed, uploads }: CrlState): CrlMethods {
  async function sign(upload: CrlUpload, deadlineAt: number): Promise<Buffer> {
    const { issuer, requester } = upload
    const key = issuerKeyOf(issuer)
    const { facts, sha256, sign: make } = upload.finish()
    await numbers.take(issuer.policy.issuer.keyIdentifier, facts.number)
    const number = facts.number.toString(16)
    const record = {
      method: 'signCrl' as const,
      serial: number,
      names: [`entries:${facts.entries}`, ...facts.urls.map((url) => `url:${url}`)],
      sha256,
      requester,
    }
    const list = { number, url: facts.urls[0] ?? '' }
    const describe = (place: LinePlace) => revocationRecord(place, { issuer: issuer.id, key, list }, facts.added)
    const { upkeepBucket: bucket } = issuer
    const { signature } = await signAndRecord(service, { issuer, bucket, make, record, describe, deadlineAt })
    service.recorded.add(key, facts.added)
    await signed.note(key, facts.urls, facts.number)
    return signature
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
      const received = await forgettingFailed(id, async () => {
        const octets = upload.append(offset, piece)
        const added = upload.takeAdded(MOST_ADDED)
        if (added.length > 0) await noteEntries(service, upload, added)
        return octets
      })
      return { meta: { received } }
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
