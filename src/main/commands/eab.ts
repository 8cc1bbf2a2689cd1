/** `chancery eab create`, `list` and `revoke`: credentials of external account binding (RFC 8555 §7.3.4). */

import type { Config } from '../../config/schema.ts'
import type { SecretBox } from '../../lib/secret-box.ts'
import { isKid } from '../../protocol/external-account-binding.ts'
import { createEabCredential } from '../../services/external-accounts.ts'
import { createAllowlistStore } from '../../store/allowlist-store.ts'
import { createCsrProfileStore } from '../../store/csr-profile-store.ts'
import { createEabStore, type EabCredential } from '../../store/eab-store.ts'
import { eabSecretBox } from '../settings.ts'
import { newIdentifiersOf } from './account.ts'
import { CommandError } from './config-file.ts'
import { requireProfile } from './csr-profile.ts'
import { withDatabase } from './operator-database.ts'

export interface NewCredentialOptions {
  kid: string | undefined
  label: string | undefined
  allow: readonly string[]
  csrProfile: string | undefined
}

const MAX_LABEL = 255

/** Prints the HMAC key: the one time that it can be read. */
export async function createCredential(config: Config, options: NewCredentialOptions): Promise<number> {
  const kid = (options.kid ?? '').trim()
  if (!isKid(kid)) throw new CommandError('--kid takes a key id of 1 to 255 characters')
  if ((options.label ?? '').length > MAX_LABEL) throw new CommandError(`--label takes at most ${MAX_LABEL} characters`)
  const box = requireSecretBox(config)
  const identifiers = newIdentifiersOf(options.allow)
  return withDatabase(config, async (db) => {
    const profiles = createCsrProfileStore(db)
    const profile = options.csrProfile === undefined ? undefined : await requireProfile(profiles, options.csrProfile)
    const wanted = { kid, label: options.label, createdBy: undefined }
    const created = await createEabCredential(createEabStore(db), box, wanted, new Date())
    if (!created) throw new CommandError(`the kid ${JSON.stringify(kid)} is taken`)
    const { id } = created.credential
    if (identifiers.length > 0) await createAllowlistStore(db).allowToCredential(id, identifiers)
    if (profile) await profiles.assignToCredential(profile.id, id)
    console.log(`kid       ${kid}`)
    console.log(`hmac_key  ${created.hmacKey}`)
    process.stderr.write('The HMAC key is not shown again.\n')
    return 0
  })
}

export async function listCredentials(config: Config): Promise<number> {
  return withDatabase(config, async (db) => {
    const credentials = await createEabStore(db).list()
    for (const credential of credentials) console.log(describe(credential))
    if (credentials.length === 0) console.log('there are no binding credentials')
    return 0
  })
}

function describe({ kid, label, accountId, used, usedAt, revoked, createdAt }: EabCredential): string {
  const state = revoked ? 'revoked' : used ? 'used' : 'unused'
  const facts = [
    `made ${createdAt.toISOString()}`,
    ...(usedAt ? [`used ${usedAt.toISOString()}`] : []),
    ...(accountId ? [`account ${accountId}`] : []),
    ...(label ? [JSON.stringify(label)] : []),
  ]
  return `${state.padEnd(7)}  ${kid}  ${facts.join('  ')}`
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
