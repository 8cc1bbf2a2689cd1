/** Binding credentials (RFC 8555 §7.3.4): create, look at, revoke with all that hangs on them. */

import { randomBytes } from 'node:crypto'
import type { DatabasePool } from 'slonik'
import { AdminError, notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { normalizeAllowedIdentifier } from '../../domain/allowlist.ts'
import { encodeBase64url } from '../../shared/lib/encoding.ts'
import type { SecretBox } from '../../shared/lib/secret-box.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import {
  type Cascade,
  type CredentialRow,
  findCredential,
  insertCredential,
  previewRevocation,
  type Revocation,
  revokeCredential,
} from '../../store/credential-store.ts'
import { type CredentialStatus, pagesOfCredentials } from '../../store/eab-list.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { type PageOfList, type PageRequest, readPageOf } from '../list-pages.ts'
import { grantProfile, requireHeld } from '../profiles/csr-profiles.ts'
import { grantNames, readIdentifiers } from './allowed-identifiers.ts'

export interface CredentialsOptions {
  db: DatabasePool
  audit: AuditLog
  /** Undefined without a configured secret: then there are no credentials. */
  box(): SecretBox | undefined
  /** Names of `ca.profiles`. */
  profiles: readonly string[]
  events?: CredentialEvents
}

export interface CredentialEvents {
  accountsRevoked(count: number): void
}

export interface WantedCredential {
  kid: string
  label?: string | undefined
  /** CA profiles its accounts may order, the one for orders without a choice first; undefined for all. */
  profiles?: readonly string[] | undefined
  /** Networks from which allowed identifiers need no challenge. */
  preapprovedNetworks?: readonly string[] | undefined
  expiresAt?: Date | undefined
  /** Accounts that may register with it; undefined leaves it to `acme.eab_reusable`. */
  maxUses?: number | undefined
  /** Networks from which accounts may register with it. */
  allowedNetworks?: readonly string[] | undefined
  /** As typed. */
  identifiers?: readonly string[] | undefined
  csrProfileId?: string | undefined
}

/** The key is in this value only; nothing can read it again. */
export type CredentialWithKey = CredentialRow & { hmac_key: string }

/** 256 bits, the size of the MAC's own state. */
const MAC_KEY_BYTES = 32

export class Credentials {
  readonly #options: CredentialsOptions

  constructor(options: CredentialsOptions) {
    this.#options = options
  }

  list(request: PageRequest, kid?: string, status?: CredentialStatus): Promise<PageOfList<CredentialRow>> {
    return readPageOf(pagesOfCredentials(this.#options.db, kid, status), request)
  }

  async find(id: string): Promise<CredentialRow> {
    return (await findCredential(this.#options.db, id)) ?? Promise.reject(notFound('credential'))
  }

  async create(actor: Actor, wanted: WantedCredential): Promise<CredentialWithKey> {
    const { audit } = this.#options
    const { kid, label, csrProfileId } = wanted
    const identifiers = readIdentifiers('allowed_identifiers', wanted.identifiers ?? [])
    const box = this.#requireBox()
    const profiles = this.#knownProfiles(wanted.profiles)
    const preapprovedNetworks = networksOf('preapproved_networks', wanted.preapprovedNetworks)
    const allowedNetworks = networksOf('allowed_networks', wanted.allowedNetworks)
    const id = uuidv7(Date.now())
    const key = drawMacKey()
    const { expiresAt, maxUses } = wanted
    const facts = { id, kid, label, profiles, preapprovedNetworks, expiresAt, maxUses, allowedNetworks }
    return audit.transaction(actor, async (tx, note) => {
      const made = await insertCredential(tx, { ...facts, sealedKey: box.seal(key, id), createdBy: actor.userId })
      if (!made) throw new AdminError('conflict', `the kid ${JSON.stringify(kid)} is taken`)
      note('eab.create', { eab_id: id, kid, label })
      await grantNames(tx, note, actor, id, identifiers)
      if (csrProfileId !== undefined) await grantProfile(tx, note, actor, id, await requireHeld(tx, csrProfileId))
      return { ...made, hmac_key: encodeBase64url(key) }
    })
  }

  /** What `revoke` would take with it now. */
  async cascade(id: string): Promise<Cascade> {
    await this.find(id)
    return previewRevocation(this.#options.db, id)
  }

  /** With its accounts and their authorizations. May be repeated; each time is audited. */
  async revoke(actor: Actor, id: string): Promise<Revocation> {
    const { audit, events } = this.#options
    const revocation = await audit.transaction(actor, async (tx, note) => {
      const revocation = await revokeCredential(tx, id)
      if (!revocation) throw notFound('credential')
      const { credential, linkedAccounts, revokedAccounts } = revocation
      note('eab.revoke', {
        eab_id: id,
        kid: credential.kid,
        linked_accounts: linkedAccounts,
        revoked_accounts: revokedAccounts,
      })
      return revocation
    })
    events?.accountsRevoked(revocation.revokedAccounts.length)
    return revocation
  }

  #requireBox(): SecretBox {
    const box = this.#options.box()
    if (box) return box
    throw new AdminError(
      'unavailable',
      'there is no secret to store HMAC keys under; set acme.eab_key_file or admin_api.token_secret in the configuration',
    )
  }

  #knownProfiles(names: readonly string[] | undefined): string[] | undefined {
    const known = this.#options.profiles
    const unknown = names?.find((name) => !known.includes(name))
    if (unknown === undefined) return names && names.length > 0 ? [...new Set(names)] : undefined
    throw wrong(
      'profiles',
      `names no profile of ca.profiles: ${JSON.stringify(unknown)}; there are ${known.join(', ')}`,
    )
  }
}

function networksOf(field: string, texts: readonly string[] | undefined): string[] | undefined {
  if (!texts || texts.length === 0) return undefined
  return texts.map((text) => {
    const normal = normalizeAllowedIdentifier('ip', text)
    if (!normal.ok) throw wrong(field, `${JSON.stringify(text)} ${normal.reason}`)
    return normal.value
  })
}

const wrong = (field: string, message: string) =>
  new AdminError('invalid_request', `'${field}' ${message}`, { fields: [{ field, message }] })

/** No key begins with `-` in base64url: certbot would take it for an option. */
export function drawMacKey(draw: () => Buffer = () => randomBytes(MAC_KEY_BYTES)): Buffer {
  let key = draw()
  while (encodeBase64url(key).startsWith('-')) key = draw()
  return key
}
