/** Whether the CRLs that are served contain the revocations of a job. */

import type { CommonQueryMethods } from 'slonik'
import { issuerKeyOfCertificate } from '../../domain/crl-scope.ts'
import { parseCertificate } from '../../shared/pki/certificate.ts'
import { createCrlStore, type PublishedCrl } from '../../store/crl-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import { isAnyJobOpen, type RevocationJob } from '../revocations/bulk-revocation-store.ts'

export const CRL_STATES = ['nothing_revoked', 'revoking', 'waiting', 'published', 'not_known'] as const

export interface CrlPublication {
  state: (typeof CRL_STATES)[number]
  /** Why it is not known. */
  reason: string | undefined
  lists: { list: PublishedCrl; contains: boolean }[]
}

/** The last page of a job is committed seconds after the time that it notes as its end. */
const COMMITTED_MS = 60_000

const without = (state: CrlPublication['state'], reason?: string): CrlPublication => ({ state, reason, lists: [] })

/** @param issuers SHA-256 of the certificates of the issuers, in hexadecimal @param isPublished whether this service has CRLs */
export async function watchCrls(
  db: CommonQueryMethods,
  job: RevocationJob | undefined,
  issuers: readonly string[],
  isPublished: boolean,
): Promise<CrlPublication> {
  if (!job || (job.finished_at !== null && job.revoked === 0)) return without('nothing_revoked')
  if (job.finished_at === null) return without('revoking')
  if (!isPublished) return without('not_known', 'crl.enabled is false: this service publishes no CRL')
  const store = createCrlStore(queriesOf(db))
  const keyOf = new Map<string, Buffer>()
  for (const { fingerprint, certificate } of await store.issuerCertificates())
    keyOf.set(fingerprint.toString('hex'), issuerKeyOfCertificate(parseCertificate(certificate).tbs))
  const served = (await store.published()).filter(({ nextUpdate }) => nextUpdate.getTime() > Date.now())
  const lists: CrlPublication['lists'] = []
  const seen = new Set<string>()
  for (const issuer of issuers) {
    const issuerKey = keyOf.get(issuer)
    const own = served.filter((list) => issuerKey?.equals(list.issuerKey))
    if (!issuerKey || own.length === 0) return without('not_known', 'no CRL of one of the issuers is served here')
    if (seen.has(issuerKey.toString('hex'))) continue
    seen.add(issuerKey.toString('hex'))
    const fingerprints = [...keyOf].filter(([, key]) => key.equals(issuerKey)).map(([hex]) => Buffer.from(hex, 'hex'))
    const states = await store.states(issuerKey, own, fingerprints)
    // While a job is open, what bulk revocations add is not counted as missing.
    const isCounted = !(await isAnyJobOpen(db))
    lists.push(
      ...own.map((list, at) => {
        const lacksNothing = isCounted && states[at]?.missing === 0
        return { list, contains: lacksNothing || isBegunAfter(list, job.finished_at as Date) }
      }),
    )
  }
  return { state: lists.every(({ contains }) => contains) ? 'published' : 'waiting', reason: undefined, lists }
}

const isBegunAfter = ({ startedAt }: PublishedCrl, finishedAt: Date) =>
  startedAt.getTime() > finishedAt.getTime() + COMMITTED_MS
