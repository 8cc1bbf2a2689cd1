/** `/certificates`: issued certificates and their revocation. */

import { z } from 'zod/v4'
import { ADMINISTRATORS_REASONS, revocationReasonName } from '../../domain/revocation.ts'
import { CERTIFICATE_STATUSES } from '../../store/certificate-filter.ts'
import type { ListedCertificate } from '../../store/certificate-list.ts'
import { CERTIFICATE_SORTS } from '../../store/certificate-ways.ts'
import { ADMINS, BOTH_ROLES, endpoint, endpointGroup } from '../endpoint.ts'
import { nextOf, pageRequest, placeParameters } from '../pages.ts'
import {
  fingerprint,
  flagParameter,
  instantParameter,
  line,
  serialNumber,
  time,
  timeOrNull,
  timestamp,
  uuid,
  whenSound,
} from '../schemas.ts'

const Certificate = z
  .strictObject({
    id: z.uuid(),
    account_id: z.uuid().nullable(),
    order_id: z.uuid().nullable(),
    serial_number: z.string(),
    fingerprint: z.string().nullable().meta({ description: 'Null where only issuer and serial number are known.' }),
    issuer_fingerprint: z.string(),
    not_before: timestamp(),
    not_after: timestamp(),
    revoked_at: timestamp().nullable(),
    revocation_reason: z.string().nullable(),
    san_values: z.array(z.string()),
    created_at: timestamp(),
  })
  .meta({ id: 'Certificate' })

function certificateBody(row: ListedCertificate): z.input<typeof Certificate> {
  const { id, account_id, order_id, serial_number, fingerprint, issuer_fingerprint, revoked_at } = row
  return {
    id,
    account_id,
    order_id,
    serial_number,
    fingerprint,
    issuer_fingerprint,
    not_before: time(row.not_before),
    not_after: time(row.not_after),
    revoked_at: timeOrNull(revoked_at),
    revocation_reason: revoked_at && revocationReasonName(row.revocation_reason ?? 0),
    san_values: row.names,
    created_at: time(row.issued_at),
  }
}

const domain = () => line(255).transform((name) => name.toLowerCase())
/** Filters that a bulk revocation takes, too. */
export const exactDomain = domain().optional().meta({ description: 'One of its names exactly, such as *.example.com.' })
export const keyFingerprint = fingerprint().optional().meta({ description: 'SHA-256 of the SubjectPublicKeyInfo.' })
const params = z.strictObject({ serial: serialNumber() })
const query = z.strictObject({
  issuer: fingerprint().optional().meta({
    description: "SHA-256 of the issuer's certificate, where several issuers have given the serial number.",
  }),
})
/** No larger body is allowed (`admin_api.max_body_bytes`). */
const MOST_OF_A_CRL = 4_194_304

