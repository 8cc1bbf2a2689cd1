/**
 * `/certificates/{serial}/revoke` and `/certificates/revoke-from-crl`: one certificate is revoked, or all that a CRL of one of
 * our issuers lists, even those that the database has lost.
 */

import * as z from 'zod/v4'
import { AdminError } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { findIssuer, type IssuerCertificate, type KnownIssuer } from '../../domain/crl-scope.ts'
import { type Scope, scopeOf } from '../../domain/permissions.ts'
import { ADMINISTRATORS_REASONS, KEY_COMPROMISE, revocationReasonName } from '../../domain/revocation.ts'
import type { NoteRevocations } from '../../services/reconcile/revocation-notes.ts'
import type { RevocationEvents } from '../../services/revocation.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { hashSpki, readAlgorithmIdentifier, verifySignature } from '../../shared/pki/algorithms.ts'
import { parseCertificate, serialNumberHex } from '../../shared/pki/certificate.ts'
import { DerError, readSingle, TAG } from '../../shared/pki/der.ts'
import { TbsCertListReader } from '../../shared/pki/tbs-cert-list-reader.ts'
import { listIssuers, recordUnseen } from '../../store/certificate-import.ts'
import { revokeCertificate } from '../../store/certificate-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import type { AuditLog, Transaction } from '../audit/audit-log.ts'
import {
  Certificate,
  certificateBody,
  known,
  params,
  requireCertificate,
} from '../certificates/certificate-endpoints.ts'
import { type FoundCertificate, findCertificatesBySerial } from '../certificates/certificate-list.ts'
import { fingerprint, instantParameter, whenSound } from '../schemas.ts'

export const reason = () =>
  z.int().refine((code) => ADMINISTRATORS_REASONS.includes(code), {
    error: `must be one of ${ADMINISTRATORS_REASONS.join(', ')} (CRLReason, RFC 5280)`,
  })

/** No larger body is allowed (`admin_api.max_body_bytes`). */
const MOST_OF_A_CRL = 4_194_304

const CrlOutcome = z.strictObject({
  entries: z.int(),
  revoked: z.int().meta({ description: 'Revoked now.' }),
  recorded: z.int().meta({ description: 'Revoked now, and unknown before.' }),
  known: z.int().meta({ description: 'Revoked before.' }),
})
type CrlOutcome = z.infer<typeof CrlOutcome>

