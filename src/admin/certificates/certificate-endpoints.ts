/** `/certificates`: lists of certificates, and one by its serial number or fingerprint. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { notFound } from '../../domain/admin-error.ts'
import { type Scope, scopeOf } from '../../domain/permissions.ts'
import { encodePem } from '../../shared/pki/pem.ts'
import { findIssuerChain } from '../../store/certificate-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { parametersOf } from '../filter-schemas.ts'
import { nextOf, pageRequest, placeParameters, readPageOf } from '../pages.ts'
import { CERTIFICATE_FILTERS, CERTIFICATE_SORTS, usualSort } from '../resources/certificates.ts'
import { fingerprint, serialNumber } from '../schemas.ts'
import { Certificate, certificateBodies, certificateBody } from './certificate-body.ts'
import {
  type FoundCertificate,
  findCertificateByFingerprint,
  findCertificatesBySerial,
  isAnyArchived,
  listCertificates,
  skipOfCertificates,
} from './certificate-list.ts'

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
      ...parametersOf(CERTIFICATE_FILTERS),
      sort: z.enum(CERTIFICATE_SORTS).optional(),
      ...placeParameters(),
    }),
    reply: { status: 200, schema: z.array(Certificate) },
    async handle({ query, author }, { db, pages, policy }) {
      const { sort = usualSort(query), limit, offset, cursor, ...chosen } = query
      const filter = { ...chosen, scope: scopeOf(author) }
      const page = await readPageOf(
        (after, most) => listCertificates(db, filter, after, most, sort),
        pageRequest({ limit, offset, cursor }, pages),
        skipOfCertificates(db, filter, sort),
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

/**
 * Finds the first certificate with this serial number.
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

/** Finds the same certificate, and refuses one whose DER is not stored. */
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
