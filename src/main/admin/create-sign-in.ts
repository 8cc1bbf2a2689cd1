/** Ways to sign in beside the password, where the configuration has what they need. */

import { Challenges } from '../../admin/users/challenges.ts'
import { type OidcOptions, OidcSignIn } from '../../admin/users/oidc-sign-in.ts'
import { type PasskeyOptions, Passkeys } from '../../admin/users/passkeys.ts'
import type { Config } from '../../config/schema.ts'
import { adminSettings, oidcSettings } from '../../settings/admin-settings.ts'
import { canHavePasskeys } from '../../shared/lib/host.ts'
import { createSecretBox } from '../../shared/lib/secret-box.ts'

type Secret = { tokenSecret: string }

export function createOidc(
  config: Config,
  { tokenSecret, ...parts }: Omit<OidcOptions, 'settings' | 'box'> & Secret,
): OidcSignIn | undefined {
  const settings = oidcSettings(config)
  return settings && new OidcSignIn({ ...parts, settings, box: createSecretBox(tokenSecret, 'chancery: oidc state') })
}

/** Undefined where browsers have none. */
export function createPasskeys(
  config: Config,
  { tokenSecret, ...parts }: Pick<PasskeyOptions, 'db' | 'audit' | 'signIn'> & Secret,
): Passkeys | undefined {
  const { consoleUrl, requireSecondFactor } = adminSettings(config)
  if (!canHavePasskeys(consoleUrl)) return undefined
  const { origin, hostname } = new URL(consoleUrl)
  const challenges = new Challenges(createSecretBox(tokenSecret, 'chancery: webauthn challenge'))
  return new Passkeys({ ...parts, challenges, origin, rpId: hostname, isRequired: requireSecondFactor })
}
