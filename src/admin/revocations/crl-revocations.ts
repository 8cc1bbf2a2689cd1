/** `/certificates/revoke-from-crl`: all that a CRL of one of our issuers lists is revoked, after the loss of a database. */

import * as z from 'zod/v4'
import { AdminError } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { findIssuer, type IssuerCertificate, type KnownIssuer } from '../../domain/crl-scope.ts'
import { readAlgorithmIdentifier, verifySignature } from '../../shared/pki/algorithms.ts'
import { serialNumberHex } from '../../shared/pki/certificate.ts'
import { DerError, readSingle, TAG } from '../../shared/pki/der.ts'
import { TbsCertListReader } from '../../shared/pki/tbs-cert-list-reader.ts'
import { listIssuers } from '../../store/certificate-import.ts'
import { queriesOf } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import type { FoundCertificate } from '../certificates/certificate-list.ts'
import { findOrRecord, type Means, revokeOne, subjectOf } from './certificate-revocations.ts'

/** No larger body is allowed (`admin_api.max_body_bytes`). */
const MOST_OF_A_CRL = 4_194_304

const CrlOutcome = z.strictObject({
  entries: z.int(),
  revoked: z.int().meta({ description: 'Revoked now.' }),
  recorded: z.int().meta({ description: 'Revoked now, and unknown before.' }),
  known: z.int().meta({ description: 'Revoked before.' }),
})
type CrlOutcome = z.infer<typeof CrlOutcome>

export const CRL_REVOCATIONS = endpointGroup('Certificates', {
  revokeFromCrl: endpoint({
    route: 'POST /certificates/revoke-from-crl',
    permission: 'operate',
    body: z.strictObject({ crl: z.base64('must be base64').max(MOST_OF_A_CRL).meta({ description: 'DER, base64.' }) }),
    reply: { status: 200, schema: CrlOutcome },
    errors: ['conflict'],
    audit: 'certificate.bulk_revoke',
    handle: async ({ body, author }, { audit, events, noteRevocations: note }) => ({
      body: await revokeListed({ audit, note, events: events.certificates }, author, Buffer.from(body.crl, 'base64')),
    }),
  }),
})

/** All entries of a list that one of our issuers has signed, after the loss of a database. */
async function revokeListed(
  { audit, note: noteAtSigner, events }: Means,
  actor: Actor,
  der: Buffer,
): Promise<CrlOutcome> {
  const revoked: { certificate: FoundCertificate; reason: number }[] = []
  const outcome = await audit.transaction(actor, async (tx, note) => {
    const crl = readOwnCrl(der, await listIssuers(queriesOf(tx)))
    const counts = { entries: crl.entries.length, revoked: 0, recorded: 0, known: 0 }
    for (const { serialNumber, reason, revokedAt } of crl.entries) {
      const { certificate, isUnseen } = await findOrRecord(tx, serialNumber, crl.issuer)
      const isNew = (await revokeOne(tx, certificate, { reason, revokedAt })) !== false
      counts[!isNew ? 'known' : isUnseen ? 'recorded' : 'revoked'] += 1
      if (isNew) revoked.push({ certificate, reason })
    }
    if (revoked.length > 0)
      note('certificate.bulk_revoke', {
        crl_number: crl.number,
        issuer: crl.issuer.fingerprints[0].toString('hex'),
        ...counts,
      })
    return counts
  })
  await noteAtSigner(revoked.map(({ certificate }) => certificate.id))
  for (const { certificate, reason } of revoked) events.revoked(subjectOf(certificate), reason)
  return outcome
}

/** A CRL that one of our issuers has signed (RFC 5280 §5.1), read as a whole. */
interface OwnCrl {
  issuer: KnownIssuer
  /** Decimal; undefined where the list has none. */
  number: string | undefined
  entries: { serialNumber: string; revokedAt: Date; reason: number }[]
}

/** @throws AdminError invalid_request */
function readOwnCrl(der: Buffer, issuers: readonly IssuerCertificate[]): OwnCrl {
  try {
    const list = readSingle(der, TAG.sequence, 'CertificateList')
    const tbs = list.any()
    const { algorithm } = readAlgorithmIdentifier(list)
    const signature = list.bitStringOctets()
    list.finish('CertificateList')
    const { issuerDer, number, entries } = readList(tbs)
    const issuer = findIssuer(
      issuers,
      ({ subjectDer, spki }) => subjectDer.equals(issuerDer) && verifySignature(algorithm, tbs, spki, signature),
    )
    if (!issuer) throw new AdminError('invalid_request', 'no issuer of this database has signed this CRL')
    return { issuer, number, entries }
  } catch (error) {
    if (error instanceof DerError) throw new AdminError('invalid_request', `this is no CRL: ${error.message}`)
    throw error
  }
}

function readList(tbs: Buffer): Pick<OwnCrl, 'number' | 'entries'> & { issuerDer: Buffer } {
  const entries: OwnCrl['entries'] = []
  let issuerDer: Buffer = Buffer.alloc(0)
  const reader = new TbsCertListReader({
    header: (header) => {
      issuerDer = header.issuerDer
    },
    entry: ({ serialNumber, revokedAt, reason = 0 }) =>
      entries.push({ serialNumber: serialNumberHex(serialNumber), revokedAt: revokedAt.at, reason }),
  })
  reader.push(tbs)
  const { number } = reader.finish()
  return { issuerDer, number: number && BigInt(`0x${number.toString('hex')}`).toString(), entries }
}
