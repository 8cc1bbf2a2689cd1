/** Settings of the Admin API, for its thread, the fronts and the command line; and of sign-in by OpenID Connect. */

import { hkdfSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { OidcSettings } from '../admin/users/oidc-provider.ts'
import { connectionsFor } from '../config/connections.ts'
import type { Config } from '../config/schema.ts'
import type { ApprovalPolicy } from '../domain/approval.ts'
import { describeFileError } from '../shared/lib/errors.ts'
import { secretIn } from '../shared/lib/secret-box.ts'
import { externalPathOf } from '../shared/protocol/urls.ts'
import type { DatabaseSettings } from '../store/database.ts'
import { databaseSettings } from './server-settings.ts'

/** A shorter file is a mistake, such as a truncated one. */
const MIN_KEY_BYTES = 32

/** @throws Error in one sentence when the key of the audit log cannot be read */
export function adminSettings(config: Config) {
  const { admin_api, server } = config
  const basePath = withoutSlash(admin_api.base_path)
  return {
    basePath,
    externalPath: externalPathOf(server.external_url),
    /** Absolute, for links. */
    baseUrl: `${withoutSlash(server.external_url)}${basePath}`,
    maxBodyBytes: admin_api.max_body_bytes,
    pages: { defaultSize: admin_api.default_page_size, maxSize: admin_api.max_page_size },
    tokenSecret: admin_api.token_secret ?? '',
    tokenExpirySeconds: admin_api.token_expiry_seconds,
    passwordLength: admin_api.password_length,
    recentSignInSeconds: admin_api.recent_sign_in_seconds,
    requireSecondFactor: admin_api.require_second_factor,
    /** Absolute, in browsers. */
    consoleUrl: admin_api.console_url ?? `${withoutSlash(server.external_url)}${basePath}/console/`,
    confirmAbove: admin_api.bulk_revoke_confirm_above ?? Number.POSITIVE_INFINITY,
  }
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

export function approvalPolicy({ admin_api: { approvals } }: Config): ApprovalPolicy {
  return {
    bulkRevocationAbove: approvals.bulk_revocation_above ?? undefined,
    resumeSigning: approvals.resume_signing,
    userChanges: approvals.user_changes,
    newNames: approvals.new_names,
    expireAfterHours: approvals.expire_after_hours,
  }
}

/** The key of the audit log's chain: a file's, or derived from `admin_api.token_secret`. */
export function auditKeyOf({ admin_api }: Config): Buffer | undefined {
  const { audit_key_file: file, token_secret: secret } = admin_api
  if (file !== null) return readAuditKey(path.resolve(file))
  return secret === null ? undefined : Buffer.from(hkdfSync('sha256', secret, '', 'chancery: audit log', MIN_KEY_BYTES))
}

/** @throws Error when there is neither */
export function requireAuditKey(config: Config): Buffer {
  const key = auditKeyOf(config)
  if (key) return key
  throw new Error('there is no key for the audit log; set admin_api.token_secret or admin_api.audit_key_file')
}

function readAuditKey(file: string): Buffer {
  let key: Buffer
  try {
    key = secretIn(readFileSync(file))
  } catch (cause) {
    throw new Error(`admin_api.audit_key_file: ${file}: cannot be read: ${describeFileError(cause)}`, { cause })
  }
  if (key.length >= MIN_KEY_BYTES) return key
  throw new Error(`admin_api.audit_key_file: ${file} has ${key.length} bytes; it needs at least ${MIN_KEY_BYTES}`)
}

/** TLS files of `admin_api.listen`; undefined for plain HTTP. */
export function adminTls({ admin_api: { listen } }: Config): { certPath: string; keyPath: string } | undefined {
  if (!listen || listen.cert_file === null || listen.key_file === null) return undefined
  return { certPath: path.resolve(listen.cert_file), keyPath: path.resolve(listen.key_file) }
}

export function adminDatabaseSettings(config: Config): DatabaseSettings {
  return { ...databaseSettings(config, connectionsFor(config, 'admin')), requireCompared: () => true }
}

const withoutSlash = (text: string) => text.replace(/\/$/, '')
