import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { RULES } from '../../../src/config/load.ts'
import { EVENT_KINDS } from '../../../src/domain/event.ts'
import { aConfig, errorLines, isSetBy, nested, parseTree, type Tree } from './support.ts'

const oidcWith = (role: object) => ({ issuer: 'https://login.example.com', client_id: 'chancery', roles: [role] })

const issuedBy = (issuer: string) => ({ ...oidcWith({ group: 'team', role: 'auditor' }), issuer })

/** Each with what differs from the others. */
const perspectives = (...changes: { name?: string; [key: string]: unknown }[]) => ({
  'challenges.perspectives': changes.map((one) => {
    const name = one.name ?? 'a'
    return { name, url: `https://${name}.example`, token: 'x', ...one }
  }),
})
const RIPE = { region: 'ripe' }

const ADMIN = {
  'admin_api.enabled': true,
  'admin_api.initial_admin_email': 'a@b',
  'admin_api.token_secret': '0123456789abcdef',
}
const SECOND_FACTOR = { 'admin_api.require_second_factor': true }
const EXTERNAL = { 'ca.backend': 'external', 'ca.external.sign_url': 'https://ca.test/sign' }
const SIGNER = { 'ca.signer.socket': '/run/s', 'ca.signer.secret_file': '/run/k' }
const PERSIST = { 'challenges.enabled': ['dns-persist-01'] }
const DRAFT_02 = { ...PERSIST, 'challenges.dnspersist01.draft': '02' }
const PROXY = {
  'ca.backend': 'acme_proxy',
  'ca.acme_proxy.directory_url': 'https://upstream.example/directory',
  'ca.acme_proxy.email': 'pki@example.com',
  'ca.acme_proxy.challenge_handler': 'callback_dns',
  'ca.acme_proxy.challenge_handler_config': { create_script: 'c', delete_script: 'd' },
}

const OIDC = {
  issuer: 'https://login.example',
  client_id: 'chancery',
  client_secret: null,
  token_endpoint_auth_method: null,
  name: 'Login',
  scopes: ['openid'],
  username_claim: 'preferred_username',
  groups_claim: 'groups',
  roles: [{ group: 'g', role: 'admin', scope: [] }],
  ca_file: null,
}