const CertificateDetails = z
  .strictObject({
    certificate: Certificate,
    profile: z.string().nullable().meta({ description: 'The CA profile of its order.' }),
    subject: z.string().meta({ description: 'RFC 4514.' }),
    issuer: z.string(),
    signature_algorithm: z.string(),
    public_key: z.strictObject({ type: z.string(), spki_sha256: z.string(), blocked: z.boolean() }),
    extensions: z.array(z.strictObject({ name: z.string(), critical: z.boolean(), values: z.array(z.string()) })),
    chain: z
      .array(z.strictObject({ subject: z.string(), not_after: timestamp(), fingerprint: z.string() }))
      .meta({ description: 'From its issuer upwards.' }),
    timestamps: z
      .array(z.strictObject({ log_url: z.string(), signed_at: timestamp(), verified: z.boolean() }))
      .meta({ description: 'Of transparency logs (RFC 6962).' }),
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

export const reason = () =>
  z.int().refine((code) => ADMINISTRATORS_REASONS.includes(code), {
    error: `must be one of ${ADMINISTRATORS_REASONS.join(', ')} (CRLReason, RFC 5280)`,
  })

export const CERTIFICATES = endpointGroup('Certificates', {
  listCertificates: endpoint({
    route: 'GET /certificates',
    roles: BOTH_ROLES,
    summary: 'Lists certificates, the newest first; filtered by expiry, the one that expires last.',
    query: z.strictObject({
      account_id: uuid().optional(),
      serial: serialNumber().optional(),
      fingerprint: fingerprint().optional(),
      spki_sha256: keyFingerprint,
      domain: exactDomain,
      domain_suffix: domain().optional().meta({ description: 'A name that one of its names is, or lies below.' }),
      status: z.enum(CERTIFICATE_STATUSES).optional(),
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
    async handle({ query }, { certificates, pages }) {
      const { account_id, serial, domain, domain_suffix, sort, limit, offset, cursor } = query
      const { fingerprint, spki_sha256: spkiSha256, status, issuer, profile, issued_before, issued_after } = query
      const {
        expiring_after: expiresAfter,
        expiring_before: expiresBefore,
        revoked_after: revokedAfter,
        renewed,
      } = query
      const filter = {
        accountId: account_id,
        serialNumber: serial,
        fingerprint,
        spkiSha256,
        name: domain,
        nameSuffix: domain_suffix,
        status,
        expiresAfter,
        expiresBefore,
        issuer,
        profile,
        renewed,
        issuedBefore: issued_before,
        issuedAfter: issued_after,
        revokedAfter,
      }
      const page = await certificates.list(filter, sort, pageRequest({ limit, offset, cursor }, pages))
      return { body: page.rows.map(certificateBody), next: nextOf(page), isCut: page.isCut }
    },
  }),
  getCertificate: endpoint({
    route: 'GET /certificates/{serial}',
    roles: BOTH_ROLES,
    summary: 'Shows one certificate by its serial number: of several that of an account, then the newest.',
    params,
    query,
    reply: { status: 200, schema: Certificate },
    errors: ['not_found'],
    handle: async ({ params, query }, { certificates }) => ({
      body: certificateBody(await certificates.find(params.serial, query.issuer)),
    }),
  }),
  getCertificateDetails: endpoint({
    route: 'GET /certificates/{serial}/details',
    roles: BOTH_ROLES,
    summary: 'Shows one certificate with its extensions, chain, timestamps and renewal window.',
    params,
    query,
    reply: { status: 200, schema: CertificateDetails },
    errors: ['not_found'],
    async handle({ params, query }, { certificates }) {
      const { certificate, details } = await certificates.details(params.serial, query.issuer)
      const { subject, issuer, signatureAlgorithm, key, extensions, chain, facts, renewal } = details
      return {
        body: {
          certificate: certificateBody(certificate),
          profile: facts.profile,
          subject,
          issuer,
          signature_algorithm: signatureAlgorithm,
          public_key: { type: key.type, spki_sha256: key.spkiSha256, blocked: facts.is_key_blocked },
          extensions: extensions.map(({ name, critical, values }) => ({ name, critical, values: [...values] })),
          chain: chain.map(({ subject, notAfter, fingerprint }) => ({
            subject,
            not_after: time(notAfter),
            fingerprint,
          })),
          timestamps: facts.timestamps.map(({ signed_at, ...log }) => ({ ...log, signed_at: time(signed_at) })),
          renewal: {
            window_start: time(renewal.start),
            window_end: time(renewal.end),
            advised: facts.window_start !== null,
            explanation_url: facts.explanation_url,
            replaced: facts.is_replaced,
          },
        },
      }
    },
  }),
  getCertificateByFingerprint: endpoint({
    roles: BOTH_ROLES,
    route: 'GET /certificates/by-fingerprint/{fingerprint}',
    summary: 'Shows one certificate by its SHA-256 fingerprint.',
    params: z.strictObject({ fingerprint: fingerprint() }),
    reply: { status: 200, schema: Certificate },
    errors: ['not_found'],
    handle: async ({ params }, { certificates }) => ({
      body: certificateBody(await certificates.findByFingerprint(params.fingerprint)),
    }),
  }),
  getCertificatePem: endpoint({
    route: 'GET /certificates/{serial}/pem',
    roles: BOTH_ROLES,
    summary: 'Gives the certificate alone as PEM.',
    params,
    query,
    reply: { status: 200, schema: z.string(), contentType: 'application/x-pem-file' },
    errors: ['not_found'],
    handle: async ({ params, query }, { certificates }) => ({
      body: await certificates.pem(params.serial, query.issuer),
    }),
  }),
  getCertificateChain: endpoint({
    route: 'GET /certificates/{serial}/chain',
    roles: BOTH_ROLES,
    summary: 'Gives the certificate and its issuers as PEM.',
    params,
    query,
    reply: { status: 200, schema: z.string(), contentType: 'application/pem-certificate-chain' },
    errors: ['not_found'],
    handle: async ({ params, query }, { certificates }) => ({
      body: await certificates.chain(params.serial, query.issuer),
    }),
  }),
  revokeCertificate: endpoint({
    route: 'POST /certificates/{serial}/revoke',
    roles: ADMINS,
    summary: 'Revokes one certificate; the reason 1, keyCompromise, also blocks its key.',
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
    errors: ['not_found', 'conflict'],
    audit: 'certificate.revoke',
    handle: async ({ params, body, author }, { certificates }) => ({
      body: certificateBody(
        await certificates.revoke(author, params.serial, {
          reason: body.reason,
          issuerFingerprint: body.issuer,
          notAfter: body.not_after,
        }),
      ),
    }),
  }),
  revokeFromCrl: endpoint({
    route: 'POST /certificates/revoke-from-crl',
    roles: ADMINS,
    summary: 'Revokes all that a CRL of one of our issuers lists, also what the database has lost.',
    body: z.strictObject({ crl: z.base64().max(MOST_OF_A_CRL).meta({ description: 'DER, base64.' }) }),
    reply: {
      status: 200,
      schema: z.strictObject({
        entries: z.int(),
        revoked: z.int().meta({ description: 'Revoked now.' }),
        recorded: z.int().meta({ description: 'Revoked now, and unknown before.' }),
        known: z.int().meta({ description: 'Revoked before.' }),
      }),
    },
    errors: ['conflict'],
    audit: 'certificate.bulk_revoke',
    handle: async ({ body, author }, { certificates }) => ({
      body: await certificates.revokeFromCrl(author, Buffer.from(body.crl, 'base64')),
    }),
  }),
})
