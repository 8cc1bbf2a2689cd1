/**
 * A credential of a registrar may grant no more than one open credential that has all its tags. An administrator makes the
 * first one, and what a tag grants never grows by registrars (docs/decisions/roles.md).
 */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { AdminError } from '../../domain/admin-error.ts'
import type { AllowedIdentifier } from '../../domain/allowlist.ts'
import { mayRetag, type Scope } from '../../domain/permissions.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import { findProfileOfCredential } from '../profiles/profile-store.ts'
import type { CredentialRow } from './credential-store.ts'
import { pagesOfCredential } from './identifier-store.ts'

interface WantedGrants {
  tags: readonly string[]
  identifiers: readonly AllowedIdentifier[]
  /** CA profiles; undefined for all. */
  profiles: readonly string[] | undefined
  csrProfileId: string | undefined
  preapprovedNetworks: readonly string[] | undefined
  /** Networks from which accounts may register; undefined for all. */
  allowedNetworks: readonly string[] | undefined
  /** Undefined for no end. */
  expiresAt: Date | undefined
}

/** @throws AdminError forbidden */
export async function requireWithinScope(db: CommonQueryMethods, scope: Scope, wanted: WantedGrants): Promise<void> {
  if (scope === undefined) return
  const { tags } = wanted
  if (tags.length === 0 || !tags.every((tag) => scope.includes(tag)))
    throw new AdminError(
      'forbidden',
      `'tags' must name one or more of the tags that you look after: ${scope.join(', ')}`,
    )
  if (await isGranted(db, wanted)) return
  throw new AdminError(
    'forbidden',
    `no open credential with the tags ${tags.join(', ')} grants as much: names, profiles, CSR profile, networks and end must stay within those of one; ask an administrator`,
  )
}

/**
 * A tag more lets its registrars make credentials like this one. A registrar gives it only where another open credential
 * with the tags grants as much.
 * @throws AdminError forbidden
 */
export async function requireMayTag(
  db: CommonQueryMethods,
  scope: Scope,
  credential: CredentialRow,
  tags: readonly string[],
): Promise<void> {
  if (!mayRetag(scope, credential.tags, tags))
    throw new AdminError(
      'forbidden',
      `you may add and remove only the tags that you look after, and one of them must stay: ${scope?.join(', ')}`,
    )
  if (tags.every((tag) => credential.tags.includes(tag))) return
  await requireWithinScope(db, scope, await grantsOf(db, credential, tags))
}

/** More names than a credential can be made with are not compared. */
const MOST_NAMES = 100

async function grantsOf(db: CommonQueryMethods, credential: CredentialRow, tags: readonly string[]) {
  const { id, profiles, preapproved_networks, allowed_networks, expires_at } = credential
  const { rows } = await pagesOfCredential(db, id)(undefined, MOST_NAMES + 1)
  if (rows.length > MOST_NAMES)
    throw new AdminError('forbidden', `the credential grants more than ${MOST_NAMES} names; ask an administrator`)
  return {
    tags,
    identifiers: rows.map(({ identifier_type: type, identifier_value: value }) => ({ type, value })),
    profiles: profiles ?? undefined,
    csrProfileId: (await findProfileOfCredential(db, id))?.id,
    preapprovedNetworks: preapproved_networks ?? undefined,
    allowedNetworks: allowed_networks ?? undefined,
    expiresAt: expires_at ?? undefined,
  }
}

/** Whether one open credential has all the tags and grants all that is wanted. Reads all of them, which are few. */
function isGranted(db: CommonQueryMethods, wanted: WantedGrants): Promise<boolean> {
  const { tags, identifiers, csrProfileId, expiresAt } = wanted
  const profiles = textsOrNull(wanted.profiles)
  const preapproved = sql.fragment`${textsOrNull(wanted.preapprovedNetworks)}::cidr[]`
  const allowed = sql.fragment`${textsOrNull(wanted.allowedNetworks)}::cidr[]`
  return db.exists(rowsOf(z.object({}))`
    SELECT FROM eab_credentials e
     WHERE e.tags @> ${sql.array([...tags], 'text')} AND NOT e.revoked AND coalesce(e.expires_at > now(), true)
       AND (e.expires_at IS NULL OR e.expires_at >= ${expiresAt?.toISOString() ?? null}::timestamptz)
       AND (e.profiles IS NULL OR e.profiles @> ${profiles})
       AND NOT EXISTS (SELECT FROM eab_csr_profiles p
                        WHERE p.eab_credential_id = e.id AND p.csr_profile_id IS DISTINCT FROM ${csrProfileId ?? null}::uuid)
       AND NOT EXISTS (SELECT FROM unnest(${preapproved}) w
                        WHERE NOT EXISTS (SELECT FROM unnest(e.preapproved_networks) m WHERE w <<= m))
       AND (e.allowed_networks IS NULL OR ${allowed} IS NOT NULL
            AND NOT EXISTS (SELECT FROM unnest(${allowed}) w
                             WHERE NOT EXISTS (SELECT FROM unnest(e.allowed_networks) m WHERE w <<= m)))
       AND NOT EXISTS (SELECT FROM unnest(${column(identifiers, ({ type }) => type)},
                                          ${column(identifiers, ({ value }) => value.replace(/^\*\./, ''))},
                                          ${sql.array(
                                            identifiers.map(({ value }) => value.startsWith('*.')),
                                            'bool',
                                          )})
                                     AS i (type, value, wildcard)
                        WHERE NOT credential_allows(e.id, i.type, i.value, i.wildcard))`)
}

const textsOrNull = (texts: readonly string[] | undefined) =>
  texts ? sql.fragment`${sql.array([...texts], 'text')}` : sql.fragment`NULL::text[]`

const column = (identifiers: readonly AllowedIdentifier[], value: (one: AllowedIdentifier) => string) =>
  sql.array(identifiers.map(value), 'text')