/** By the keys that are found wrong: what is in the configuration. */
const CASES: Record<string, Record<string, Tree>> = {
  '': {
    'the minimal configuration breaks none': {},
    'a disabled hook of any kind': { 'hooks.registered': [{ class: 'a.b.Hook', enabled: false }] },
    'bindings required with a key file': { 'acme.eab_required': true, 'acme.eab_key_file': 'eab.key' },
    'one perspective': perspectives({}),
    'a perspective with a client certificate': perspectives({
      token: null,
      client_cert_path: 'c',
      client_key_path: 'k',
    }),
    'as many regions as perspectives stand in': {
      ...perspectives(RIPE, { name: 'b', region: 'arin' }),
      'challenges.corroboration.min_regions': 2,
    },
    'a validator in a package': { 'challenges.enabled': ['ext:inventory-validator#Inventory'] },
    'a former directory': { 'acme.directory_aliases': ['/acme/acme/directory'] },
    'dns-persist-01 under the name of the service': { ...PERSIST },
    'dns-persist-01 under an identity of CAA': {
      ...PERSIST,
      'acme.caa_identities': ['ca.example'],
      'server.external_url': 'https://192.0.2.1',
    },
    'draft 02 with names that are CAA identities': {
      ...DRAFT_02,
      'challenges.dnspersist01.issuer_domain_names': ['ca.example'],
      'acme.caa_identities': ['CA.example.', 'other.example'],
    },
    'accepting everything within allowlists': {
      'challenges.auto_accept': true,
      'security.identifier_policy.enforce_account_allowlist': true,
    },
    'a running signer in place of the files': {
      ...SIGNER,
      'ca.internal.root_cert_path': '',
      'ca.internal.root_key_path': '',
    },
    'an upstream CA by scripts': PROXY,
    'a failover with a CRL of the signer': {
      'ca.backend': 'failover',
      'ca.failover.backends': ['internal', 'external'],
      'ca.external.sign_url': 'https://ca.test/sign',
      'crl.enabled': true,
    },
    'an HSM by slot and key id, without login': {
      'ca.backend': 'hsm',
      'ca.hsm.pkcs11_library': 'p',
      'ca.hsm.slot_id': 0,
      'ca.hsm.key_id': '01',
      'ca.hsm.issuer_cert_path': 'c',
      'ca.hsm.login_required': false,
    },
    'two serial sources that agree': { 'ca.serial_source': 'random', 'ca.internal.serial_source': 'random' },
    'parts of a CRL under URLs of their own': {
      'crl.enabled': true,
      'crl.shards': 4,
      'crl.complete': false,
      'ca.crl_url': 'http://crl.test/{crl}.crl',
    },
    'roots where lists would be': { 'api.roots_path': '/crl' },
    'a tenant of Microsoft': {
      'admin_api.oidc': issuedBy('https://login.microsoftonline.com/8b87af7d-8647-4dc7-8df4-5f69a2011bb5/v2.0'),
    },
    'a realm of that name elsewhere': { 'admin_api.oidc': issuedBy('https://login.example.com/common') },
    'a provider on this machine': { 'admin_api.oidc': { ...OIDC, issuer: 'http://127.0.0.1:8080' } },
    'a second factor on this machine': {
      ...SECOND_FACTOR,
      'admin_api.console_url': 'http://localhost:8080/api/console/',
    },
    'a second factor at a provider': {
      ...SECOND_FACTOR,
      'admin_api.console_url': 'https://192.0.2.1/api/console/',
      'admin_api.oidc': OIDC,
    },
  },
  'server.external_url': {
    'the public URL ends with a slash': { 'server.external_url': 'https://acme.example.com/' },
    'a public URL with a U-label': { 'server.external_url': 'https://ä.example' },
  },
  'acme.website_url': { 'a web site with a U-label': { 'acme.website_url': 'https://ä.example/' } },
  'tos.url': {
    'terms with a blank in their path': { 'tos.url': 'https://a.example/the terms' },
    'terms required but not named': { 'tos.require_agreement': true },
  },
  'tos.instructions_url': { 'instructions with a U-label': { 'tos.instructions_url': 'https://ä.example/' } },
  'ca.aia_issuer_urls': { 'an issuer with a U-label': { 'ca.aia_issuer_urls': ['http://ä.example/ca.crt'] } },
  'ca.crl_url': {
    'a CRL with a U-label': { 'ca.crl_url': 'http://ä.example/{crl}.crl' },
    'parts of a CRL under one URL': { 'crl.enabled': true, 'crl.shards': 4, 'ca.crl_url': 'http://crl.test/all.crl' },
  },
  'server.tls.key_path': { 'a server certificate without its key': { 'server.tls.cert_path': 'a' } },
  'server.tls.cert_path': { 'a server key without its certificate': { 'server.tls.key_path': 'a' } },
  'server.tls.self_issued_names': {
    'a self-issued certificate without files': { 'server.tls.self_issued_names': ['localhost'] },
  },
  'proxy.trusted_proxies': { 'a proxy without trusted addresses': { 'proxy.enabled': true } },
  'database.min_connections': { 'more connections kept than allowed': { 'database.min_connections': 51 } },
  'database.sslrootcert': {
    'a CA of the database without checks': { 'database.sslrootcert': '/ca.pem', 'database.sslmode': 'require' },
  },
  'security.min_rsa_key_size': { 'smallest RSA key above the largest': { 'security.min_rsa_key_size': 8193 } },
  'ca.backend': {
    'a CA backend of another language': { 'ca.backend': 'ext:example_pki.Backend' },
    'a failover between two signers': {
      'ca.backend': 'failover',
      'ca.failover.backends': ['internal', 'hsm'],
      ...SIGNER,
    },
  },
  'ca.extension_settings': {
    'a CA module without time': { 'ca.backend': 'ext:./ca.js', 'ca.extension_settings.timeout_seconds': 0 },
  },
  'hooks.registered': {
    'a hook of another language': { 'hooks.registered': [{ class: 'example_pki.Hook' }] },
    'a webhook without a URL': { 'hooks.registered': [{ class: 'webhook' }] },
  },
  'acme.eab_required': { 'bindings required without a secret to store them under': { 'acme.eab_required': true } },
  'challenges.perspectives': {
    'perspectives with a method unknown to them': {
      'challenges.enabled': ['http-01', 'dns-persist-01'],
      ...perspectives({}),
    },
    'perspectives with a validator module': { 'challenges.enabled': ['ext:./a.js'], ...perspectives({}) },
    'two perspectives with one URL': perspectives(
      { url: 'https://a.example/x' },
      { name: 'b', url: 'https://A.example.:443/x//' },
    ),
    'two perspectives with one name': perspectives({}, {}),
    'a perspective that is shown nothing': perspectives({ token: null }),
    'half a client certificate': perspectives({ client_cert_path: 'c' }),
  },
  'challenges.corroboration.max_non_corroborations': {
    'a quorum that nobody has to be in': { ...perspectives({}), 'challenges.corroboration.max_non_corroborations': 1 },
  },
  'challenges.corroboration.min_regions': {
    'more regions than perspectives stand in': {
      ...perspectives(RIPE, { name: 'b', ...RIPE }),
      'challenges.corroboration.min_regions': 2,
    },
  },
  'challenges.enabled': {
    'a validator of another language': { 'challenges.enabled': ['http-01', 'ext:corp.validators.Inventory'] },
  },
  'admin_api.token_secret': {
    'a short secret without the Admin API': { 'admin_api.token_secret': 'short' },
    'an Admin API with a short secret': { ...ADMIN, 'admin_api.token_secret': '0123456789abcde' },
  },
  'metrics.auth_required': { 'metrics that ask for a token that nobody gives': { 'metrics.auth_required': true } },
  'acme.paths': { 'one path for two resources': { 'acme.paths.new_order': '/new-account' } },
  'acme.directory_aliases': {
    'a former directory where new orders are': {
      'acme.directory_aliases': ['/pki/new-order'],
      'server.external_url': 'https://acme.example.com/pki',
    },
    'a former directory where a probe is': { 'acme.directory_aliases': ['/readyz'] },
  },
  'challenges.dnspersist01.issuer_domain_names': {
    'dns-persist-01 without an issuer name': { ...PERSIST, 'server.external_url': 'https://192.0.2.1' },
    'draft 02 with a name that is no CAA identity': {
      ...DRAFT_02,
      'challenges.dnspersist01.issuer_domain_names': ['ca.example', 'other.example'],
      'acme.caa_identities': ['CA.example.'],
    },
  },
  'challenges.auto_accept': {
    'accepting everything without allowlists': { 'challenges.auto_accept': true },
    'accepting everything for another CA': { 'challenges.auto_accept': true, ...EXTERNAL },
  },
  'challenges.backoff_base_seconds': { 'first wait above the longest': { 'challenges.backoff_base_seconds': 301 } },
  'tos.version': { 'a version of terms that nobody has to agree to': { 'tos.version': '1' } },
  'ca.internal.root_cert_path ca.internal.root_key_path': {
    'an internal CA without files': { 'ca.internal.root_cert_path': '', 'ca.internal.root_key_path': null },
  },
  'ca.signer.secret_file': { 'a running signer without its secret': { 'ca.signer.socket': '/run/s' } },
  'ca.acme_proxy.directory_url ca.acme_proxy.email ca.acme_proxy.challenge_handler': {
    'an upstream CA that is not named': { 'ca.backend': 'acme_proxy' },
  },
  'ca.acme_proxy.challenge_handler_config': {
    'an upstream CA without the script that cleans up': {
      ...PROXY,
      'ca.acme_proxy.challenge_handler_config': { create_script: 'c' },
    },
  },
  'ca.acme_proxy.challenge_type': {
    'an upstream CA with a handler of the other method': { ...PROXY, 'ca.acme_proxy.challenge_type': 'http-01' },
  },
  'ca.acme_proxy.challenge_handler': {
    'a challenge handler of another language': {
      ...PROXY,
      'ca.acme_proxy.challenge_handler': 'ext:corp.dns.ZoneFactory',
    },
    'a challenge handler that is no module': { ...PROXY, 'ca.acme_proxy.challenge_handler': 'ext:./zone.py' },
  },
  'ca.acme_proxy.eab_hmac_key': {
    'half an upstream binding': { ...PROXY, 'ca.acme_proxy.eab_kid': 'kid' },
    'an upstream binding that is no base64url': {
      ...PROXY,
      'ca.acme_proxy.eab_kid': 'kid',
      'ca.acme_proxy.eab_hmac_key': 'a+b',
    },
  },
  'ca.external.sign_url': {
    'an external CA that is not named': { 'ca.backend': 'external' },
    'an external CA of one profile that is not named': { 'ca.profiles.other.backend': 'external' },
  },
  'ca.external.client_key_path': {
    'half a client certificate for the external CA': { ...EXTERNAL, 'ca.external.client_cert_path': 'c.pem' },
  },
  'ca.failover.backends': {
    'a failover with one backend': { 'ca.backend': 'failover', 'ca.failover.backends': ['internal'] },
  },
  'ca.hsm.pkcs11_library ca.hsm.token_label ca.hsm.key_label ca.hsm.issuer_cert_path ca.hsm.pin': {
    'an HSM without settings': { 'ca.backend': 'hsm' },
  },
  'ca.default_validity_days': { 'usual lifetime above the longest': { 'ca.default_validity_days': 398 } },
  'ca.serial_source': {
    'two serial sources that differ': { 'ca.serial_source': 'random', 'ca.internal.serial_source': 'database' },
  },
  'ca.profiles': {
    'a profile that makes CA certificates': { 'ca.profiles.sub.key_usages': ['key_cert_sign'] },
    'a profile that lasts too long': { 'ca.profiles.long.validity_days': 398 },
  },
  'crl.enabled': { 'a CRL of somebody else': { 'crl.enabled': true, ...EXTERNAL } },
  'crl.next_update_seconds': {
    'a CRL that runs out before the next': { 'crl.enabled': true, 'crl.next_update_seconds': 3600 },
  },
  'crl.complete': { 'neither parts of a CRL nor a complete one': { 'crl.enabled': true, 'crl.complete': false } },
  'crl.http_port': {
    'a CRL at the port of everything else': { 'server.port': 9000, 'crl.enabled': true, 'crl.http_port': 9000 },
  },
  'api.roots_path': {
    'roots in the place of the directory': { 'api.roots_path': '/directory' },
    'roots below the lists': { 'api.roots_path': '/crl/roots', 'crl.enabled': true },
  },
  'api.roots_file': { 'roots of an unknown CA': { 'api.roots_path': '/roots.pem', ...EXTERNAL } },
  'smtp.host smtp.from_address': { 'mail without server and sender': { 'smtp.enabled': true } },
  'retention.archive_dir': { 'an archive without a folder': { 'retention.certificates_days_after_expiry': 400 } },
  'ct_logging.logs': { 'transparency without a log': { 'ct_logging.enabled': true } },
  'ct_logging.submit_precert': {
    'a precertificate, which this version does not submit': {
      'ct_logging.enabled': true,
      'ct_logging.logs': [{ url: 'https://log.example' }],
      'ct_logging.submit_precert': true,
    },
  },
  'admin_api.initial_admin_email admin_api.token_secret': {
    'an Admin API without settings': { 'admin_api.enabled': true },
  },
  'admin_api.oidc': {
    'a group of registrars without tags': { 'admin_api.oidc': oidcWith({ group: 'team', role: 'registrar' }) },
    'a group of auditors with tags': {
      'admin_api.oidc': oidcWith({ group: 'team', role: 'auditor', scope: ['team'] }),
    },
  },
  'admin_api.base_path': {
    'an Admin API on the path of the other': { ...ADMIN, 'api.base_path': '/api' },
    'an Admin API in front of other paths': { ...ADMIN, 'api.base_path': '/api/acme' },
    'an Admin API in front of the roots': { ...ADMIN, 'api.roots_path': '/api/roots.pem' },
    'an Admin API in front of the metrics': { ...ADMIN, 'metrics.path': '/api/metrics' },
  },
  'admin_api.oidc.issuer': {
    'a provider that is asked in plain text': { 'admin_api.oidc': { ...OIDC, issuer: 'http://login.example' } },
    'every tenant of Microsoft': { 'admin_api.oidc': issuedBy('https://login.microsoftonline.com/common/v2.0') },
    'every organization': { 'admin_api.oidc': issuedBy('https://login.microsoftonline.com/organizations/v2.0') },
    'everybody with an account there': { 'admin_api.oidc': issuedBy('https://login.microsoftonline.us/consumers/') },
    'an issuer with a gap': { 'admin_api.oidc': issuedBy('https://login.microsoftonline.com/{tenantid}/v2.0') },
  },
  'admin_api.require_second_factor': {
    'a second factor that nobody can have': {
      ...SECOND_FACTOR,
      'admin_api.console_url': 'https://192.0.2.1/api/console/',
    },
    'a second factor without TLS': { ...SECOND_FACTOR, 'admin_api.console_url': 'http://ca.example/api/console/' },
  },
  'admin_api.default_page_size': { 'pages above the largest page': { 'admin_api.default_page_size': 1001 } },
}

