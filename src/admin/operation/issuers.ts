/** The CAs whose certificates the database has: who they are, how long they live, and their chains. */

import type { DatabasePool } from 'slonik'
import { notFound } from '../../domain/admin-error.ts'
import { fingerprintSha256, parseCertificate } from '../../shared/pki/certificate.ts'
import { formatName } from '../../shared/pki/name.ts'
import { encodePem } from '../../shared/pki/pem.ts'
import { hashSpki } from '../../shared/pki/spki.ts'
import { type ChainLink, keyType, linkOf } from '../certificates/certificate-details.ts'
import { findIssuerRow, type IssuerRow, listIssuerRows } from './issuer-store.ts'

export interface Issuer {
  /** SHA-256 in lower-case hexadecimal. */
  fingerprint: string
  /** Of the configuration of the instance that answers; undefined when it does not sign with it. */
  id: string | undefined
  subject: string
  serialNumber: string
  key: { type: string; spkiSha256: string }
  notBefore: Date
  notAfter: Date
  /** From its own issuer upwards. */
  above: readonly ChainLink[]
}

/** An issuer that a signer uses now. */
export interface SigningIssuer {
  id: string
  certificate: Uint8Array
}

export class Issuers {
  readonly #db: DatabasePool
  readonly #signing: () => Promise<readonly SigningIssuer[]>

  /** @param signing of the instance that answers, or of the configuration; throws when that cannot be told */
  constructor(db: DatabasePool, signing: () => Promise<readonly SigningIssuer[]>) {
    this.#db = db
    this.#signing = signing
  }

  async list(page: { limit: number; offset: number }): Promise<Issuer[]> {
    // An instance that does not answer leaves the issuers without ids.
    const [rows, signing] = await Promise.all([listIssuerRows(this.#db, page), this.#signing().catch(() => [])])
    const ids = new Map(signing.map(({ id, certificate }) => [fingerprintSha256(Buffer.from(certificate)), id]))
    return rows.map((row) => described(row, ids.get(row.fingerprint)))
  }

  /** The certificate of an issuer and those above it, as PEM. */
  async chain(fingerprint: string): Promise<string> {
    const row = await findIssuerRow(this.#db, fingerprint)
    if (!row) throw notFound('issuer')
    return row.chain.map((certificate) => encodePem('CERTIFICATE', certificate)).join('')
  }
}

function described({ fingerprint, certificate, chain }: IssuerRow, id: string | undefined): Issuer {
  const { tbs } = parseCertificate(certificate)
  return {
    fingerprint,
    id,
    subject: formatName(tbs.subject),
    serialNumber: tbs.serialNumber.toString('hex'),
    key: { type: keyType(tbs.spki), spkiSha256: hashSpki(tbs.spki).toString('hex') },
    notBefore: tbs.notBefore,
    notAfter: tbs.notAfter,
    above: chain.slice(1).map(linkOf),
  }
}
