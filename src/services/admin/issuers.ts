/** The CAs whose certificates the database has: who they are, how long they live, and their chains. */

import type { DatabasePool } from 'slonik'
import { notFound } from '../../domain/admin-error.ts'
import type { InstanceState } from '../../domain/instance-state.ts'
import { fingerprintSha256, parseCertificate } from '../../shared/pki/certificate.ts'
import { formatName } from '../../shared/pki/name.ts'
import { encodePem } from '../../shared/pki/pem.ts'
import { hashSpki } from '../../shared/pki/spki.ts'
import { findIssuerRow, type IssuerRow, listIssuerRows } from '../../store/admin/issuer-store.ts'
import { type ChainLink, keyType, linkOf } from './certificate-details.ts'

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

export class Issuers {
  readonly #db: DatabasePool
  readonly #instance: () => Promise<InstanceState>

  /** @param instance the one that answers. @throws when it does not say */
  constructor(db: DatabasePool, instance: () => Promise<InstanceState>) {
    this.#db = db
    this.#instance = instance
  }

  async list(page: { limit: number; offset: number }): Promise<Issuer[]> {
    const [rows, instance] = await Promise.all([
      listIssuerRows(this.#db, page),
      this.#instance().catch(() => undefined),
    ])
    const ids = new Map(
      instance?.issuers.map(({ id, certificate }) => [fingerprintSha256(Buffer.from(certificate)), id]) ?? [],
    )
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
    ...{ fingerprint, id, subject: formatName(tbs.subject), serialNumber: tbs.serialNumber.toString('hex') },
    key: { type: keyType(tbs.spki), spkiSha256: hashSpki(tbs.spki).toString('hex') },
    ...{ notBefore: tbs.notBefore, notAfter: tbs.notAfter },
    above: chain.slice(1).map(linkOf),
  }
}
