/** `/certificates/{serial}/details`: one certificate as a person reads it, its chain, and when it should be renewed. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { scopeOf } from '../../domain/permissions.ts'
import type { WindowPolicy } from '../../domain/renewal-window.ts'
import { hashSpki, type Spki } from '../../shared/pki/algorithms.ts'
import { fingerprintSha256, parseCertificate, type TbsCertificate } from '../../shared/pki/certificate.ts'
import type { Extension } from '../../shared/pki/extensions.ts'
import { formatName } from '../../shared/pki/name.ts'
import { EXTENSION } from '../../shared/pki/oids.ts'
import { findIssuerChain } from '../../store/certificate-store.ts'
import { queriesOf, rowsOf, sql } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { rowOf, time, timestamp, withTimes } from '../schemas.ts'
import { Certificate, certificateBody, params, query, requireContent } from './certificate-endpoints.ts'
import type { FoundCertificate } from './certificate-list.ts'
import { windowsOf } from './renewal-window-store.ts'

export const chainLinks = () =>
  z.array(z.strictObject({ subject: z.string(), not_after: timestamp(), fingerprint: z.string() }))

const LogTimestamp = z.strictObject({ log_url: z.string(), signed_at: timestamp(), verified: z.boolean() })

const CertificateDetails = z
  .strictObject({
    certificate: Certificate,
    profile: z.string().nullable().meta({ description: 'The CA profile of its order.' }),
    subject: z.string().meta({ description: 'RFC 4514.' }),
    issuer: z.string(),
    signature_algorithm: z.string(),
    public_key: z.strictObject({ type: z.string(), spki_sha256: z.string(), blocked: z.boolean() }),
    extensions: z.array(z.strictObject({ name: z.string(), critical: z.boolean(), values: z.array(z.string()) })),
    chain: chainLinks().meta({ description: 'From its issuer upwards.' }),
    timestamps: z.array(LogTimestamp).meta({ description: 'Of transparency logs (RFC 6962).' }),
    renewal: z
      .strictObject({
        window_start: timestamp(),
        window_end: timestamp(),
        advised: z.boolean().meta({ description: 'An administrator has set the window.' }),
        explanation_url: z.string().nullable(),
        replaced: z.boolean().meta({ description: 'An order has named it as replaced.' }),
      })
      .meta({ description: 'RFC 9773.' }),
  })
  .meta({ id: 'CertificateDetails' })

export const CERTIFICATE_DETAILS = endpointGroup('Certificates', {
  getCertificateDetails: endpoint({
    route: 'GET /certificates/{serial}/details',
    permission: 'read_accounts',
    scope: 'accounts',
    params,
    query,
    reply: { status: 200, schema: CertificateDetails },
    async handle({ params, query, author }, { db, policy }) {
      const certificate = await requireContent(db, params.serial, scopeOf(author), query.issuer)
      return { body: await detailsBody(db, certificate, policy.renewal) }
    },
  }),
})

async function detailsBody(
  db: CommonQueryMethods,
  certificate: FoundCertificate,
  policy: WindowPolicy,
): Promise<z.input<typeof CertificateDetails>> {
  const { tbs, signatureAlgorithm } = parseCertificate(certificate.der)
  const spki = hashSpki(tbs.spki)
  const { id, order_id: orderId, issuer_fingerprint } = certificate
  const facts = await readCertificateFacts(db, { id, orderId, spki })
  const timestamps = await listTimestamps(db, id)
  const window = (await windowsOf(db, [certificate], policy, new Date())).get(id)
  if (!window) throw new Error('a certificate without a renewal window')
  return {
    certificate: await certificateBody({ db, policy: { renewal: policy } }, certificate),
    profile: facts.profile,
    subject: formatName(tbs.subject),
    issuer: formatName(tbs.issuer),
    signature_algorithm: signatureAlgorithm ?? tbs.signatureAlgorithm.oid,
    public_key: { type: keyType(tbs.spki), spki_sha256: spki.toString('hex'), blocked: facts.is_key_blocked },
    extensions: tbs.extensions.map((extension) => shownExtension(extension, tbs)),
    chain: ((await findIssuerChain(queriesOf(db), issuer_fingerprint)) ?? []).map(linkOf),
    timestamps: timestamps.map(withTimes),
    renewal: {
      window_start: time(window.start),
      window_end: time(window.end),
      advised: facts.is_advised,
      explanation_url: facts.explanation_url,
      replaced: facts.is_replaced,
    },
  }
}

export function linkOf(der: Buffer) {
  const { tbs } = parseCertificate(der)
  return { subject: formatName(tbs.subject), not_after: time(tbs.notAfter), fingerprint: fingerprintSha256(der) }
}

export function keyType(spki: Spki): string {
  if (spki.kind === 'rsa') return `RSA-${spki.bits}`
  if (spki.kind === 'ec') return spki.curve
  return spki.kind === 'ed25519' ? 'Ed25519' : spki.oid
}

/** Name of an extension as RFC 5280 spells it, and its values in a certificate. */
const SHOWN: Readonly<Record<string, readonly [name: string, values: (tbs: TbsCertificate) => readonly string[]]>> = {
  [EXTENSION.subjectAltName]: [
    'Subject Alternative Name',
    ({ subjectAltNames }) => subjectAltNames.map(({ kind, value }) => `${kind}: ${value}`),
  ],
  [EXTENSION.basicConstraints]: [
    'Basic Constraints',
    ({ isCa, pathLength }) => [`cA: ${isCa}`, ...(pathLength === undefined ? [] : [`pathLen: ${pathLength}`])],
  ],
  [EXTENSION.keyUsage]: ['Key Usage', ({ keyUsages }) => keyUsages],
  [EXTENSION.extendedKeyUsage]: ['Extended Key Usage', ({ extendedKeyUsages }) => extendedKeyUsages],
  [EXTENSION.authorityKeyIdentifier]: [
    'Authority Key Identifier',
    ({ authorityKeyIdentifier }) => [authorityKeyIdentifier?.toString('hex') ?? ''],
  ],
  [EXTENSION.subjectKeyIdentifier]: [
    'Subject Key Identifier',
    ({ subjectKeyIdentifier }) => [subjectKeyIdentifier?.toString('hex') ?? ''],
  ],
  [EXTENSION.crlDistributionPoints]: [
    'CRL Distribution Points',
    ({ crlDistributionPointUrls }) => crlDistributionPointUrls,
  ],
  [EXTENSION.authorityInfoAccess]: [
    'Authority Information Access',
    ({ ocspUrls, caIssuersUrls }) => [
      ...ocspUrls.map((url) => `OCSP: ${url}`),
      ...caIssuersUrls.map((url) => `CA Issuers: ${url}`),
    ],
  ],
  [EXTENSION.certificatePolicies]: ['Certificate Policies', ({ policyOids }) => policyOids],
}

