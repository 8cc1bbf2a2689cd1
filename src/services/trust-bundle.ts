/**
 * The roots that clients of the issuers trust, as one PEM text (`api.roots_path`).
 *
 * Only certificates that have signed themselves are in it: clients would trust an intermediate for ever.
 */

import { hash } from 'node:crypto'
import type { CaIssuer } from '../ca/backend.ts'
import { type Certificate, parseCertificate } from '../shared/pki/certificate.ts'
import { isIssuedBy } from '../shared/pki/certification-path.ts'
import { decodePem, encodePem } from '../shared/pki/pem.ts'

export interface TrustBundle {
  /** Empty when no root is known. */
  pem: string
  etag: string
  /** Ids of issuers whose root is not in it. */
  rootless: readonly string[]
}

/**
 * Rendered once for each list of issuers; a reconnected backend has a new list.
 * @param further roots that the chains may end at without containing them
 */
export function createTrustBundle(
  issuers: () => readonly CaIssuer[],
  further: readonly Certificate[],
): () => TrustBundle {
  let from: readonly CaIssuer[] | undefined
  let bundle: TrustBundle
  return () => {
    const current = issuers()
    if (current !== from) bundle = renderBundle(current, further)
    from = current
    return bundle
  }
}

function renderBundle(issuers: readonly CaIssuer[], further: readonly Certificate[]): TrustBundle {
  // An alternate chain may end at the root of a CA that has cross-signed, which is not for everybody to trust.
  const chains = issuers.map(({ chain }) => chain)
  const roots = [...chains.flat().map(parseCertificate).filter(isRoot), ...further]
  const pems = new Set(roots.map(({ der }) => encodePem('CERTIFICATE', der)))
  const pem = [...pems].join('')
  const isRootless = ({ chain }: CaIssuer) => {
    const top = parseCertificate(chain.at(-1)!)
    return !roots.some((root) => isIssuedBy(top, root))
  }
  const rootless = issuers.filter(isRootless).map(({ id }) => id)
  return { pem, etag: `"${hash('sha256', pem, 'hex').slice(0, 32)}"`, rootless }
}

/** @throws DerError when its key cannot be read */
const isRoot = (certificate: Certificate): boolean => certificate.tbs.isCa && isIssuedBy(certificate, certificate)

/** Reads a text with roots, perhaps none. @throws Error that says which certificate is none */
export function readRootsPem(pem: string): Certificate[] {
  return decodePem(pem).map(({ label, der }, index) => {
    if (label !== 'CERTIFICATE') throw new Error(`it has a ${label}`)
    const certificate = parseCertificate(der)
    if (isRoot(certificate)) return certificate
    throw new Error(`certificate ${index + 1} in it is no root: a root is a CA certificate that has signed itself`)
  })
}
