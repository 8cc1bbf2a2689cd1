/** Rules for CRLs, mail, CT logs, the Admin API and registered hooks. */

import { isOfManyTenants } from '../../domain/oidc-claims.ts'
import { isScoped, SCOPE_RULE } from '../../domain/permissions.ts'
import { canHavePasskeys, hostOf } from '../../shared/lib/host.ts'
import { signerBackend } from '../backends.ts'
import { hookClassOf, readWebhookConfig } from '../hook-class.ts'
import { ABSENT_KEY, type Config } from '../schema.ts'
import { atMost, type Misplaced, not, type Rule, required } from './rule.ts'

const MIN_TOKEN_SECRET = 16
const withoutSlash = (path: string) => path.replace(/\/+$/, '')

/** A path of another interface that the Admin API would answer instead. */
function pathBelowAdminApi({ admin_api, api, acme, ari, crl, metrics }: Config): string | undefined {
  const below = `${withoutSlash(admin_api.base_path)}/`
  const base = withoutSlash(api.base_path)
  const paths = [
    ...Object.values(acme.paths),
    ari.path,
    crl.path,
    ...(api.roots_path === null ? [] : [api.roots_path]),
  ].map((path) => `${base}${path}`)
  // Another rule reports equal base paths.
  if (`${base}/` === below) return undefined
  return [...paths, ...acme.directory_aliases, metrics.path].find((path) => `${path}/`.startsWith(below))
}

const isHeardByNobody = (url: string) =>
  url.startsWith('https:') || ['localhost', '127.0.0.1', '::1'].includes(hostOf(url))

export const CRL: readonly Rule[] = [
  not(
    'crl.enabled',
    ['ca.backend', 'ca.failover.backends', 'ca.profiles'],
    (c) => c.crl.enabled && signerBackend(c.ca) === undefined,
    'is true, but only the backends internal and hsm sign a CRL, and none of them is used',
  ),
  not(
    'crl.next_update_seconds',
    ['crl.rebuild_interval_seconds'],
    (c) => c.crl.enabled && c.crl.next_update_seconds <= c.crl.rebuild_interval_seconds,
    'must be more than crl.rebuild_interval_seconds, or each list runs out before the next',
  ),
  not(
    'crl.http_port',
    ['server.port'],
    (c) => c.crl.http_port === c.server.port,
    'is server.port; the lists over plain HTTP need a port of their own',
  ),
  not(
    'ca.crl_url',
    ['crl.enabled', 'crl.shards'],
    (c) => c.crl.enabled && c.crl.shards > 1 && c.ca.crl_url !== null && !c.ca.crl_url.includes('{crl}'),
    'must contain {crl}, because crl.shards makes lists of several names',
  ),
  not(
    'crl.complete',
    ['crl.shards'],
    (c) => !c.crl.complete && c.crl.shards === 1,
    'is false, which needs crl.shards above 1: the complete list is the only one',
  ),
]

/** Another resource below `api.base_path` with the same path, or with all paths below its own. */
function resourceAt(wanted: string, { acme, ari, crl }: Config): boolean {
  const above = [...(ari.enabled ? [ari.path] : []), ...(crl.enabled ? [crl.path] : [])]
  return Object.values(acme.paths).includes(wanted) || above.some((path) => `${wanted}/`.startsWith(`${path}/`))
}

export const ROOTS: readonly Rule[] = [
  not(
    'api.roots_path',
    ['acme.paths', 'ari.path', 'crl.path'],
    (c) => c.api.roots_path !== null && resourceAt(c.api.roots_path, c),
    (c) => `is ${c.api.roots_path}, where another resource is; it needs a path of its own`,
  ),
  required(
    'api.roots_file',
    (c) => c.api.roots_path !== null && signerBackend(c.ca) === undefined,
    'api.roots_path knows the roots of the backends internal and hsm only, and none of them is used',
    ['api.roots_path', 'ca.backend', 'ca.failover.backends', 'ca.profiles'],
  ),
]

