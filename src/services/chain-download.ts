/** Certificate chains for download (RFC 8555 §7.4.2): leaf, then its issuers in order. */

import type { CaIssuer } from '../ca/backend.ts'
import type { Certificate } from '../domain/records.ts'
import { LruMap, oncePerKey } from '../shared/lib/caching.ts'
import { fingerprintSha256, parseCertificate } from '../shared/pki/certificate.ts'
import { encodePem } from '../shared/pki/pem.ts'
import { Problem } from '../shared/protocol/problem.ts'
import type { Requester } from '../store/account-store.ts'
import type { CertificateStore } from '../store/certificate-store.ts'
import { unlessStale } from './account-cache.ts'
import type { FlowCache } from './flow-cache.ts'

export interface ChainDownload {
  /**
   * @param chain 0 for the default chain, else the number of an alternate one.
   * @returns the leaf with that chain, and how many chains there are.
   * @throws Problem malformed 404, unauthorized when it is another account's
   */
  download(requester: Requester, certificateId: string, chain: number): Promise<{ pem: string; chainCount: number }>
}

interface ChainSettings {
  includeRoot: boolean
  /** The backend's current issuers. Only these have alternate chains, as configured. */
  issuers(): readonly CaIssuer[]
  /** How long a thread remembers a chain that it has read. */
  chainLifeMs?: number
}

const LABEL = 'CERTIFICATE'
/** Another CA may send a new chain for the same issuer at any time. */
const CHAIN_LIFE_MS = 10_000
/** Issuers of a public CA are some dozens. */
const MOST_ISSUERS = 1_000

export function createChainDownload(
  store: CertificateStore,
  settings: ChainSettings,
  flowCache: Pick<FlowCache, 'certificate'> | undefined,
): ChainDownload {
  const { chainLifeMs = CHAIN_LIFE_MS } = settings
  const remembered = <V>() => new LruMap<string, Promise<V>>(MOST_ISSUERS, chainLifeMs)

  /** By issuer fingerprint. */
  const issuerChain = oncePerKey(async (fingerprint: string) => {
    const chain = await store.findIssuerChain(fingerprint)
    if (!chain) throw new Error(`the issuer ${fingerprint} of a recorded certificate must be recorded`)
    return renderIssuerChain(chain, settings.includeRoot)
  }, remembered<string>())

  let alternatesFrom: readonly CaIssuer[] = []
  let alternates = new Map<string, string[]>()

  /** Alternates of issuers that are not the signer's. */
  const storedAlternates = oncePerKey(async (fingerprint: string) => {
    const chains = await store.findAlternateChains(fingerprint)
    return chains.map((chain) => renderIssuerChain(chain, settings.includeRoot))
  }, remembered<string[]>())

  /** Rendered once for each list of issuers; a reconnected backend has a new list. */
  function alternateChains(fingerprint: string): string[] | Promise<string[]> {
    const issuers = settings.issuers()
    if (issuers !== alternatesFrom) {
      alternatesFrom = issuers
      alternates = new Map(
        issuers.map(({ certificate, alternateChains: chains }) => [
          fingerprintSha256(certificate),
          chains.map((chain) => renderIssuerChain(chain, settings.includeRoot)),
        ]),
      )
    }
    return alternates.get(fingerprint) ?? storedAlternates(fingerprint)
  }

  async function find(requester: Requester, certificateId: string): Promise<Certificate> {
    const certificate = unlessStale(await store.find({ requester, certificateId }))
    if (!certificate) throw new Problem('malformed', 'there is no such certificate', { status: 404 })
    if (certificate.accountId !== requester.accountId)
      throw new Problem('unauthorized', 'this certificate belongs to another account')
    return certificate
  }

  return {
    async download(requester, certificateId, chain) {
      const { der, issuerFingerprint } =
        flowCache?.certificate(requester, certificateId) ?? (await find(requester, certificateId))
      const others = await alternateChains(issuerFingerprint)
      const issuers = chain === 0 ? await issuerChain(issuerFingerprint) : others[chain - 1]
      if (issuers === undefined)
        throw new Problem('malformed', 'this certificate has no such alternate chain', { status: 404 })
      return { pem: encodePem(LABEL, der) + issuers, chainCount: others.length + 1 }
    },
  }
}

/** PEM of an issuer and the chain above it. Adds the root only if wanted or the issuer itself. */
export function renderIssuerChain(chain: readonly Buffer[], includeRoot: boolean): string {
  const issuer = chain[0]
  const sent = chain.filter((der) => includeRoot || der === issuer || !isSelfIssued(der))
  return sent.map((der) => encodePem(LABEL, der)).join('')
}

function isSelfIssued(der: Buffer): boolean {
  const { tbs } = parseCertificate(der)
  return tbs.subjectDer.equals(tbs.issuerDer)
}
