/**
 * Serial numbers of the newest certificates, so that none is signed with two contents; see
 * docs/decisions/serial-numbers-the-signer-remembers.md.
 */

import { LruMap } from '../src/shared/lib/lru.ts'
import type { AuditLine } from './audit/line.ts'
import { SignerRefusal } from './protocol.ts'

/** About 20 MB. */
const REMEMBERED = 65_536

export class SignedSerials {
  readonly #contents: LruMap<string, string>

  constructor(remembered = REMEMBERED) {
    this.#contents = new LruMap(remembered)
  }

  /**
   * Before the key is used; the same content may come again, as after a lost connection.
   * @param sha256 of the TBSCertificate. @throws SignerRefusal
   */
  claim(issuer: string, serial: string, sha256: string): void {
    const key = `${issuer} ${serial}`
    const signed = this.#contents.get(key)
    if (signed !== undefined && signed !== sha256)
      throw new SignerRefusal(`the serial number ${serial} has been signed with other content`)
    if (signed === undefined) this.#contents.set(key, sha256)
  }

  /** What stands at the end of the audit chain when the daemon starts. */
  recall(lines: readonly AuditLine[]): void {
    for (const { method, issuer, serial, sha256 } of lines)
      if (method === 'signCertificate') this.#contents.set(`${issuer} ${serial}`, sha256)
  }
}