export const OPERATIONS: readonly Rule[] = [
  required(
    'retention.archive_dir',
    (c) => c.retention.certificates_days_after_expiry !== null,
    'retention.certificates_days_after_expiry needs a folder for what it deletes',
    ['retention.certificates_days_after_expiry'],
  ),
  required('smtp.host', (c) => c.smtp.enabled, 'smtp.enabled needs a mail server', ['smtp.enabled']),
  required('smtp.from_address', (c) => c.smtp.enabled, 'smtp.enabled needs a sender', ['smtp.enabled']),
  not(
    'ct_logging.logs',
    ['ct_logging.enabled'],
    (c) => c.ct_logging.enabled && c.ct_logging.logs.length === 0,
    'is empty; ct_logging.enabled needs at least one log',
  ),
  not(
    ABSENT_KEY,
    [],
    (c) => c.ct_logging.enabled && c.ct_logging.submit_precert,
    'to embed timestamps, the signer would have to sign each certificate twice, which is not available in this version; set it to false, and certificates are submitted once they are issued',
  ),
  required(
    'admin_api.initial_admin_email',
    (c) => c.admin_api.enabled,
    'admin_api.enabled needs the address of the first administrator',
    ['admin_api.enabled'],
  ),
  required(
    'admin_api.token_secret',
    (c) => c.admin_api.enabled,
    `admin_api.enabled needs a secret of at least ${MIN_TOKEN_SECRET} bytes`,
    ['admin_api.enabled'],
  ),
  not(
    'admin_api.oidc.issuer',
    [],
    ({ admin_api: { oidc } }) => oidc !== null && !isHeardByNobody(oidc.issuer),
    'is plain http to another machine: who listens there could sign in as anybody; use https',
  ),
  not(
    'admin_api.oidc.issuer',
    [],
    ({ admin_api: { oidc } }) => oidc !== null && isOfManyTenants(oidc.issuer),
    'stands for every tenant of Microsoft, and anybody can make one; write the issuer of your own: https://login.microsoftonline.com/TENANT-ID/v2.0',
  ),
  not(
    'admin_api.require_second_factor',
    ['admin_api.console_url', 'admin_api.oidc'],
    ({ admin_api, server }) =>
      admin_api.require_second_factor &&
      admin_api.oidc === null &&
      !canHavePasskeys(admin_api.console_url ?? server.external_url),
    'is true while the console is at an address or without https, where there are no passkeys, and no provider is configured: nobody could sign in; set admin_api.console_url to https at a host name',
  ),
  not(
    'metrics.auth_required',
    ['admin_api.enabled'],
    (c) => c.metrics.auth_required && !c.admin_api.enabled,
    'is true while admin_api.enabled is false; nothing would give or check a token: set admin_api.enabled, token_secret and initial_admin_email, or auth_required to false and keep strangers from metrics.path at the proxy',
  ),
  not(
    'admin_api.token_secret',
    [],
    (c) => c.admin_api.token_secret !== null && Buffer.byteLength(c.admin_api.token_secret) < MIN_TOKEN_SECRET,
    `is too short; must have at least ${MIN_TOKEN_SECRET} bytes`,
  ),
  not(
    'admin_api.base_path',
    ['admin_api.enabled', 'api.base_path'],
    (c) => c.admin_api.enabled && withoutSlash(c.admin_api.base_path) === withoutSlash(c.api.base_path),
    'is the same as api.base_path; the two interfaces need paths of their own',
  ),
  not(
    'admin_api.base_path',
    ['admin_api.enabled'],
    (c) => c.admin_api.enabled && pathBelowAdminApi(c) !== undefined,
    (c) => `would hide ${pathBelowAdminApi(c)}, which lies below it`,
  ),
  {
    path: 'admin_api.oidc',
    check({ admin_api }) {
      const at = admin_api.oidc?.roles.findIndex(({ role, scope }) => isScoped(role) !== scope.length > 0) ?? -1
      return at === -1 ? undefined : { path: `admin_api.oidc.roles[${at}].scope`, message: SCOPE_RULE }
    },
  },
  atMost('admin_api.default_page_size', 'admin_api.max_page_size'),
]

type Hook = Config['hooks']['registered'][number]

export const HOOKS: readonly Rule[] = [
  {
    path: 'hooks.registered',
    check: ({ hooks }) =>
      hooks.registered.flatMap((hook, place) => (hook.enabled ? (wrongWith(hook, place) ?? []) : []))[0],
  },
]

function wrongWith(hook: Hook, place: number): Misplaced | undefined {
  const named = hookClassOf(hook.class)
  if (named.kind === 'unusable') return { path: `hooks.registered[${place}].class`, message: named.why }
  if (named.kind !== 'webhook') return undefined
  const read = readWebhookConfig(hook.config)
  return typeof read === 'string' ? { path: `hooks.registered[${place}].config`, message: read } : undefined
}
