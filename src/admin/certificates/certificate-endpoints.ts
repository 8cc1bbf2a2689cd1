/** `/certificates`: lists of certificates with the renewal window of each, and one by its serial number or fingerprint. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { notFound } from '../../domain/admin-error.ts'
import { type Scope, scopeOf } from '../../domain/permissions.ts'
import type { WindowPolicy } from '../../domain/renewal-window.ts'
import { revocationReasonName } from '../../domain/revocation.ts'
import { encodePem } from '../../shared/pki/pem.ts'
import { findIssuerChain } from '../../store/certificate-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { placeParameters, readAtPlace } from '../pages.ts'
import { CERTIFICATE_FILTERS, CERTIFICATE_SORTS, SERIAL_FILTERS, usualSort } from '../resources/certificates.ts'
import { fingerprint, parametersOf, serialNumber, time, timeOrNull, timestamp } from '../schemas.ts'
import { accountNameMember, withAccountNames } from './account-list.ts'
import {
  type FoundCertificate,
  findCertificateByFingerprint,
  findCertificatesBySerial,
  isAnyArchived,
  type ListedCertificate,
  listCertificates,
  skipOfCertificates,
  succeededAmong,
} from './certificate-list.ts'
import { windowsOf } from './renewal-window-store.ts'

export const Certificate = z
  .strictObject({
    id: z.uuid(),
    account_id: z.uuid().nullable(),
    account_name: accountNameMember(),
    order_id: z.uuid().nullable(),
    serial_number: z.string(),
    fingerprint: z.string().nullable().meta({ description: 'Null where only issuer and serial number are known.' }),
    issuer_fingerprint: z.string(),
    key_type: z
      .string()
      .nullable()
      .meta({ description: 'Such as RSA-2048, P-256, Ed25519 or other. Null where the fingerprint is.' }),
    not_before: timestamp(),
    not_after: timestamp(),
    revoked_at: timestamp().nullable(),
    revocation_reason: z.string().nullable(),
    san_values: z.array(z.string()),
    created_at: timestamp(),
    renewal: z
      .strictObject({
        window_start: timestamp(),
        window_end: timestamp(),
        renewed: z
          .boolean()
          .nullable()
          .meta({ description: 'Whether it has a successor; null before the window opens, and without an account.' }),
      })
      .nullable()
      .meta({ description: 'When it should be renewed (RFC 9773); null once it is revoked or expired.' }),
  })
  .meta({ id: 'Certificate' })

interface Sources {
  db: CommonQueryMethods
  policy: { renewal: WindowPolicy }
}

/** @param rows of one page: three statements for all of them */
export async function certificateBodies(
  { db, policy }: Sources,
  rows: readonly ListedCertificate[],
): Promise<z.input<typeof Certificate>[]> {
  const now = new Date()
  const alive = rows.filter(({ revoked_at, not_after }) => revoked_at === null && not_after > now)
  const windows = await windowsOf(db, alive, policy.renewal, now)
  const due = alive.filter(({ id, account_id }) => account_id !== null && (windows.get(id)?.start ?? now) < now)
  const dueIds = new Set(due.map(({ id }) => id))
  const succeeded = await succeededAmong(db, [...dueIds])
  return (await withAccountNames(db, rows)).map((row) => {
    const window = windows.get(row.id)
    return {
      ...bodyOf(row),
      renewal: window
        ? {
            window_start: time(window.start),
            window_end: time(window.end),
            renewed: dueIds.has(row.id) ? succeeded.has(row.id) : null,
          }
        : null,
    }
  })
}

export async function certificateBody(sources: Sources, row: ListedCertificate): Promise<z.input<typeof Certificate>> {
  const [body] = await certificateBodies(sources, [row])
  return body as z.input<typeof Certificate>
}

function bodyOf(row: ListedCertificate & { account_name: string | null }) {
  const { id, account_id, account_name, order_id, serial_number, fingerprint, issuer_fingerprint, revoked_at } = row
  return {
    id,
    account_id,
    account_name,
    order_id,
    serial_number,
    fingerprint,
    issuer_fingerprint,
    key_type: row.key_type,
    not_before: time(row.not_before),
    not_after: time(row.not_after),
    revoked_at: timeOrNull(revoked_at),
    revocation_reason: revoked_at && revocationReasonName(row.revocation_reason ?? 0),
    san_values: row.names,
    created_at: time(row.issued_at),
  }
}

export const params = z.strictObject({ serial: serialNumber() })
export const query = z.strictObject(parametersOf(SERIAL_FILTERS))
export const CERTIFICATES = endpointGroup('Certificates', {
  listCertificates: endpoint({
    route: 'GET /certificates',
    permission: 'read_accounts',
    scope: 'accounts',
    query: z.strictObject({
      ...parametersOf(CERTIFICATE_FILTERS),
      sort: z.enum(CERTIFICATE_SORTS).optional(),
      ...placeParameters(),
    }),
    reply: { status: 200, schema: z.array(Certificate) },
    async handle({ query, author }, { db, pages, policy }) {
      const { sort = usualSort(query), limit, offset, cursor, ...chosen } = query
      const filter = { ...chosen, scope: scopeOf(author) }
      const { rows, ...page } = await readAtPlace(
        { limit, offset, cursor },
        pages,
        (after, most) => listCertificates(db, filter, after, most, sort),
        skipOfCertificates(db, filter, sort),
      )
      return { body: await certificateBodies({ db, policy }, rows), ...page }
    },
  }),
  getCertificate: endpoint({
    route: 'GET /certificates/{serial}',
    permission: 'read_accounts',
    scope: 'accounts',
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
