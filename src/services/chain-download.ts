/** Certificate chains as clients download them (RFC 8555 §7.4.2): leaf, then its issuers in order. */

import { parseCertificate } from '../pki/certificate.ts'
import { encodePem } from '../pki/pem.ts'
import { Problem } from '../protocol/problem.ts'
import type { Requester } from '../store/account-store.ts'
import type { CertificateStore } from '../store/certificate-store.ts'
import { unlessStale } from './stale-account.ts'

export interface ChainDownload {
  /** @throws Problem malformed 404, unauthorized when it is another account's */
  download(requester: Requester, certificateId: string): Promise<string>
}

const LABEL = 'CERTIFICATE'

export function createChainDownload(store: CertificateStore, settings: { includeRoot: boolean }): ChainDownload {
  /** By issuer fingerprint; an issuer's chain never changes under it. */
  const chains = new Map<string, string>()

  async function issuerChain(fingerprint: string): Promise<string> {
    const known = chains.get(fingerprint)
    if (known !== undefined) return known
    const chain = await store.findIssuerChain(fingerprint)
    if (!chain) throw new Error(`the issuer ${fingerprint} of a recorded certificate must be recorded`)
    const pem = renderIssuerChain(chain, settings.includeRoot)
    chains.set(fingerprint, pem)
    return pem
  }

  return {
    async download(requester, certificateId) {
      const certificate = unlessStale(await store.find({ requester, certificateId }))
      if (!certificate) throw new Problem('malformed', 'there is no such certificate', { status: 404 })
      if (certificate.accountId !== requester.accountId)
        throw new Problem('unauthorized', 'this certificate belongs to another account')
      return encodePem(LABEL, certificate.der) + (await issuerChain(certificate.issuerFingerprint))
    },
  }
}

/** PEM of an issuer and what is above it, without the root unless it is wanted or is the issuer itself. */
export function renderIssuerChain(chain: readonly Buffer[], includeRoot: boolean): string {
  const issuer = chain[0]
  const sent = chain.filter((der) => includeRoot || der === issuer || !isSelfIssued(der))
  return sent.map((der) => encodePem(LABEL, der)).join('')
}

function isSelfIssued(der: Buffer): boolean {
  const { tbs } = parseCertificate(der)
  return tbs.subjectDer.equals(tbs.issuerDer)
}
