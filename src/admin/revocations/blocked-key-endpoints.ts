/** `/blocked-keys`: keys that are never certified again. */

import { z } from 'zod/v4'
import { ADMINS, BOTH_ROLES, endpoint, endpointGroup } from '../endpoint.ts'
import { nextOf, pageRequest, placeParameters } from '../pages.ts'
import { fingerprint, time, timestamp } from '../schemas.ts'
import type { BlockedKeyRow } from './blocked-key-store.ts'

const BlockedKey = z
  .strictObject({
    spki_sha256: z.string().meta({ description: 'SHA-256 of the SubjectPublicKeyInfo.' }),
    source: z.enum(['revocation', 'administrator', 'file']),
    certificate_id: z.uuid().nullable().meta({ description: 'Whose revocation blocked it.' }),
    blocked_at: timestamp(),
  })
  .meta({ id: 'BlockedKey' })

function keyBody({ spki_sha256, blocked_at, certificate_id, by_administrator }: BlockedKeyRow) {
  const source = certificate_id ? 'revocation' : by_administrator ? 'administrator' : 'file'
  return { spki_sha256, source, certificate_id, blocked_at: time(blocked_at) } as const
}

export const BLOCKED_KEYS = endpointGroup('Blocked keys', {
  listBlockedKeys: endpoint({
    route: 'GET /blocked-keys',
    roles: BOTH_ROLES,
    summary: 'Lists blocked keys, the newest first.',
    query: z.strictObject({
      ...placeParameters(),
      cursor: z
        .union([z.literal(''), fingerprint()], {
          error: "must be empty for the first page, or taken from a page's Link",
        })
        .optional(),
    }),
    reply: { status: 200, schema: z.array(BlockedKey) },
    async handle({ query }, { blockedKeys, pages }) {
      const page = await blockedKeys.list(pageRequest(query, pages))
      return { body: page.rows.map(keyBody), next: nextOf(page) }
    },
  }),
  blockKey: endpoint({
    route: 'POST /blocked-keys',
    roles: ADMINS,
    summary: 'Blocks a key: no certificate is issued for it any more.',
    body: z.strictObject({ spki_sha256: fingerprint() }),
    reply: { status: 201, schema: BlockedKey },
    errors: ['conflict'],
    audit: 'key.block',
    handle: async ({ body, author }, { blockedKeys }) => ({
      body: keyBody(await blockedKeys.block(author, body.spki_sha256)),
    }),
  }),
  unblockKey: endpoint({
    route: 'DELETE /blocked-keys/{spki_sha256}',
    roles: ADMINS,
    summary: 'Takes the block of a key back.',
    params: z.strictObject({ spki_sha256: fingerprint() }),
    reply: { status: 204 },
    errors: ['not_found', 'conflict'],
    audit: 'key.unblock',
    async handle({ params, author }, { blockedKeys }) {
      await blockedKeys.unblock(author, params.spki_sha256)
      return {}
    },
  }),
})
