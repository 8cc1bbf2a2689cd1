/** Errors between several keys: a table of pure functions over the finished values. */

import { caaIdentities, issuerDomainNames } from './issuer-names.ts'
import type { Config } from './schema.ts'

/** Whether the file sets the key; null and an empty text do not count. */
export type IsSet = (path: string) => boolean

export interface Rule {
  /** The key that the message names. */
  path: string
  /** Further keys that the rule reads. A rule is skipped while one of its keys has an error. */
  reads?: readonly string[]
  /** Whether the rule is suspended with --dev. */
  inDevelopment?: true
  /** @returns a sentence with the error and its remedy; undefined without an error */
  check(config: Config, isSet: IsSet): string | undefined
}

const required = (
  path: string,
  needed: (c: Config) => boolean,
  value: (c: Config) => unknown,
  why: string,
  reads: string[],
): Rule => ({
  path,
  reads,
  check: (c) => (needed(c) && (value(c) === null || value(c) === '') ? `is missing; ${why}` : undefined),
})

const not = (
  path: string,
  reads: readonly string[],
  wrong: (c: Config) => boolean,
  message: string | ((c: Config) => string),
  accepted: Pick<Rule, 'inDevelopment'> = {},
): Rule => ({
  path,
  ...accepted,
  reads,
  check: (c) => (wrong(c) ? (typeof message === 'string' ? message : message(c)) : undefined),
})

const withoutSlash = (path: string) => path.replace(/\/+$/, '')
const ownKey = (c: Config) => c.ca.backend === 'internal' && c.ca.signer.socket === null
const proxied = (c: Config) => c.ca.backend === 'acme_proxy'
/** A separate signer has the token in its own configuration. */
const token = (c: Config) => c.ca.backend === 'hsm' && c.ca.signer.socket === null
const TOKEN_READS = ['ca.backend', 'ca.signer.socket']
const persists = (c: Config) => c.challenges.enabled.includes('dns-persist-01')
const OWN_KEY = 'ca.backend internal needs it, or ca.signer.socket in its place'
const MIN_TOKEN_SECRET = 16

const SERVER: Rule[] = [
  not(
    'server.external_url',
    [],
    (c) => c.server.external_url.endsWith('/'),
    'ends with a slash; leave the final slash out',
  ),
  required(
    'server.tls.key_path',
    (c) => c.server.tls.cert_path !== null,
    (c) => c.server.tls.key_path,
    'server.tls.cert_path needs it',
    ['server.tls.cert_path'],
  ),
  required(
    'server.tls.cert_path',
    (c) => c.server.tls.key_path !== null,
    (c) => c.server.tls.cert_path,
    'server.tls.key_path needs it',
    ['server.tls.key_path'],
  ),
  not(
    'server.tls.self_issued_names',
    ['server.tls.cert_path', 'server.tls.key_path'],
    (c) => c.server.tls.self_issued_names.length > 0 && c.server.tls.cert_path === null,
    'needs server.tls.cert_path and key_path: the files into which the service writes the certificate it issues to itself',
  ),
  not(
    'proxy.trusted_proxies',
    ['proxy.enabled'],
    (c) => c.proxy.enabled && c.proxy.trusted_proxies.length === 0,
    'is empty; proxy.enabled needs at least one trusted address or network',
  ),
  not(
    'database.min_connections',
    ['database.max_connections'],
    (c) => c.database.min_connections > c.database.max_connections,
    (c) =>
      `is ${c.database.min_connections}; must be at most database.max_connections, which is ${c.database.max_connections}`,
  ),
]

