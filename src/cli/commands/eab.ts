/**
 * `chancery eab create` and `revoke`: credentials for external account binding (RFC 8555 §7.3.4).
 */

import type { Config } from '../../config/schema.ts'
import { normalizeAllowedIdentifier } from '../../domain/allowlist.ts'
import { eabSecretBox } from '../../main/settings/eab-secret.ts'
import { createEabCredential } from '../../services/external-accounts.ts'
import type { SecretBox } from '../../shared/lib/secret-box.ts'
import { isKid } from '../../shared/protocol/external-account-binding.ts'
import { createAllowlistStore } from '../../store/allowlist-store.ts'
import { createCsrProfileStore } from '../../store/csr-profile-store.ts'
import { createEabStore } from '../../store/eab-store.ts'
import { newIdentifiersOf } from './account.ts'
import { requireProfile } from './csr-profile.ts'
import { CommandError, UsageError } from './errors.ts'
import { withDatabase } from './operator-database.ts'

export interface NewCredentialOptions {
  kid: string | undefined
  label: string | undefined
  allow: readonly string[]
  csrProfile: string | undefined
  /** CA profiles; empty for all. */
  profiles: readonly string[]
  /** Networks; empty for none. */
  preapprove: readonly string[]
}

const MAX_LABEL = 255

/** Prints the HMAC key, which cannot be read again later. */
export async function createCredential(config: Config, options: NewCredentialOptions): Promise<number> {
  const kid = (options.kid ?? '').trim()
  if (!isKid(kid)) throw new UsageError('--kid takes a key id of 1 to 255 characters')
  if ((options.label ?? '').length > MAX_LABEL) throw new UsageError(`--label takes at most ${MAX_LABEL} characters`)
  const box = requireSecretBox(config)
  const identifiers = newIdentifiersOf(options.allow)
  const profiles = requireProfiles(config, options.profiles)
  const preapprovedNetworks = networksOf(options.preapprove)
  if (preapprovedNetworks && identifiers.length === 0)
    throw new UsageError('--preapprove needs --allow: only identifiers allowed to the credential are pre-approved')
  return withDatabase(config, async (db) => {
    const csrProfiles = createCsrProfileStore(db)
    const csrProfile =
      options.csrProfile === undefined ? undefined : await requireProfile(csrProfiles, options.csrProfile)
    const wanted = { kid, label: options.label, createdBy: undefined, profiles, preapprovedNetworks }
    const created = await createEabCredential(createEabStore(db), box, wanted, new Date())
    if (!created) throw new CommandError(`the kid ${JSON.stringify(kid)} is taken`)
    const { id } = created.credential
    if (identifiers.length > 0) await createAllowlistStore(db).allowToCredential(id, identifiers)
    if (csrProfile) await csrProfiles.assignToCredential(csrProfile.id, id)
    console.log(`kid       ${kid}`)
    console.log(`hmac_key  ${created.hmacKey}`)
    process.stderr.write('The HMAC key is not shown again.\n')
    return 0
  })
}

function requireProfiles({ ca }: Config, names: readonly string[]): string[] | undefined {
  const unknown = names.find((name) => !Object.hasOwn(ca.profiles, name))
  if (unknown === undefined) return names.length === 0 ? undefined : [...new Set(names)]
  throw new CommandError(
    `there is no profile ${JSON.stringify(unknown)} in ca.profiles (${Object.keys(ca.profiles).join(', ')})`,
  )
}

function networksOf(texts: readonly string[]): string[] | undefined {
  const networks = texts.map((text) => {
    const normal = normalizeAllowedIdentifier('ip', text)
    if (!normal.ok) throw new UsageError(`--preapprove: ${JSON.stringify(text)} ${normal.reason}`)
    return normal.value
  })
  return networks.length === 0 ? undefined : networks
}

export async function revokeCredential(config: Config, kid: string): Promise<number> {
  return withDatabase(config, async (db) => {
    const store = createEabStore(db)
    const found = await store.findByKid(kid)
    const revocation = found && (await store.revoke(found.id))
    if (!revocation) throw new CommandError(`there is no credential with the kid ${JSON.stringify(kid)}`)
    console.log(`${kid} is revoked`)
    for (const id of revocation.revokedAccounts) console.log(`account ${id} is revoked`)
    return 0
  })
}

function requireSecretBox(config: Config): SecretBox {
  const box = eabSecretBox(config)
  if (box) return box
  throw new CommandError(
    'there is no secret to store HMAC keys under; set acme.eab_key_file or admin_api.token_secret in the configuration',
  )
}
