/** PEM chains of issued certificates, for consumers that pass them on: read together, issuers once. */

import type { CommonQueryMethods } from 'slonik'
import { renderIssuerChain } from '../services/chain-download.ts'
import { encodePem } from '../shared/pki/pem.ts'
import { findIssuerChain } from '../store/certificate-store.ts'
import { findIssued, type Issued } from '../store/event-context-store.ts'
import { queriesOf } from '../store/slonik.ts'

/** A CA changes its issuers a few times in its life. */
const MOST_ISSUERS = 100

export class PemChains {
  readonly #db: CommonQueryMethods
  readonly #includeRoot: boolean
  readonly #issuers = new Map<string, string>()
  /** Certificates that were read ahead, until a consumer asks for them. */
  readonly #expected = new Map<string, Promise<ReadonlyMap<string, Issued>>>()

  constructor(db: CommonQueryMethods, includeRoot: boolean) {
    this.#db = db
    this.#includeRoot = includeRoot
  }

  /** Reads these in one statement. */
  expect(certificateIds: readonly string[]): void {
    if (certificateIds.length === 0) return
    const reading = findIssued(this.#db, certificateIds)
    // The consumer that asks for one gets the error.
    reading.catch(() => undefined)
    for (const id of certificateIds) this.#expected.set(id, reading)
  }

  /** @returns an empty text when retention has removed the certificate */
  async of(certificateId: string): Promise<string> {
    const reading = this.#expected.get(certificateId) ?? findIssued(this.#db, [certificateId])
    this.#expected.delete(certificateId)
    const issued = (await reading).get(certificateId)
    if (!issued) return ''
    return encodePem('CERTIFICATE', issued.der) + (await this.#issuerChain(issued.issuerFingerprint))
  }

  async #issuerChain(fingerprint: string): Promise<string> {
    const known = this.#issuers.get(fingerprint)
    if (known !== undefined) return known
    const chain = (await findIssuerChain(queriesOf(this.#db), fingerprint)) ?? []
    if (chain.length === 0) return ''
    const text = renderIssuerChain(chain, this.#includeRoot)
    if (this.#issuers.size >= MOST_ISSUERS) this.#issuers.clear()
    this.#issuers.set(fingerprint, text)
    return text
  }
}
