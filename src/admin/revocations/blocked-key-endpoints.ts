/** `/blocked-keys`: keys that are never certified again. */

import { z } from 'zod/v4'
import { ADMINS, BOTH_ROLES, endpoint } from '../endpoint.ts'
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

const tag = 'Blocked keys'

const listBlockedKeys = endpoint({
  id: 'listBlockedKeys',
  method: 'GET',
  path: '/blocked-keys',
  tag,
  roles: BOTH_ROLES,
  summary: 'Lists blocked keys, the newest first.',
  query: z.strictObject({
    ...placeParameters(),
    cursor: z
      .union([z.literal(''), fingerprint()], { error: "must be empty for the first page, or taken from a page's Link" })
      .optional(),
  }),
  reply: { status: 200, schema: z.array(BlockedKey) },
  async handle({ query }, { blockedKeys, pages }) {
    const page = await blockedKeys.list(pageRequest(query, pages))
    return { body: page.rows.map(keyBody), next: nextOf(page) }
  },
})

const blockKey = endpoint({
  id: 'blockKey',
  method: 'POST',
  path: '/blocked-keys',
  tag,
  roles: ADMINS,
  summary: 'Blocks a key: no certificate is issued for it any more.',
  body: z.strictObject({ spki_sha256: fingerprint() }),
  reply: { status: 201, schema: BlockedKey },
  errors: ['conflict'],
  audit: 'key.block',
  handle: async ({ body, author }, { blockedKeys }) => ({
    body: keyBody(await blockedKeys.block(author, body.spki_sha256)),
  }),
})

const unblockKey = endpoint({
  id: 'unblockKey',
  method: 'DELETE',
  path: '/blocked-keys/{spki_sha256}',
  tag,
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
})

export const BLOCKED_KEYS = [listBlockedKeys, blockKey, unblockKey]
