/**
 * `beginCrl`, `appendCrl`, `signCrl`: sign one TBSCertList (RFC 5280 §5.1.2), piece by piece.
 *
 * The number is on disk before the key is used. Audit line, record, and the number that was signed are
 * there before the signature leaves.
 */

import type { CrlNumbers } from '../crl-numbers.ts'
import type { CrlUpload, CrlUploads } from '../crl-uploads.ts'
import { issuerKeyOf } from '../issuers.ts'
import { noteEntries } from '../noted-revocations.ts'
import type { NewEntries } from '../records/new-entries.ts'
import { type RevocationEntry, revocationRecord } from '../records/record.ts'
import type { SignedCrls } from '../signed-crls.ts'
import { requireIssuer, type SigningService, signAndRecord } from '../signing.ts'
import type { MethodHandlers } from './method-handler.ts'

type CrlMethods = Pick<MethodHandlers, 'beginCrl' | 'appendCrl' | 'signCrl'>

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
    const added = await noteSurplus(service, upload, facts.added)
    const list = { number, url: facts.urls[0] ?? '' }
    const describe = () => revocationRecord({ issuer: issuer.id, key, list }, added)
    const { signature } = await signAndRecord(service, { issuer, make, record, describe, deadlineAt })
    service.recorded.add(key, added)
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
 * Entries that go into the record of one line. Formatting them takes 4 ms, for which nothing else is
 * signed. Only the first list after a start has more.
 */
const MOST_ADDED = 5000

/** Records what is too much for the line of the list in lines of its own. @returns the rest */
async function noteSurplus(
  service: SigningService,
  { issuer, requester }: CrlUpload,
  added: NewEntries,
): Promise<RevocationEntry[]> {
  let rest: RevocationEntry[] = []
  for (const group of added.inGroups(MOST_ADDED)) {
    if (rest.length > 0) await noteEntries(service, { issuer, requester }, rest)
    rest = group
  }
  return rest
}
