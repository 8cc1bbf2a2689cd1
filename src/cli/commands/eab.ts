/**
 * `chancery eab create` and `revoke`: credentials for external account binding (RFC 8555 §7.3.4).
 */

import type { Config } from '../../config/schema.ts'
import { normalizeAllowedIdentifier } from '../../domain/allowlist.ts'
import { Credentials } from '../../services/admin/credentials.ts'
import { eabSecretBox } from '../../settings/eab-secret.ts'
import { UsageError } from '../../shared/command-line/options.ts'
import { isKid } from '../../shared/protocol/external-account-binding.ts'
import { CommandError } from '../values.ts'
import { type Administration, withAdministration } from './administration.ts'
import { requireCredential, requireProfile } from './grant-targets.ts'
import { identifiersOf } from './identifiers.ts'

export interface NewCredentialOptions {
  kid: string | undefined
  label: string | undefined
  allow: readonly string[]
  csrProfile: string | undefined
  /** CA profiles; empty for all. */
  profiles: readonly string[]
  /** Networks; empty for none. */
  preapprove: readonly string[]
  expires: Date | undefined
  maxUses: number | undefined
  /** Networks from which accounts register; empty for all. */
  from: readonly string[]
  json: boolean
}

const MAX_LABEL = 255

/** Prints the HMAC key, which cannot be read again later. */
export async function createCredential(config: Config, options: NewCredentialOptions): Promise<number> {
  const { label, expires: expiresAt, maxUses } = options
  const kid = (options.kid ?? '').trim()
  if (!isKid(kid)) throw new UsageError('--kid takes a key id of 1 to 255 characters')
  if ((label ?? '').length > MAX_LABEL) throw new UsageError(`--label takes at most ${MAX_LABEL} characters`)
  const identifiers = identifiersOf(options.allow)
  const profiles = requireProfiles(config, options.profiles)
  const preapprovedNetworks = networksOf('--preapprove', options.preapprove)
  if (preapprovedNetworks && identifiers.length === 0)
    throw new UsageError('--preapprove needs --allow: only identifiers allowed to the credential are pre-approved')
  const allowedNetworks = networksOf('--from', options.from)
  const { hmac_key, ...made } = await withAdministration(config, async (administration) => {
    const { db, actor } = administration
    const csrProfile = options.csrProfile === undefined ? undefined : await requireProfile(db, options.csrProfile)
    const rights = { identifiers, csrProfile, profiles, preapprovedNetworks }
    const wanted = { kid, label, expiresAt, maxUses, allowedNetworks, ...rights }
    return credentialsOf(config, administration).create(actor, wanted)
  })
  if (options.json) console.log(JSON.stringify({ id: made.id, kid, hmac_key }))
  else console.log(`kid       ${kid}\nhmac_key  ${hmac_key}`)
  process.stderr.write('The HMAC key is not shown again.\n')
  return 0
}

function credentialsOf(config: Config, { db, audit }: Administration): Credentials {
  return new Credentials({ db, audit, box: eabSecretBox(config), profiles: Object.keys(config.ca.profiles) })
}

function requireProfiles({ ca }: Config, names: readonly string[]): readonly string[] | undefined {
  const unknown = names.find((name) => !Object.hasOwn(ca.profiles, name))
  if (unknown === undefined) return names.length === 0 ? undefined : names
  throw new CommandError(
    `there is no profile ${JSON.stringify(unknown)} in ca.profiles (${Object.keys(ca.profiles).join(', ')})`,
  )
}

function networksOf(option: string, texts: readonly string[]): string[] | undefined {
  const networks = texts.map((text) => {
    const normal = normalizeAllowedIdentifier('ip', text)
    if (!normal.ok) throw new UsageError(`${option}: ${JSON.stringify(text)} ${normal.reason}`)
    return normal.value
  })
  return networks.length === 0 ? undefined : networks
}

export function revokeCredential(config: Config, kid: string, json: boolean): Promise<number> {
  return withAdministration(config, async (administration) => {
    const { id } = await requireCredential(administration.db, kid)
    const { revokedAccounts } = await credentialsOf(config, administration).revoke(administration.actor, id)
    if (json) console.log(JSON.stringify({ kid, revoked_accounts: revokedAccounts }))
    else {
      console.log(`${kid} is revoked`)
      for (const account of revokedAccounts) console.log(`account ${account} is revoked`)
    }
    return 0
  })
}
