/** Sign-in by OpenID Connect, where it is configured. */

import { type OidcOptions, OidcSignIn } from '../../admin/users/oidc-sign-in.ts'
import type { Config } from '../../config/schema.ts'
import { oidcSettings } from '../../settings/oidc-settings.ts'
import { createSecretBox } from '../../shared/lib/secret-box.ts'

export function createOidc(
  config: Config,
  { tokenSecret, ...parts }: Omit<OidcOptions, 'settings' | 'box'> & { tokenSecret: string },
): OidcSignIn | undefined {
  const settings = oidcSettings(config)
  return settings && new OidcSignIn({ ...parts, settings, box: createSecretBox(tokenSecret, 'chancery: oidc state') })
}
