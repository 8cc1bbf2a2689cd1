/**
 * Remembers serial numbers of the newest certificates, so that no number is signed with two contents,
 * and a repeated request gets the signature that there is. See
 * docs/decisions/serial-numbers-the-signer-remembers.md.
 */

import { LruMap } from '../src/shared/lib/caching.ts'
import { parseCertificate } from '../src/shared/pki/certificate.ts'
import { type AuditLine, sha256Hex } from './audit/line.ts'
import { SignerRefusal } from './protocol/signer-errors.ts'
import { parseRecordLine } from './records/line-table.ts'
import { lineOf } from './records/pages.ts'
import type { CertificateLine } from './records/record.ts'
import type { RecordFiles } from './records/record-files.ts'

/** About 20 MB. */
const REMEMBERED = 65_536

export interface Signed {
  signature: Buffer
  /** Number of its audit line. */
  sequence: number
}

/** A serial number and what is signed under it. */
export interface Content {
  issuer: string
  serial: string
  /** Hash of the TBSCertificate. */
  sha256: string
}

interface Earlier {
  sha256: string
  /** The number of the audit line; undefined while there is none. */
  sequence?: number
  /** While it is under way. */
  signing?: Promise<Signed>
}

export class SignedSerials {
  readonly #signed: LruMap<string, Earlier>
  /** Bounded as the requests in flight. */
  readonly #underWay = new Map<string, Earlier>()

  constructor(remembered = REMEMBERED) {
    this.#signed = new LruMap(remembered)
  }

  /**
   * @returns an earlier request with the same content
   * @throws SignerRefusal when the content was another one
   */
  find({ issuer, serial, sha256 }: Content): Earlier | undefined {
    const key = `${issuer} ${serial}`
    const earlier = this.#underWay.get(key) ?? this.#signed.get(key)
    if (earlier !== undefined && earlier.sha256 !== sha256)
      throw new SignerRefusal(`the serial number ${serial} has been signed with other content`)
    return earlier
  }

  /**
   * Call it before using the key.
   * @throws SignerRefusal as `find`
   */
  claim(content: Content): void {
    this.find(content)
    const key = keyOf(content)
    if (!this.#signed.get(key)) this.#signed.set(key, { sha256: content.sha256 })
  }

  /** Lets later requests of the same content wait for this one. */
  begin(content: Content, signing: Promise<Signed>): void {
    const key = keyOf(content)
    const { sha256 } = content
    const earlier = { sha256, signing }
    this.#underWay.set(key, earlier)
    const end = () => {
      if (this.#underWay.get(key) === earlier) this.#underWay.delete(key)
    }
    signing.then(({ sequence }) => {
      end()
      this.#signed.set(key, { sha256, sequence })
    }, end)
  }

  /** Restores the memory from the newest audit lines, at the start. */
  recall(lines: readonly AuditLine[]): void {
    for (const { method, issuer, serial, sha256, seq, record } of lines)
      if (method === 'signCertificate')
        this.#signed.set(`${issuer} ${serial}`, { sha256, ...(record !== undefined && { sequence: seq }) })
  }
}

const keyOf = ({ issuer, serial }: Content): string => `${issuer} ${serial}`

/** @returns undefined when there is none, or its record is kept no longer */
export async function earlierSignature(
  { sha256, sequence, signing }: Earlier,
  { certificates }: RecordFiles,
): Promise<Buffer | undefined> {
  if (signing) {
    // The call that began it gets the failure; this one signs by itself.
    const signed = await signing.catch(() => undefined)
    return signed?.signature
  }
  if (sequence === undefined) return undefined
  const text = await lineOf(certificates, sequence)
  const line = text && parseRecordLine<CertificateLine>(text)
  if (!line) return undefined
  const { tbsDer, signature } = parseCertificate(Buffer.from(line.certificate, 'base64'))
  return sha256Hex(tbsDer) === sha256 ? signature : undefined
}