const ACME: Rule[] = [
  not(
    'security.min_rsa_key_size',
    ['security.max_rsa_key_size'],
    (c) => c.security.min_rsa_key_size > c.security.max_rsa_key_size,
    (c) =>
      `is ${c.security.min_rsa_key_size}; must be at most security.max_rsa_key_size, which is ${c.security.max_rsa_key_size}`,
  ),
  not(
    'acme.eab_required',
    ['acme.eab_key_file', 'admin_api.token_secret'],
    (c) => c.acme.eab_required && c.acme.eab_key_file === null && c.admin_api.token_secret === null,
    'is true, and there is no secret to store binding credentials under; set acme.eab_key_file or admin_api.token_secret',
  ),
  {
    path: 'acme.caa_enforce',
    reads: ['acme.caa_identities'],
    check: (c, isSet) =>
      isSet('acme.caa_enforce') && c.acme.caa_enforce && c.acme.caa_identities.length === 0
        ? 'is true, and acme.caa_identities is empty: no record could permit this service; list its issuer domain names there'
        : undefined,
  },
  {
    path: 'acme.paths',
    check(c) {
      const paths = Object.values(c.acme.paths)
      const twice = paths.find((path, index) => paths.indexOf(path) !== index)
      return twice === undefined ? undefined : `gives ${twice} to two resources; each needs a path of its own`
    },
  },
  not(
    'challenges.dnspersist01.issuer_domain_names',
    ['challenges.enabled', 'acme.caa_identities', 'server.external_url'],
    (c) => persists(c) && issuerDomainNames(c).length === 0,
    'is empty, and the host of server.external_url is no domain name; dns-persist-01 needs at least one issuer domain name',
  ),
  {
    path: 'challenges.dnspersist01.issuer_domain_names',
    reads: ['challenges.enabled', 'challenges.dnspersist01.draft', 'acme.caa_identities'],
    // draft-ietf-acme-dns-persist-02 §3.2: clients refuse such a challenge.
    check(c) {
      const identities = caaIdentities(c.acme.caa_identities)
      if (!persists(c) || c.challenges.dnspersist01.draft === '01' || identities.length === 0) return undefined
      const strange = issuerDomainNames(c).find((name) => !identities.includes(name))
      return strange && `has ${strange}, which acme.caa_identities lacks; draft 02 wants every name in both`
    },
  },
  not(
    'challenges.auto_accept',
    ['security.identifier_policy.enforce_account_allowlist'],
    (c) => c.challenges.auto_accept && !c.security.identifier_policy.enforce_account_allowlist,
    'is true: anybody would get any certificate; enable security.identifier_policy.enforce_account_allowlist, validate, or try things out with --dev',
    { inDevelopment: true },
  ),
  {
    path: 'challenges.perspectives',
    reads: ['challenges.enabled'],
    check: ({ challenges: { perspectives, enabled } }) => {
      const alone = enabled.find((type) => type === 'dns-persist-01' || type.startsWith('ext:'))
      if (perspectives.length === 0 || alone === undefined) return undefined
      return `cannot corroborate ${alone}, for which the Open MPIC API has no name; take it out of challenges.enabled`
    },
  },
  {
    path: 'challenges.perspectives',
    check({ challenges: { perspectives } }) {
      const names = perspectives.map(({ name }) => name)
      const twice = names.find((name, index) => names.indexOf(name) !== index)
      if (twice !== undefined) return `has two perspectives with the name ${twice}; each needs its own`
      const urls = perspectives.map(({ url }) => perspectiveUrl(url))
      const again = perspectives.find((_, index) => urls.indexOf(urls[index] as string) !== index)
      if (again) return `has the URL of ${again.name} twice: one perspective may have one vote (BR 3.2.2.9)`
      const open = perspectives.find(({ token, client_cert_path }) => token === null && client_cert_path === null)
      if (open) return `has no way to show ${open.name} who asks; give token, or client_cert_path and client_key_path`
      const half = perspectives.find((one) => (one.client_cert_path === null) !== (one.client_key_path === null))
      return half && `has only one of client_cert_path and client_key_path for ${half.name}`
    },
  },
  not(
    'challenges.corroboration.max_non_corroborations',
    ['challenges.perspectives'],
    ({ challenges: { perspectives, corroboration } }) =>
      perspectives.length > 0 && (corroboration.max_non_corroborations ?? 0) >= perspectives.length,
    'leaves nobody who must corroborate; must be less than the number of perspectives',
  ),
  not(
    'challenges.corroboration.min_regions',
    ['challenges.perspectives'],
    ({ challenges: { perspectives, corroboration } }) =>
      perspectives.length > 0 && new Set(perspectives.map(({ region }) => region)).size < corroboration.min_regions,
    'is more than the perspectives have regions, so nothing could be corroborated',
  ),
  not(
    'challenges.backoff_base_seconds',
    ['challenges.backoff_max_seconds'],
    (c) => c.challenges.backoff_base_seconds > c.challenges.backoff_max_seconds,
    (c) =>
      `is ${c.challenges.backoff_base_seconds}; must be at most challenges.backoff_max_seconds, which is ${c.challenges.backoff_max_seconds}`,
  ),
  required(
    'tos.url',
    (c) => c.tos.require_agreement,
    (c) => c.tos.url,
    'tos.require_agreement needs terms to agree to',
    ['tos.require_agreement'],
  ),
  not(
    'tos.version',
    ['tos.require_agreement'],
    (c) => c.tos.version !== null && !c.tos.require_agreement,
    'is set, but tos.require_agreement is false; switch it on, or leave the version out',
  ),
]

