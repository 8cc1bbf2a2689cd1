/** `/issuers`: the CAs whose certificates the database has. */

import { z } from 'zod/v4'
import { BOTH_ROLES, endpoint, endpointGroup } from '../endpoint.ts'
import { limitOf, limitParameter, offsetPage, offsetParameter, requireNear } from '../pages.ts'
import { fingerprint, time, timestamp } from '../schemas.ts'
import type { Issuer as Facts } from './issuers.ts'

const Issuer = z
  .strictObject({
    fingerprint: z.string().meta({ description: 'SHA-256 of its certificate.' }),
    id: z.string().nullable().meta({
      description: 'Its name on the instance that answers; null when that does not sign with it.',
    }),
    subject: z.string().meta({ description: 'RFC 4514.' }),
    serial_number: z.string(),
    public_key: z.strictObject({ type: z.string(), spki_sha256: z.string() }),
    not_before: timestamp(),
    not_after: timestamp(),
    above: z
      .array(z.strictObject({ subject: z.string(), not_after: timestamp(), fingerprint: z.string() }))
      .meta({ description: 'Its own issuer and so on upwards, the root included where it is known.' }),
  })
  .meta({ id: 'Issuer' })

function issuerBody({ id, key, serialNumber, notBefore, notAfter, above, ...issuer }: Facts): z.input<typeof Issuer> {
  return {
    ...issuer,
    id: id ?? null,
    serial_number: serialNumber,
    public_key: { type: key.type, spki_sha256: key.spkiSha256 },
    not_before: time(notBefore),
    not_after: time(notAfter),
    above: above.map(({ subject, notAfter, fingerprint }) => ({ subject, not_after: time(notAfter), fingerprint })),
  }
}

export const ISSUERS = endpointGroup('Issuers', {
  listIssuers: endpoint({
    route: 'GET /issuers',
    roles: BOTH_ROLES,
    summary: 'Lists the CAs whose certificates the database has, the newest first, retired ones included.',
    query: z.strictObject({ limit: limitParameter(), offset: offsetParameter() }),
    reply: { status: 200, schema: z.array(Issuer) },
    async handle({ query }, { issuers, pages }) {
      const [limit, offset] = [limitOf(query.limit, pages), query.offset]
      requireNear(offset)
      const { rows, next } = offsetPage(await issuers.list({ limit: limit + 1, offset }), limit, offset)
      return { body: rows.map(issuerBody), next }
    },
  }),
  getIssuerChain: endpoint({
    route: 'GET /issuers/{fingerprint}/chain',
    roles: BOTH_ROLES,
    summary: 'Gives the certificate of a CA and those above it as PEM, the root included where it is known.',
    params: z.strictObject({ fingerprint: fingerprint() }),
    reply: { status: 200, schema: z.string(), contentType: 'application/pem-certificate-chain' },
    errors: ['not_found'],
    handle: async ({ params }, { issuers }) => ({ body: await issuers.chain(params.fingerprint) }),
  }),
})
