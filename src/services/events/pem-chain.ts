/** The PEM chain of a certificate, for consumers that pass it on. */

import type { CommonQueryMethods } from 'slonik'
import { encodePem } from '../../shared/pki/pem.ts'
import { findIssuerChain } from '../../store/certificate-store.ts'
import { findIssued } from '../../store/event-context-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import { renderIssuerChain } from '../chain-download.ts'

/** @returns an empty text when retention has removed the certificate */
export async function pemChainOf(db: CommonQueryMethods, certificateId: string, includeRoot: boolean): Promise<string> {
  const issued = await findIssued(db, certificateId)
  if (!issued) return ''
  const chain = (await findIssuerChain(queriesOf(db), issued.issuerFingerprint)) ?? []
  return encodePem('CERTIFICATE', issued.der) + (chain.length > 0 ? renderIssuerChain(chain, includeRoot) : '')
}