const CA: Rule[] = [
  required('ca.internal.root_cert_path', ownKey, (c) => c.ca.internal.root_cert_path, OWN_KEY, [
    'ca.backend',
    'ca.signer.socket',
  ]),
  required('ca.internal.root_key_path', ownKey, (c) => c.ca.internal.root_key_path, OWN_KEY, [
    'ca.backend',
    'ca.signer.socket',
  ]),
  required(
    'ca.signer.secret_file',
    (c) => c.ca.signer.socket !== null,
    (c) => c.ca.signer.secret_file,
    'ca.signer.socket needs the secret that the signer asks for',
    ['ca.signer.socket'],
  ),
  required(
    'ca.acme_proxy.directory_url',
    proxied,
    (c) => c.ca.acme_proxy.directory_url,
    'ca.backend acme_proxy needs it',
    ['ca.backend'],
  ),
  required('ca.acme_proxy.email', proxied, (c) => c.ca.acme_proxy.email, 'ca.backend acme_proxy needs it', [
    'ca.backend',
  ]),
  required(
    'ca.acme_proxy.challenge_handler',
    proxied,
    (c) => c.ca.acme_proxy.challenge_handler,
    'ca.backend acme_proxy needs it',
    ['ca.backend'],
  ),
  required(
    'ca.external.sign_url',
    (c) => c.ca.backend === 'external',
    (c) => c.ca.external.sign_url,
    'ca.backend external needs it',
    ['ca.backend'],
  ),
  required('ca.hsm.pkcs11_library', token, (c) => c.ca.hsm.pkcs11_library, 'ca.backend hsm needs it', TOKEN_READS),
  required(
    'ca.hsm.token_label',
    (c) => token(c) && c.ca.hsm.slot_id === null,
    (c) => c.ca.hsm.token_label,
    'ca.backend hsm needs it, or slot_id in its place',
    [...TOKEN_READS, 'ca.hsm.slot_id'],
  ),
  required(
    'ca.hsm.key_label',
    (c) => token(c) && c.ca.hsm.key_id === null,
    (c) => c.ca.hsm.key_label,
    'ca.backend hsm needs it, or key_id in its place',
    [...TOKEN_READS, 'ca.hsm.key_id'],
  ),
  required('ca.hsm.issuer_cert_path', token, (c) => c.ca.hsm.issuer_cert_path, 'ca.backend hsm needs it', TOKEN_READS),
  required(
    'ca.hsm.pin',
    (c) => token(c) && c.ca.hsm.login_required,
    (c) => c.ca.hsm.pin,
    'ca.hsm.login_required needs it',
    [...TOKEN_READS, 'ca.hsm.login_required'],
  ),
  not(
    'ca.default_validity_days',
    ['ca.max_validity_days'],
    (c) => c.ca.default_validity_days > c.ca.max_validity_days,
    (c) => `is ${c.ca.default_validity_days}; must be at most ca.max_validity_days, which is ${c.ca.max_validity_days}`,
  ),
  {
    path: 'ca.serial_source',
    reads: ['ca.internal.serial_source', 'ca.hsm.serial_source'],
    check(c, isSet) {
      const older = c.ca.backend === 'hsm' ? c.ca.hsm.serial_source : c.ca.internal.serial_source
      if (!isSet('ca.serial_source') || older === null || older === c.ca.serial_source) return undefined
      return `is ${c.ca.serial_source}, but the same setting below the backend says ${older}; keep one of the two`
    },
  },
  {
    path: 'ca.profiles',
    check(c) {
      const wrong = Object.entries(c.ca.profiles).find(([, profile]) =>
        profile.key_usages.some((usage) => usage === 'key_cert_sign' || usage === 'crl_sign'),
      )
      return (
        wrong &&
        `${wrong[0]} has key_cert_sign or crl_sign; these belong to CA certificates, which are not issued here, so leave them out`
      )
    },
  },
  {
    path: 'ca.profiles',
    reads: ['ca.max_validity_days'],
    check(c) {
      const wrong = Object.entries(c.ca.profiles).find(
        ([, profile]) => (profile.validity_days ?? 0) > (profile.max_validity_days ?? c.ca.max_validity_days),
      )
      return (
        wrong &&
        `${wrong[0]} has a validity_days above its max_validity_days or ca.max_validity_days; must be at most that`
      )
    },
  },
]