/** Octets of an extension that is not known here are in hexadecimal. */
function shownExtension({ oid, critical, value }: Extension, tbs: TbsCertificate) {
  const known = SHOWN[oid]
  return known
    ? { name: known[0], critical, values: [...known[1](tbs)] }
    : { name: oid, critical, values: [value.toString('hex')] }
}

const Facts = z.object({
  profile: z.string().nullable(),
  is_key_blocked: z.boolean(),
  is_replaced: z.boolean(),
  is_advised: z.boolean(),
  explanation_url: z.string().nullable(),
})
type CertificateFacts = z.infer<typeof Facts>

/** Primary keys only. @param spki SHA-256 of its public key */
function readCertificateFacts(
  db: CommonQueryMethods,
  { id, orderId, spki }: { id: string; orderId: string | null; spki: Buffer },
): Promise<CertificateFacts> {
  return db.one(rowsOf(Facts)`
    SELECT (SELECT profile FROM orders WHERE id = ${orderId}::uuid) AS profile,
           EXISTS (SELECT FROM blocked_keys WHERE spki_sha256 = ${sql.binary(spki)}) AS is_key_blocked,
           EXISTS (SELECT FROM replacements WHERE certificate_id = ${id}) AS is_replaced,
           a.certificate_id IS NOT NULL AS is_advised, a.explanation_url
      FROM (SELECT) x LEFT JOIN renewal_advice a ON a.certificate_id = ${id}`)
}

const listTimestamps = (db: CommonQueryMethods, certificateId: string) =>
  db.any(rowsOf(rowOf(LogTimestamp))`
    SELECT log_url, signed_at, verified FROM signed_certificate_timestamps
     WHERE certificate_id = ${certificateId} ORDER BY log_url`)