export const CERTIFICATE_REVOCATIONS = endpointGroup('Certificates', {
  revokeCertificate: endpoint({
    route: 'POST /certificates/{serial}/revoke',
    permission: 'revoke',
    scope: 'accounts',
    params,
    body: z
      .strictObject({
        reason: reason().default(0),
        issuer: fingerprint().optional().meta({
          description:
            "SHA-256 of the issuer's certificate; revokes a certificate that the database has lost, or one of several with the serial number.",
        }),
        not_after: instantParameter().optional().meta({ description: "Of such a certificate; else its issuer's." }),
      })
      .refine(({ issuer, not_after }) => issuer !== undefined || not_after === undefined, {
        error: "stands beside 'issuer' only",
        when: whenSound,
        path: ['not_after'],
      }),
    bodyIsOptional: true,
    reply: { status: 200, schema: Certificate },
    errors: ['conflict'],
    audit: 'certificate.revoke',
    async handle({ params, body, author }, { db, policy, audit, events, noteRevocations }) {
      const wanted = { reason: body.reason, issuerFingerprint: body.issuer, notAfter: body.not_after }
      const means = { audit, note: noteRevocations, events: events.certificates }
      const revoked = await revokeBySerial(means, author, params.serial, wanted)
      return { body: await certificateBody({ db, policy }, revoked) }
    },
  }),
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

/** Where revocations are written down and told. */
interface Means {
  audit: AuditLog
  note: NoteRevocations
  events: RevocationEvents
}

interface WantedRevocation {
  /** CRLReason; keyCompromise blocks the key for good. */
  reason: number
  /** The issuer of a certificate that the database may have lost, in lower-case hexadecimal. */
  issuerFingerprint?: string | undefined
  /** The end of such a certificate; its issuer's when undefined. */
  notAfter?: Date | undefined
  revokedAt?: Date | undefined
}

/**
 * @throws AdminError not_found for a certificate that the database lacks and whose issuer is not
 *   named; conflict when it is revoked already
 */
export async function revokeBySerial(
  { audit, note: noteAtSigner, events }: Means,
  actor: Actor,
  serialNumber: string,
  wanted: WantedRevocation,
): Promise<FoundCertificate> {
  const revoked = await audit.transaction(actor, async (tx, note) => {
    const { certificate, isUnseen } = await toRevoke(tx, serialNumber, scopeOf(actor), wanted)
    const blockedKey = await revokeOne(tx, certificate, wanted)
    if (blockedKey === false) throw new AdminError('conflict', 'the certificate is revoked already')
    const found = await requireCertificate(tx, serialNumber, undefined, certificate.issuer_fingerprint)
    const { issuer_fingerprint } = certificate
    const details = {
      serial_number: serialNumber,
      certificate_id: certificate.id,
      reason: revocationReasonName(wanted.reason),
      blocked_key: blockedKey?.toString('hex'),
      ...(isUnseen && { issuer_fingerprint }),
    }
    // A fail-over may lose the certificate, too.
    const unseen = { serial_number: serialNumber, issuer_fingerprint, not_after: found.not_after }
    note('certificate.revoke', details, undefined, { unseen })
    return found
  })
  await noteAtSigner([revoked.id])
  events.revoked(subjectOf(revoked), wanted.reason)
  return revoked
}

const subjectOf = ({ id, account_id, serial_number }: FoundCertificate) => ({
  id,
  accountId: account_id ?? undefined,
  serialNumber: serial_number,
})

/** @returns the key it has blocked, if any; false when the certificate was revoked already */
async function revokeOne(
  tx: Transaction,
  { id, der }: FoundCertificate,
  { reason, revokedAt }: WantedRevocation,
): Promise<Buffer | undefined | false> {
  const isKeyKnown = reason === KEY_COMPROMISE && der.length > 0
  const blockedKey = isKeyKnown ? hashSpki(parseCertificate(der).tbs.spki) : undefined
  const revocation = { certificateId: id, reason, blockedKey, requester: undefined, revokedAt }
  return (await revokeCertificate(queriesOf(tx), revocation)) === true && blockedKey
}

/** The certificate that an administrator names; rows that one certificate has twice are revoked together. */
async function toRevoke(
  tx: Transaction,
  serialNumber: string,
  scope: Scope,
  { issuerFingerprint, notAfter }: WantedRevocation,
) {
  const issuers = await listIssuers(queriesOf(tx))
  if (issuerFingerprint !== undefined) {
    const issuer = issuerWith(issuers, issuerFingerprint)
    if (!issuer) throw new AdminError('invalid_request', 'no issuer of this database has this fingerprint')
    if (scope === undefined) return findOrRecord(tx, serialNumber, issuer, notAfter)
    const [own] = await findCertificatesBySerial(tx, serialNumber, scope, hexOf(issuer))
    return { certificate: await known(tx, own), isUnseen: false }
  }
  const [first = null, ...more] = await findCertificatesBySerial(tx, serialNumber, scope)
  const certificate = await known(tx, first)
  const own = more.length > 0 ? hexOf(issuerWith(issuers, certificate.issuer_fingerprint)) : []
  if (!more.every(({ issuer_fingerprint }) => own.includes(issuer_fingerprint)))
    throw new AdminError('conflict', `several issuers have given the serial number ${serialNumber}; name one`)
  return { certificate, isUnseen: false }
}

const issuerWith = (issuers: readonly IssuerCertificate[], wanted: string) =>
  findIssuer(issuers, (_, fingerprint) => fingerprint.toString('hex') === wanted)

const hexOf = (issuer: KnownIssuer | undefined) => (issuer?.fingerprints ?? []).map((each) => each.toString('hex'))

/** Looks under all certificates of the issuer, since a list has a serial number once. */
async function findOrRecord(tx: Transaction, serialNumber: string, issuer: KnownIssuer, notAfter?: Date) {
  const { tbs, fingerprints: issuerFingerprints } = issuer
  const find = () => findCertificatesBySerial(tx, serialNumber, undefined, hexOf(issuer))
  const [found] = await find()
  if (found) return { certificate: found, isUnseen: false }
  const unseen = { id: uuidv7(Date.now()), serialNumber: Buffer.from(serialNumber, 'hex') }
  const made = await recordUnseen(queriesOf(tx), issuerFingerprints, notAfter ?? tbs.notAfter, [unseen])
  if (made.length === 0)
    throw new AdminError('conflict', `the certificate ${serialNumber} is just being issued; try again`)
  const [recorded = null] = await find()
  return { certificate: await known(tx, recorded), isUnseen: true }
}

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