const CRL: Rule[] = [
  not(
    'crl.enabled',
    ['ca.backend'],
    (c) => c.crl.enabled && c.ca.backend !== 'internal' && c.ca.backend !== 'hsm',
    'is true, but only ca.backend internal and hsm sign a CRL',
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
]

const AROUND: Rule[] = [
  required(
    'smtp.host',
    (c) => c.smtp.enabled,
    (c) => c.smtp.host,
    'smtp.enabled needs a mail server',
    ['smtp.enabled'],
  ),
  required(
    'smtp.from_address',
    (c) => c.smtp.enabled,
    (c) => c.smtp.from_address,
    'smtp.enabled needs a sender',
    ['smtp.enabled'],
  ),
  not(
    'ct_logging.logs',
    ['ct_logging.enabled'],
    (c) => c.ct_logging.enabled && c.ct_logging.logs.length === 0,
    'is empty; ct_logging.enabled needs at least one log',
  ),
  required(
    'admin_api.initial_admin_email',
    (c) => c.admin_api.enabled,
    (c) => c.admin_api.initial_admin_email,
    'admin_api.enabled needs the address of the first administrator',
    ['admin_api.enabled'],
  ),
  required(
    'admin_api.token_secret',
    (c) => c.admin_api.enabled,
    (c) => c.admin_api.token_secret,
    `admin_api.enabled needs a secret of at least ${MIN_TOKEN_SECRET} characters`,
    ['admin_api.enabled'],
  ),
  not(
    'admin_api.token_secret',
    [],
    (c) => c.admin_api.token_secret !== null && c.admin_api.token_secret.length < MIN_TOKEN_SECRET,
    `is too short; must have at least ${MIN_TOKEN_SECRET} characters`,
  ),
  not(
    'admin_api.base_path',
    ['admin_api.enabled', 'api.base_path'],
    (c) => c.admin_api.enabled && withoutSlash(c.admin_api.base_path) === withoutSlash(c.api.base_path),
    'is the same as api.base_path; the two interfaces need paths of their own',
  ),
  not(
    'admin_api.default_page_size',
    ['admin_api.max_page_size'],
    (c) => c.admin_api.default_page_size > c.admin_api.max_page_size,
    (c) =>
      `is ${c.admin_api.default_page_size}; must be at most admin_api.max_page_size, which is ${c.admin_api.max_page_size}`,
  ),
]

/**
 * Normalizes a URL for comparison: host in lower case, no default port, no dot or slash at an end.
 */
function perspectiveUrl(text: string): string {
  const { host, pathname } = new URL(text)
  return host.replace(/\.(?=:|$)/, '') + pathname.replace(/\/+$/, '')
}

export const RULES: readonly Rule[] = [...SERVER, ...ACME, ...CA, ...CRL, ...AROUND]