describe('rules between keys', () => {
  const rows = Object.entries(CASES).flatMap(([wrong, cases]) =>
    Object.entries(cases).map(([name, flat]) => [name, flat, wrong] as const),
  )
  for (const [name, flat, expected] of rows)
    test(`${name}: ${expected || 'accepted'}`, () => {
      const patch = nested(flat)
      const config = aConfig(patch)
      const broken = RULES.filter((rule) => rule.check(config, isSetBy(patch)) !== undefined).map((rule) => rule.path)
      assert.deepEqual(broken.toSorted(), expected.split(' ').filter(Boolean).toSorted())
    })

  test('a URL with a U-label is refused with the A-label to write', () => {
    const rules = RULES.map((rule) =>
      rule.check(aConfig({ server: { external_url: 'https://Bücher.example/acme' } }), () => true),
    )
    assert.ok(rules.includes('is sent to clients, and URLs are ASCII; write its host as xn--bcher-kva.example'))
  })

  test('every rule has a case', () => {
    const covered = new Set(Object.keys(CASES).flatMap((keys) => keys.split(' ')))
    const found = RULES.map((rule) => rule.path).filter((path) => !covered.has(path))
    assert.deepEqual(found, [])
  })

  test('the message says what is wrong and what would be right', () =>
    assert.deepEqual(errorLines(parseTree({ tos: { require_agreement: true } })), [
      'tos.url (line 1): is missing; tos.require_agreement needs terms to agree to',
    ]))

  const refusedBySchema: [Tree, string][] = [
    [{ nonce: { length: 15 } }, 'nonce.length (line 1): is 15; must be a whole number from 16 to 128'],
    [
      { security: { min_rsa_key_size: 1024 } },
      'security.min_rsa_key_size (line 1): is 1024; must be a whole number, at least 2048',
    ],
    [
      { challenges: { enabled: ['dns-02'] } },
      'challenges.enabled[0] (line 1): is "dns-02"; must be one of http-01, dns-01, tls-alpn-01, dns-persist-01, dns-account-01, or ext: and a module',
    ],
    [
      { challenges: { enabled: [] } },
      'challenges.enabled (line 1): is an empty list; must be a list of at least 1, at most 10, each entry one of http-01, dns-01, tls-alpn-01, dns-persist-01, dns-account-01, or ext: and a module',
    ],
    [
      { hooks: { registered: [{ class: 'no class', enabled: false }] } },
      'hooks.registered[0].class (line 1): is "no class"; must be a module such as ./hooks/notify.js#Notify, a package or a built-in name',
    ],
    [
      { hooks: { registered: [{ class: './a.js', enabled: false, events: ['order.lost'] }] } },
      `hooks.registered[0].events[0] (line 1): is "order.lost"; must be one of ${EVENT_KINDS.join(', ')}`,
    ],
    [
      { security: { rate_limits: { enabled: false, challenge: { requests: 0 } } } },
      'security.rate_limits.challenge.requests (line 1): is 0; must be a whole number, at least 1',
    ],
    [
      { ca: { profiles: { 'a b': {} } } },
      'ca.profiles.a b (line 1): is not a usable name; must consist of letters, digits, ".", "_" and "-"',
    ],
    [
      { server: { external_url: 'https://user@host.example' } },
      'server.external_url (line 1): is "https://…@host.example"; must be an http:// or https:// URL without user, query or fragment, such as https://acme.example.com',
    ],
    [
      { dns: { resolvers: ['192.0.2.1:0'] } },
      'dns.resolvers[0] (line 1): is "192.0.2.1:0"; must be an IP address, ip:port or [ipv6]:port',
    ],
    [
      { api: { base_path: '/acme/' } },
      'api.base_path (line 1): is "/acme/"; must be empty or a path such as /acme: a slash first, none last',
    ],
  ]
  for (const [patch, line] of refusedBySchema)
    test(`refused: ${line.slice(0, 60)}`, () => assert.deepEqual(errorLines(parseTree(patch)), [line]))
})
