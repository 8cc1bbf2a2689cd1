/**
 * `POST /eab`: a binding credential is made, with what it grants; its tags change by `PATCH /eab/{cred_id}`.
 *
 * A credential of a registrar may grant no more than one open credential that has all its tags. An administrator makes the
 * first one, and what a tag grants never grows by registrars (docs/decisions/roles.md).
 */

import { randomBytes } from 'node:crypto'
import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { AdminError, requireFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { type AllowedIdentifier, normalizeAllowedIdentifier } from '../../domain/allowlist.ts'
import { requireMayRetag, type Scope, scopeOf } from '../../domain/permissions.ts'
import { boundedArray } from '../../shared/lib/bounded.ts'
import { encodeBase64url } from '../../shared/lib/encoding.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { newNamesAct } from '../approvals/acts.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { withAccountName } from '../certificates/account-list.ts'
import type { AdminContext } from '../context.ts'
import { pagesOfCredential, readIdentifiers } from '../grants/allowed-identifiers.ts'
import { grantNames, notePreApproval, PROFILE_OF_CREDENTIAL } from '../grants/grants.ts'
import { findProfileOfCredential } from '../profiles/profile-store.ts'
import { futureInstant, line, tagList, uuid } from '../schemas.ts'
import { credentialBody, credentialParams, requireCredential } from './credential-endpoints.ts'
import {
  type CredentialRow,
  EabCredential,
  insertCredential,
  lockCredential,
  textsOrNull,
  writeTags,
} from './credential-store.ts'

const EabCredentialWithKey = z
  .strictObject({
    ...EabCredential.shape,
    hmac_key: z.string().meta({ description: 'base64url. Shown once; it cannot be read again.' }),
  })
  .meta({ id: 'EabCredentialWithKey' })

const MOST_ENTRIES = 100
const MOST_USES = 1_000_000
const texts = () => boundedArray(line(255), MOST_ENTRIES, 1).optional()

const WantedCredential = z.strictObject({
  kid: line(255),
  label: z.union([line(255), z.literal('')], 'must be a text of at most 255 characters').optional(),
  /** The one for orders without a choice is first. */
  profiles: texts(),
  preapproved_networks: texts(),
  expires_at: futureInstant().optional(),
  max_uses: z.int().min(1).max(MOST_USES).optional(),
  allowed_networks: texts(),
  allowed_identifiers: texts().meta({ description: 'What it grants; identifiers that are missing are made.' }),
  tags: tagList().default([]).meta({ description: 'Accounts that register with it get them.' }),
  csr_profile_id: uuid().optional().meta({ description: 'The CSR profile that it gives to its accounts.' }),
})

/** The credential of a registrar pre-approves no more than an open one. */
const preApproves = ({ body, author }: { body: { preapproved_networks?: unknown }; author: Actor }) =>
  body.preapproved_networks !== undefined && scopeOf(author) === undefined

export const EAB_CHANGES = endpointGroup('EAB credentials', {
  createEabCredential: endpoint({
    route: 'POST /eab',
    permission: 'onboard',
    scope: 'credentials',
    body: WantedCredential,
    reply: { status: 201, schema: EabCredentialWithKey },
    errors: ['not_found', 'conflict', 'forbidden', 'unavailable'],
    audit: 'eab.create',
    showsOnce: true,
    needsSession: preApproves,
    recentSignIn: preApproves,
    // The credential of a registrar grants no new name.
    approval: async ({ body, author }, context) =>
      scopeOf(author)
        ? undefined
        : newNamesAct(
            () => `the credential ${body.kid}`,
            readIdentifiers('allowed_identifiers', body.allowed_identifiers ?? []),
            context,
            body.preapproved_networks,
          ),
    handle: async ({ body, author }, context) => ({ body: await createCredential(context, author, body) }),
  }),
  updateEabCredential: endpoint({
    route: 'PATCH /eab/{cred_id}',
    permission: 'onboard',
    scope: 'credentials',
    params: credentialParams,
    body: z.strictObject({ tags: tagList() }),
    reply: { status: 200, schema: EabCredential },
    errors: ['forbidden'],
    audit: 'eab.update',
    handle: async ({ params, body, author }, { db, audit }) => ({
      body: credentialBody(await withAccountName(db, await retag(audit, author, params.cred_id, body.tags))),
    }),
  }),
})

/** 256 bits, the size of the MAC's own state. */
const MAC_KEY_BYTES = 32

async function createCredential(
  { audit, policy, secretBox }: AdminContext,
  actor: Actor,
  wanted: z.output<typeof WantedCredential>,
): Promise<z.input<typeof EabCredentialWithKey>> {
  const { kid, label, tags, csr_profile_id: csrProfileId, expires_at: expiresAt, max_uses: maxUses } = wanted
  const identifiers = readIdentifiers('allowed_identifiers', wanted.allowed_identifiers ?? [])
  const box = secretBox()
  if (!box)
    throw new AdminError(
      'unavailable',
      'there is no secret to store HMAC keys under; set acme.eab_key_file or admin_api.token_secret in the configuration',
    )
  const profiles = profilesAmong(policy.caProfiles, wanted.profiles)
  const preapprovedNetworks = networksOf('preapproved_networks', wanted.preapproved_networks)
  requireNarrow('preapproved_networks', preapprovedNetworks ?? [])
  const allowedNetworks = networksOf('allowed_networks', wanted.allowed_networks)
  const id = uuidv7(Date.now())
  const key = drawMacKey()
  const facts = { id, kid, label, profiles, preapprovedNetworks, expiresAt, maxUses, allowedNetworks, tags }
  return audit.transaction(actor, async (tx, note) => {
    await requireWithinScope(tx, scopeOf(actor), { ...facts, identifiers, csrProfileId })
    const made = await insertCredential(tx, { ...facts, sealedKey: box.seal(key, id), createdBy: actor.userId })
    if (!made) throw new AdminError('conflict', `the kid ${JSON.stringify(kid)} is taken`)
    note('eab.create', { eab_id: id, kid, label, ...(tags.length > 0 && { tags }) })
    await grantNames(tx, note, actor, id, identifiers)
    await notePreApproval(tx, note, id, identifiers)
    if (csrProfileId !== undefined)
      await PROFILE_OF_CREDENTIAL.add(tx, note, actor, await PROFILE_OF_CREDENTIAL.hold(tx, csrProfileId), id)
    return { ...credentialBody({ ...made, account_name: null }), hmac_key: encodeBase64url(key) }
  })
}

function profilesAmong(known: readonly string[], names: readonly string[] | undefined): string[] | undefined {
  const unknown = names?.find((name) => !known.includes(name))
  if (unknown === undefined) return names && names.length > 0 ? [...new Set(names)] : undefined
  throw wrong('profiles', `names no profile of ca.profiles: ${JSON.stringify(unknown)}; there are ${known.join(', ')}`)
}

function networksOf(field: string, texts: readonly string[] | undefined): string[] | undefined {
  if (!texts || texts.length === 0) return undefined
  return texts.map((text) => {
    const normal = normalizeAllowedIdentifier('ip', text)
    if (!normal.ok) throw wrong(field, `${JSON.stringify(text)} ${normal.reason}`)
    return normal.value
  })
}

/** The widest private network (RFC 1918 §3) and the usual one of a provider (RIPE-738 §5.1); RFC 4193 gives a site /48. */
const WIDEST = { ipv4: 8, ipv6: 32 } as const

function requireNarrow(field: string, networks: readonly string[]): void {
  for (const network of networks) {
    const widest = network.includes(':') ? WIDEST.ipv6 : WIDEST.ipv4
    if (Number(network.split('/')[1] ?? widest) < widest)
      throw wrong(field, `${network} is too wide: a network without challenges has a prefix of at least /${widest}`)
  }
}

const wrong = (field: string, message: string) =>
  new AdminError('invalid_request', `'${field}' ${message}`, { fields: [{ field, message }] })

/** No key begins with `-` in base64url: certbot would take it for an option. */
export function drawMacKey(draw: () => Buffer = () => randomBytes(MAC_KEY_BYTES)): Buffer {
  let key = draw()
  while (encodeBase64url(key).startsWith('-')) key = draw()
  return key
}

function retag(audit: AuditLog, actor: Actor, id: string, tags: readonly string[]): Promise<CredentialRow> {
  const scope = scopeOf(actor)
  return audit.transaction(actor, async (tx, note) => {
    requireFound(await lockCredential(tx, id), 'credential')
    const before = await requireCredential(tx, id, scope)
    await requireMayTag(tx, scope, before, tags)
    if (tags.join() === before.tags.join()) return before
    await writeTags(tx, id, tags)
    note('eab.update', { eab_id: id, kid: before.kid, tags: { before: before.tags, after: tags } })
    return requireCredential(tx, id, scope)
  })
}

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
async function requireWithinScope(db: CommonQueryMethods, scope: Scope, wanted: WantedGrants): Promise<void> {
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
async function requireMayTag(
  db: CommonQueryMethods,
  scope: Scope,
  credential: CredentialRow,
  tags: readonly string[],
): Promise<void> {
  requireMayRetag(scope, credential.tags, tags)
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

const column = (identifiers: readonly AllowedIdentifier[], value: (one: AllowedIdentifier) => string) =>
  sql.array(identifiers.map(value), 'text')
