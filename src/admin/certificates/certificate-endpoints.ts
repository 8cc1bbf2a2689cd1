/** `/certificates`: lists of certificates, and one by its serial number or fingerprint. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { notFound } from '../../domain/admin-error.ts'
import { type Scope, scopeOf } from '../../domain/permissions.ts'
import { encodePem } from '../../shared/pki/pem.ts'
import { CERTIFICATE_STATUSES, type CertificateFilter } from '../../store/certificate-filter.ts'
import {
  type FoundCertificate,
  findCertificateByFingerprint,
  findCertificatesBySerial,
  isAnyArchived,
  listCertificates,
  skipOfCertificates,
} from '../../store/certificate-list.ts'
import { findIssuerChain } from '../../store/certificate-store.ts'
import { CERTIFICATE_SORTS, type CertificateSort } from '../../store/certificate-ways.ts'
import { queriesOf } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { nextOf, pageRequest, placeParameters, readPageOf } from '../pages.ts'
import { certificateName, fingerprint, flagParameter, instantParameter, line, serialNumber, uuid } from '../schemas.ts'
import { Certificate, certificateBodies, certificateBody } from './certificate-body.ts'

/** Filters that a bulk revocation takes, too. */
export const exactDomain = certificateName()
  .optional()
  .meta({ description: 'One of its names whole, such as *.example.com or a common name, in any spelling.' })
export const domainSuffix = certificateName()
  .optional()
  .meta({ description: 'A name that one of its names is, or lies below.' })
export const keyFingerprint = fingerprint().optional().meta({ description: 'SHA-256 of the SubjectPublicKeyInfo.' })
export const params = z.strictObject({ serial: serialNumber() })
export const query = z.strictObject({
  issuer: fingerprint().optional().meta({
    description: "SHA-256 of the issuer's certificate, where several issuers have given the serial number.",
  }),
})
export const CERTIFICATES = endpointGroup('Certificates', {
  listCertificates: endpoint({
    route: 'GET /certificates',
    permission: 'read_accounts',
    scope: 'accounts',
    summary: 'Lists certificates, the newest first; filtered by expiry, the one that expires last.',
    query: z.strictObject({
      account_id: uuid().optional(),
      serial: serialNumber().optional(),
      fingerprint: fingerprint().optional(),
      spki_sha256: keyFingerprint,
      domain: exactDomain,
      domain_suffix: domainSuffix,
      status: z
        .enum(CERTIFICATE_STATUSES)
        .optional()
        .meta({ description: '`revoked` includes those that have ended since; the others leave revoked ones out.' }),
      expiring_after: instantParameter().optional(),
      expiring_before: instantParameter().optional(),
      issued_before: instantParameter().optional(),
      issued_after: instantParameter().optional(),
      revoked_after: instantParameter().optional(),
      issuer: fingerprint().optional().meta({ description: "SHA-256 of the issuer's certificate." }),
      profile: line(255).optional(),
      renewed: flagParameter().optional().meta({
        description:
          'Whether it has a successor: an order that replaces it has got a certificate, or another one of its account ends later, is not revoked and has all its names. Certificates of no account are left out.',
      }),
      sort: z.enum(CERTIFICATE_SORTS).optional(),
      ...placeParameters(),
    }),
    reply: { status: 200, schema: z.array(Certificate) },
    async handle({ query, author }, { db, pages, policy }) {
      const { sort, limit, offset, cursor, fingerprint, status, issuer, profile, renewed } = query
      const filter = {
        accountId: query.account_id,
        serialNumber: query.serial,
        fingerprint,
        spkiSha256: query.spki_sha256,
        name: query.domain,
        nameSuffix: query.domain_suffix,
        status,
        expiresAfter: query.expiring_after,
        expiresBefore: query.expiring_before,
        issuer,
        profile,
        renewed,
        issuedBefore: query.issued_before,
        issuedAfter: query.issued_after,
        revokedAfter: query.revoked_after,
        scope: scopeOf(author),
      }
      const order = sort ?? usualSort(filter)
      const page = await readPageOf(
        (after, most) => listCertificates(db, filter, after, most, order),
        pageRequest({ limit, offset, cursor }, pages),
        skipOfCertificates(db, filter, order),
      )
      return {
        body: await certificateBodies({ db, policy }, page.rows),
        next: nextOf(page),
        isCut: page.isCut,
      }
    },
  }),
  getCertificate: endpoint({
    route: 'GET /certificates/{serial}',
    permission: 'read_accounts',
    scope: 'accounts',
    summary:
      'Shows one certificate by its serial number. When several have it, one of an account comes first, then the newest.',
    params,
    query,
    reply: { status: 200, schema: Certificate },
    handle: async ({ params, query, author }, { db, policy }) => ({
      body: await certificateBody(
        { db, policy },
        await requireCertificate(db, params.serial, scopeOf(author), query.issuer),
      ),
    }),
  }),
  getCertificateByFingerprint: endpoint({
    permission: 'read_accounts',
    scope: 'accounts',
    route: 'GET /certificates/by-fingerprint/{fingerprint}',
    summary: 'Shows one certificate by its SHA-256 fingerprint.',
    params: z.strictObject({ fingerprint: fingerprint() }),
    reply: { status: 200, schema: Certificate },
    handle: async ({ params, author }, { db, policy }) => ({
      body: await certificateBody(
        { db, policy },
        await known(db, await findCertificateByFingerprint(db, params.fingerprint, scopeOf(author))),
      ),
    }),
  }),
  getCertificatePem: endpoint({
    route: 'GET /certificates/{serial}/pem',
    permission: 'read_accounts',
    scope: 'accounts',
    summary: 'Gives the certificate alone as PEM.',
    params,
    query,
    reply: { status: 200, schema: z.string(), contentType: 'application/x-pem-file' },
    handle: async ({ params, query, author }, { db }) => ({
      body: encodePem('CERTIFICATE', (await requireContent(db, params.serial, scopeOf(author), query.issuer)).der),
    }),
  }),
  getCertificateChain: endpoint({
    route: 'GET /certificates/{serial}/chain',
    permission: 'read_accounts',
    scope: 'accounts',
    summary: 'Gives the certificate and its issuers as PEM.',
    params,
    query,
    reply: { status: 200, schema: z.string(), contentType: 'application/pem-certificate-chain' },
    async handle({ params, query, author }, { db }) {
      const { der, issuer_fingerprint } = await requireContent(db, params.serial, scopeOf(author), query.issuer)
      const issuers = (await findIssuerChain(queriesOf(db), issuer_fingerprint)) ?? []
      return { body: [der, ...issuers].map((certificate) => encodePem('CERTIFICATE', certificate)).join('') }
    },
  }),
})

