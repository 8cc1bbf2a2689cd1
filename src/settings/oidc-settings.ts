/** Settings of sign-in by OpenID Connect. */

import path from 'node:path'
import type { Config } from '../config/schema.ts'
import type { ClaimRules } from '../domain/oidc-claims.ts'
import { adminSettings } from './admin-settings.ts'

export interface OidcSettings extends ClaimRules {
  clientId: string
  clientSecret: string | undefined
  /** Undefined: by the metadata of the provider. */
  tokenEndpointAuthMethod: 'client_secret_basic' | 'client_secret_post' | undefined
  /** On the button. */
  name: string
  scopes: readonly string[]
  /** Of the console, to which the provider sends the browser back. */
  redirectUri: string
  /** PEM of the authorities that the provider's certificate is checked with; the system's when undefined. */
  caFile: string | undefined
}

export function oidcSettings(config: Config): OidcSettings | undefined {
  const { oidc } = config.admin_api
  if (oidc === null) return undefined
  return {
    issuer: oidc.issuer,
    clientId: oidc.client_id,
    clientSecret: oidc.client_secret ?? undefined,
    tokenEndpointAuthMethod: oidc.token_endpoint_auth_method ?? undefined,
    name: oidc.name,
    scopes: oidc.scopes,
    usernameClaim: oidc.username_claim,
    groupsClaim: oidc.groups_claim,
    roles: oidc.roles,
    redirectUri: adminSettings(config).consoleUrl,
    caFile: oidc.ca_file === null ? undefined : path.resolve(oidc.ca_file),
  }
}
