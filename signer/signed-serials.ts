/**
 * Remembers serial numbers of the newest certificates, so that no number is signed with two
 * contents. See docs/decisions/serial-numbers-the-signer-remembers.md.
 */

import { LruMap } from '../src/shared/lib/caching.ts'
import type { AuditLine } from './audit/line.ts'
import { SignerRefusal } from './protocol/errors.ts'

/** About 20 MB. */
const REMEMBERED = 65_536

export class SignedSerials {
  readonly #contents: LruMap<string, string>

  constructor(remembered = REMEMBERED) {
    this.#contents = new LruMap(remembered)
  }

  /**
   * Call it before using the key. The same content may repeat, as after a lost connection.
   * @param sha256 hash of the TBSCertificate
   * @throws SignerRefusal
   */
  claim(issuer: string, serial: string, sha256: string): void {
    const key = `${issuer} ${serial}`
    const signed = this.#contents.get(key)
    if (signed !== undefined && signed !== sha256)
      throw new SignerRefusal(`the serial number ${serial} has been signed with other content`)
    if (signed === undefined) this.#contents.set(key, sha256)
  }

  /** Restores the memory from the newest audit lines, at the start. */
  recall(lines: readonly AuditLine[]): void {
    for (const { method, issuer, serial, sha256 } of lines)
      if (method === 'signCertificate') this.#contents.set(`${issuer} ${serial}`, sha256)
  }
}