/** Newest first; by expiry, the latest first, where nothing but expiry narrows the list. */
function usualSort({ expiresAfter, expiresBefore, status, accountId, name }: CertificateFilter): CertificateSort {
  const isByExpiry = (expiresAfter ?? expiresBefore) !== undefined || status === 'expired'
  return isByExpiry && (accountId ?? name) === undefined ? '-not_after' : '-issued_at'
}

/**
 * The first with this serial number.
 * @param serialNumber lower-case hexadecimal without leading zero octets
 * @param issuer SHA-256 of the issuer certificate in lower-case hexadecimal
 */
export async function requireCertificate(
  db: CommonQueryMethods,
  serialNumber: string,
  scope: Scope,
  issuer?: string,
): Promise<FoundCertificate> {
  const [first] = await findCertificatesBySerial(db, serialNumber, scope, issuer === undefined ? undefined : [issuer])
  return known(db, first)
}

/** As requireCertificate, for one whose DER is stored. */
export async function requireContent(db: CommonQueryMethods, serialNumber: string, scope: Scope, issuer?: string) {
  const certificate = await requireCertificate(db, serialNumber, scope, issuer)
  if (certificate.der.length > 0) return certificate
  throw notFound('certificate')
}

export async function known(
  db: CommonQueryMethods,
  certificate: FoundCertificate | null | undefined,
): Promise<FoundCertificate> {
  if (certificate) return certificate
  const elsewhere = (await isAnyArchived(db)) ? ' here; one that expired long ago may be in the archive' : ''
  throw notFound(`certificate${elsewhere}`)
}
