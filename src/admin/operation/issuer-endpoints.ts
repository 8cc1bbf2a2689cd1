/** `/issuers`: the CAs whose certificates the database has, how long they live, and their chains. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { requireFound } from '../../domain/admin-error.ts'
import { hashSpki } from '../../shared/pki/algorithms.ts'
import { fingerprintSha256, parseCertificate } from '../../shared/pki/certificate.ts'
import { formatName } from '../../shared/pki/name.ts'
import { encodePem } from '../../shared/pki/pem.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { chainLinks, keyType, linkOf } from '../certificates/certificate-details.ts'
import { type OffsetPage, offsetParameters, readByOffset } from '../pages.ts'
import { fingerprint, time, timestamp } from '../schemas.ts'

const Issuer = z
  .strictObject({
    fingerprint: z.string().meta({ description: 'SHA-256 of its certificate.' }),
    id: z.string().nullable().meta({
      description: 'Its name on the instance that answers; null when that does not sign with it.',
    }),
    backend: z.string().nullable().meta({
      description: 'The CA besides the signer that signs with it: has issued one of the newest 10,000 certificates.',
    }),
    subject: z.string().meta({ description: 'RFC 4514.' }),
    serial_number: z.string(),
    public_key: z.strictObject({ type: z.string(), spki_sha256: z.string() }),
    not_before: timestamp(),
    not_after: timestamp(),
    above: chainLinks().meta({ description: 'Its own issuer and so on upwards, the root included where it is known.' }),
  })
  .meta({ id: 'Issuer' })

export const ISSUERS = endpointGroup('Issuers', {
  listIssuers: endpoint({
    route: 'GET /issuers',
    permission: 'read',
    query: z.strictObject(offsetParameters()),
    reply: { status: 200, schema: z.array(Issuer) },
    async handle({ query }, { db, signingIssuers, pages }) {
      const { rows, next } = await readByOffset(query, pages, (page) => listIssuerRows(db, page))
      // An instance that does not answer leaves the issuers without ids.
      const signing = await signingIssuers().catch(() => [])
      const ids = new Map(signing.map(({ id, certificate }) => [fingerprintSha256(Buffer.from(certificate)), id]))
      const others = new Map((await readOtherCas(db)).map(({ fingerprint, backend }) => [fingerprint, backend]))
      const body = rows.map((row) => issuerBody(row, ids.get(row.fingerprint), others.get(row.fingerprint)))
      return { body, next }
    },
  }),
  getIssuerChain: endpoint({
    route: 'GET /issuers/{fingerprint}/chain',
    permission: 'read',
    params: z.strictObject({ fingerprint: fingerprint() }),
    reply: { status: 200, schema: z.string(), contentType: 'application/pem-certificate-chain' },
    async handle({ params }, { db }) {
      const row = requireFound(await findIssuerRow(db, params.fingerprint), 'issuer')
      return { body: row.chain.map((certificate) => encodePem('CERTIFICATE', certificate)).join('') }
    },
  }),
})

function issuerBody(
  { fingerprint, certificate, chain }: IssuerRow,
  id: string | undefined,
  backend: string | undefined,
): z.input<typeof Issuer> {
  const { tbs } = parseCertificate(certificate)
  return {
    fingerprint,
    id: id ?? null,
    backend: backend ?? null,
    subject: formatName(tbs.subject),
    serial_number: tbs.serialNumber.toString('hex'),
    public_key: { type: keyType(tbs.spki), spki_sha256: hashSpki(tbs.spki).toString('hex') },
    not_before: time(tbs.notBefore),
    not_after: time(tbs.notAfter),
    above: chain.slice(1).map(linkOf),
  }
}

const Row = z.object({
  fingerprint: z.string(),
  certificate: z.instanceof(Buffer),
  /** Upwards, itself included. */
  chain: z.array(z.instanceof(Buffer)),
})
type IssuerRow = z.infer<typeof Row>

const columns = sql.fragment`encode(fingerprint, 'hex') AS fingerprint, certificate, chain`

/** The newest first; there are few. */
function listIssuerRows(db: CommonQueryMethods, { limit, offset }: OffsetPage): Promise<readonly IssuerRow[]> {
  return db.any(rowsOf(Row)`
    SELECT ${columns} FROM issuers ORDER BY created_at DESC, issuers.fingerprint LIMIT ${limit} OFFSET ${offset}`)
}

/** @param fingerprint SHA-256 in lower-case hexadecimal */
function findIssuerRow(db: CommonQueryMethods, fingerprint: string): Promise<IssuerRow | null> {
  return db.maybeOne(rowsOf(Row)`
    SELECT ${columns} FROM issuers WHERE fingerprint = decode(${fingerprint}, 'hex')`)
}

/** A CA besides the signer, for profiles with a `backend`: with which issuer it signs, when last, and what is open there. */
const CaRow = z.object({
  backend: z.string(),
  /** SHA-256 of the issuer's certificate; null before the CA has issued one. */
  fingerprint: z.string().nullable(),
  certificate: z.instanceof(Buffer).nullable(),
  last_issued_at: z.date().nullable(),
  open: z.int(),
  failures: z.int(),
})
export type OtherCa = z.infer<typeof CaRow>

/** No probe asks these CAs. The state comes from the newest certificates and the requests under way. */
export function readOtherCas(db: CommonQueryMethods): Promise<readonly OtherCa[]> {
  // certificates_pkey, from its end; csr_issuances holds only what is in flight
  return db.any(rowsOf(CaRow)`
    SELECT backend, encode(i.fingerprint, 'hex') AS fingerprint, i.certificate, u.last_issued_at,
           coalesce(n.open, 0) AS open, coalesce(n.failures, 0) AS failures
      FROM (SELECT backend, issuer_fingerprint, max(issued_at) AS last_issued_at
              FROM (SELECT backend, issuer_fingerprint, issued_at FROM certificates ORDER BY id DESC LIMIT 10000) c
             WHERE backend IS NOT NULL GROUP BY backend, issuer_fingerprint) u
      FULL JOIN (SELECT backend, count(*)::integer AS open, max(failures) AS failures FROM csr_issuances
                  WHERE abandoned_at IS NULL GROUP BY backend) n USING (backend)
      LEFT JOIN issuers i ON i.fingerprint = u.issuer_fingerprint
     ORDER BY u.last_issued_at DESC NULLS LAST`)
}

/** Certificates of other CAs end with their issuers, as do certificates of the signer. */
export const issuersOf = (others: readonly OtherCa[]) =>
  others.flatMap(({ backend, certificate }) =>
    certificate ? [{ id: backend, certificate, notAfter: parseCertificate(certificate).tbs.notAfter }] : [],
  )
