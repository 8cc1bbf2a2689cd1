import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { RULES } from '../../../src/config/judge.ts'
import { EVENT_KINDS } from '../../../src/domain/event.ts'
import { aConfig, errorLines, isSetBy, parseTree, type Tree } from './support.ts'

const oidcWith = (role: object) => ({ issuer: 'https://login.example.com', client_id: 'chancery', roles: [role] })

const aPerspective = (changes: { name?: string; [key: string]: unknown } = {}) => ({
  name: 'a',
  url: `https://${changes.name ?? 'a'}.example`,
  token: 'x',
  ...changes,
})

/** Patch of the minimal configuration, and the places of the errors that the rules find. */
const aProxy = (more: object) => ({
  backend: 'acme_proxy',
  acme_proxy: {
    directory_url: 'https://upstream.example/directory',
    email: 'pki@example.com',
    challenge_handler: 'callback_dns',
    challenge_handler_config: { create_script: 'c', delete_script: 'd' },
    ...more,
  },
})

const OIDC = {
  issuer: 'https://login.example',
  client_id: 'chancery',
  client_secret: null,
  name: 'Login',
  scopes: ['openid'],
  username_claim: 'preferred_username',
  groups_claim: 'groups',
  roles: [{ group: 'g', role: 'admin', scope: [] }],
  ca_file: null,
}

const CASES: [string, Tree, string[]][] = [
  ['the minimal configuration breaks none', {}, []],
  [
    'the public URL ends with a slash',
    { server: { external_url: 'https://acme.example.com/' } },
    ['server.external_url'],
  ],
  ['a public URL with a U-label', { server: { external_url: 'https://ä.example' } }, ['server.external_url']],
  ['a web site with a U-label', { acme: { website_url: 'https://ä.example/' } }, ['acme.website_url']],
  ['terms with a blank in their path', { tos: { url: 'https://a.example/the terms' } }, ['tos.url']],
  ['instructions with a U-label', { tos: { instructions_url: 'https://ä.example/' } }, ['tos.instructions_url']],
  ['an issuer with a U-label', { ca: { aia_issuer_urls: ['http://ä.example/ca.crt'] } }, ['ca.aia_issuer_urls']],
  ['a CRL with a U-label', { ca: { crl_url: 'http://ä.example/{crl}.crl' } }, ['ca.crl_url']],
  ['a server certificate without its key', { server: { tls: { cert_path: 'a' } } }, ['server.tls.key_path']],
  ['a server key without its certificate', { server: { tls: { key_path: 'a' } } }, ['server.tls.cert_path']],
  [
    'a self-issued server certificate without files to keep it in',
    { server: { tls: { self_issued_names: ['localhost'] } } },
    ['server.tls.self_issued_names'],
  ],
  ['a proxy without trusted addresses', { proxy: { enabled: true } }, ['proxy.trusted_proxies']],
  ['more connections kept than allowed', { database: { min_connections: 51 } }, ['database.min_connections']],
  [
    'a CA of the database that nothing is checked with',
    { database: { sslrootcert: '/ca.pem', sslmode: 'require' } },
    ['database.sslrootcert'],
  ],
  ['smallest RSA key above the largest', { security: { min_rsa_key_size: 8193 } }, ['security.min_rsa_key_size']],
  ['a CA backend of another language', { ca: { backend: 'ext:example_pki.Backend' } }, ['ca.backend']],
  [
    'a CA module without time',
    { ca: { backend: 'ext:./ca.js', extension_settings: { timeout_seconds: 0 } } },
    ['ca.extension_settings'],
  ],
  ['a hook of another language', { hooks: { registered: [{ class: 'example_pki.Hook' }] } }, ['hooks.registered']],
  ['a webhook without a URL', { hooks: { registered: [{ class: 'webhook' }] } }, ['hooks.registered']],
  ['a disabled hook of any kind', { hooks: { registered: [{ class: 'a.b.Hook', enabled: false }] } }, []],
  ['bindings required without a secret to store them under', { acme: { eab_required: true } }, ['acme.eab_required']],
  ['bindings required with a key file', { acme: { eab_required: true, eab_key_file: 'eab.key' } }, []],
  ['one perspective', { challenges: { perspectives: [aPerspective()] } }, []],
  [
    'perspectives with a method that they cannot be asked about',
    { challenges: { enabled: ['http-01', 'dns-persist-01'], perspectives: [aPerspective()] } },
    ['challenges.perspectives'],
  ],
  [
    'perspectives with a validator module',
    { challenges: { enabled: ['ext:./a.js'], perspectives: [aPerspective()] } },
    ['challenges.perspectives'],
  ],
  [
    'two perspectives with one URL, however it is written',
    {
      challenges: {
        perspectives: [
          aPerspective({ url: 'https://a.example/x' }),
          aPerspective({ name: 'b', url: 'https://A.example.:443/x//' }),
        ],
      },
    },
    ['challenges.perspectives'],
  ],
  [
    'two perspectives with one name',
    { challenges: { perspectives: [aPerspective(), aPerspective()] } },
    ['challenges.perspectives'],
  ],
  [
    'a perspective that is shown nothing',
    { challenges: { perspectives: [aPerspective({ token: null })] } },
    ['challenges.perspectives'],
  ],
  [
    'a perspective with a client certificate',
    { challenges: { perspectives: [aPerspective({ token: null, client_cert_path: 'c', client_key_path: 'k' })] } },
    [],
  ],
  [
    'half a client certificate',
    { challenges: { perspectives: [aPerspective({ client_cert_path: 'c' })] } },
    ['challenges.perspectives'],
  ],
  [
    'a quorum that nobody has to be in',
    { challenges: { perspectives: [aPerspective()], corroboration: { max_non_corroborations: 1 } } },
    ['challenges.corroboration.max_non_corroborations'],
  ],
  [
    'more regions than perspectives stand in',
    {
      challenges: {
        perspectives: [aPerspective({ region: 'ripe' }), aPerspective({ name: 'b', region: 'ripe' })],
        corroboration: { min_regions: 2 },
      },
    },
    ['challenges.corroboration.min_regions'],
  ],
  [
    'as many regions as perspectives stand in',
    {
      challenges: {
        perspectives: [aPerspective({ region: 'ripe' }), aPerspective({ name: 'b', region: 'arin' })],
        corroboration: { min_regions: 2 },
      },
    },
    [],
  ],
  [
    'a validator of another language',
    { challenges: { enabled: ['http-01', 'ext:corp.validators.Inventory'] } },
    ['challenges.enabled'],
  ],
  ['a validator in a package', { challenges: { enabled: ['ext:inventory-validator#Inventory'] } }, []],
  ['a short secret without the Admin API', { admin_api: { token_secret: 'short' } }, ['admin_api.token_secret']],
  ['metrics that ask for a token that nobody gives', { metrics: { auth_required: true } }, ['metrics.auth_required']],
  ['one path for two resources', { acme: { paths: { new_order: '/new-account' } } }, ['acme.paths']],
  ['a former directory', { acme: { directory_aliases: ['/acme/acme/directory'] } }, []],
  [
    'a former directory where new orders are',
    { acme: { directory_aliases: ['/pki/new-order'] }, server: { external_url: 'https://acme.example.com/pki' } },
    ['acme.directory_aliases'],
  ],
  ['a former directory where a probe is', { acme: { directory_aliases: ['/readyz'] } }, ['acme.directory_aliases']],
  [
    'dns-persist-01 without an issuer name',
    { challenges: { enabled: ['dns-persist-01'] }, server: { external_url: 'https://192.0.2.1' } },
    ['challenges.dnspersist01.issuer_domain_names'],
  ],
  ['dns-persist-01 under the name of the service', { challenges: { enabled: ['dns-persist-01'] } }, []],
  [
    'dns-persist-01 under an identity of CAA',
    {
      challenges: { enabled: ['dns-persist-01'] },
      acme: { caa_identities: ['ca.example'] },
      server: { external_url: 'https://192.0.2.1' },
    },
    [],
  ],
  [
    'draft 02 of dns-persist-01 with a name that is no CAA identity',
    {
      challenges: {
        enabled: ['dns-persist-01'],
        dnspersist01: { draft: '02', issuer_domain_names: ['ca.example', 'other.example'] },
      },
      acme: { caa_identities: ['CA.example.'] },
    },
    ['challenges.dnspersist01.issuer_domain_names'],
  ],
  [
    'draft 02 of dns-persist-01 with names that are CAA identities',
    {
      challenges: { enabled: ['dns-persist-01'], dnspersist01: { draft: '02', issuer_domain_names: ['ca.example'] } },
      acme: { caa_identities: ['CA.example.', 'other.example'] },
    },
    [],
  ],
  ['accepting everything without allowlists', { challenges: { auto_accept: true } }, ['challenges.auto_accept']],
  [
    'accepting everything within allowlists',
    { challenges: { auto_accept: true }, security: { identifier_policy: { enforce_account_allowlist: true } } },
    [],
  ],
  [
    'accepting everything for another CA',
    { challenges: { auto_accept: true }, ca: { backend: 'external', external: { sign_url: 'https://x.example' } } },
    ['challenges.auto_accept'],
  ],
  ['first wait above the longest', { challenges: { backoff_base_seconds: 301 } }, ['challenges.backoff_base_seconds']],
  ['a version of terms that nobody has to agree to', { tos: { version: '1' } }, ['tos.version']],
  ['terms required but not named', { tos: { require_agreement: true } }, ['tos.url']],
  [
    'an internal CA without files',
    { ca: { internal: { root_cert_path: '', root_key_path: null } } },
    ['ca.internal.root_cert_path', 'ca.internal.root_key_path'],
  ],
  [
    'a running signer in place of the files',
    {
      ca: { signer: { socket: '/run/s', secret_file: '/run/k' }, internal: { root_cert_path: '', root_key_path: '' } },
    },
    [],
  ],
  ['a running signer without its secret', { ca: { signer: { socket: '/run/s' } } }, ['ca.signer.secret_file']],
  [
    'an upstream CA that is not named',
    { ca: { backend: 'acme_proxy' } },
    ['ca.acme_proxy.directory_url', 'ca.acme_proxy.email', 'ca.acme_proxy.challenge_handler'],
  ],
  ['an upstream CA by scripts', { ca: aProxy({}) }, []],
  [
    'an upstream CA without the script that cleans up',
    { ca: aProxy({ challenge_handler_config: { create_script: 'c' } }) },
    ['ca.acme_proxy.challenge_handler_config'],
  ],
  [
    'an upstream CA with a handler of the other method',
    { ca: aProxy({ challenge_type: 'http-01' }) },
    ['ca.acme_proxy.challenge_type'],
  ],
  [
    'a challenge handler of another language',
    { ca: aProxy({ challenge_handler: 'ext:corp.dns.ZoneFactory' }) },
    ['ca.acme_proxy.challenge_handler'],
  ],
  [
    'a challenge handler that is no module',
    { ca: aProxy({ challenge_handler: 'ext:./zone.py' }) },
    ['ca.acme_proxy.challenge_handler'],
  ],
  ['half an upstream binding', { ca: aProxy({ eab_kid: 'kid' }) }, ['ca.acme_proxy.eab_hmac_key']],
  [
    'an upstream binding that is no base64url',
    { ca: aProxy({ eab_kid: 'kid', eab_hmac_key: 'a+b' }) },
    ['ca.acme_proxy.eab_hmac_key'],
  ],
  ['an external CA that is not named', { ca: { backend: 'external' } }, ['ca.external.sign_url']],
  [
    'an external CA of one profile that is not named',
    { ca: { profiles: { other: { backend: 'external' } } } },
    ['ca.external.sign_url'],
  ],
  [
    'half a client certificate for the external CA',
    { ca: { backend: 'external', external: { sign_url: 'https://ca.test/sign', client_cert_path: 'c.pem' } } },
    ['ca.external.client_key_path'],
  ],
  [
    'a failover with one backend',
    { ca: { backend: 'failover', failover: { backends: ['internal'] } } },
    ['ca.failover.backends'],
  ],
  [
    'a failover between two signers',
    {
      ca: {
        backend: 'failover',
        failover: { backends: ['internal', 'hsm'] },
        signer: { socket: '/run/s', secret_file: '/run/k' },
      },
    },
    ['ca.backend'],
  ],
  [
    'a failover with a CRL of the signer',
    {
      ca: {
        backend: 'failover',
        failover: { backends: ['internal', 'external'] },
        external: { sign_url: 'https://ca.test/sign' },
      },
      crl: { enabled: true },
    },
    [],
  ],
  [
    'an HSM without settings',
    { ca: { backend: 'hsm' } },
    ['ca.hsm.pkcs11_library', 'ca.hsm.token_label', 'ca.hsm.key_label', 'ca.hsm.issuer_cert_path', 'ca.hsm.pin'],
  ],
  [
    'an HSM by slot and key id, without login',
    {
      ca: {
        backend: 'hsm',
        hsm: { pkcs11_library: 'p', slot_id: 0, key_id: '01', issuer_cert_path: 'c', login_required: false },
      },
    },
    [],
  ],
  ['usual lifetime above the longest', { ca: { default_validity_days: 398 } }, ['ca.default_validity_days']],
  [
    'two serial sources that differ',
    { ca: { serial_source: 'random', internal: { serial_source: 'database' } } },
    ['ca.serial_source'],
  ],
  ['two serial sources that agree', { ca: { serial_source: 'random', internal: { serial_source: 'random' } } }, []],
  [
    'a profile that makes CA certificates',
    { ca: { profiles: { sub: { key_usages: ['key_cert_sign'] } } } },
    ['ca.profiles'],
  ],
  ['a profile that lasts too long', { ca: { profiles: { long: { validity_days: 398 } } } }, ['ca.profiles']],
  [
    'a CRL of somebody else',
    { crl: { enabled: true }, ca: { backend: 'external', external: { sign_url: 'https://ca.test/sign' } } },
    ['crl.enabled'],
  ],
  [
    'a CRL that runs out before the next',
    { crl: { enabled: true, next_update_seconds: 3600 } },
    ['crl.next_update_seconds'],
  ],
  [
    'parts of a CRL under one URL',
    { crl: { enabled: true, shards: 4 }, ca: { crl_url: 'http://crl.test/all.crl' } },
    ['ca.crl_url'],
  ],
  [
    'parts of a CRL under URLs of their own',
    { crl: { enabled: true, shards: 4, complete: false }, ca: { crl_url: 'http://crl.test/{crl}.crl' } },
    [],
  ],
  ['neither parts of a CRL nor a complete one', { crl: { enabled: true, complete: false } }, ['crl.complete']],
  [
    'a CRL at the port of everything else',
    { server: { port: 9000 }, crl: { enabled: true, http_port: 9000 } },
    ['crl.http_port'],
  ],
  ['roots in the place of the directory', { api: { roots_path: '/directory' } }, ['api.roots_path']],
  ['roots below the lists', { api: { roots_path: '/crl/roots' }, crl: { enabled: true } }, ['api.roots_path']],
  ['roots where lists would be', { api: { roots_path: '/crl' } }, []],
  [
    'roots of an unknown CA',
    { api: { roots_path: '/roots.pem' }, ca: { backend: 'external', external: { sign_url: 'https://ca.test/sign' } } },
    ['api.roots_file'],
  ],
  ['mail without server and sender', { smtp: { enabled: true } }, ['smtp.host', 'smtp.from_address']],
  ['an archive without a folder', { retention: { certificates_days_after_expiry: 400 } }, ['retention.archive_dir']],
  ['transparency without a log', { ct_logging: { enabled: true } }, ['ct_logging.logs']],
  [
    'a precertificate, which this version does not submit',
    { ct_logging: { enabled: true, logs: [{ url: 'https://log.example' }], submit_precert: true } },
    ['ct_logging.submit_precert'],
  ],
  [
    'an Admin API without settings',
    { admin_api: { enabled: true } },
    ['admin_api.initial_admin_email', 'admin_api.token_secret'],
  ],
  [
    'an Admin API with a short secret',
    { admin_api: { enabled: true, initial_admin_email: 'a@b', token_secret: '0123456789abcde' } },
    ['admin_api.token_secret'],
  ],
  [
    'a group of registrars without tags',
    { admin_api: { oidc: oidcWith({ group: 'team', role: 'registrar' }) } },
    ['admin_api.oidc'],
  ],
  [
    'a group of auditors with tags',
    { admin_api: { oidc: oidcWith({ group: 'team', role: 'auditor', scope: ['team'] }) } },
    ['admin_api.oidc'],
  ],
  [
    'an Admin API on the path of the other',
    {
      admin_api: { enabled: true, initial_admin_email: 'a@b', token_secret: '0123456789abcdef' },
      api: { base_path: '/api' },
    },
    ['admin_api.base_path'],
  ],
  [
    'an Admin API in front of other paths',
    {
      admin_api: { enabled: true, initial_admin_email: 'a@b', token_secret: '0123456789abcdef' },
      api: { base_path: '/api/acme' },
    },
    ['admin_api.base_path'],
  ],
  [
    'an Admin API in front of the roots',
    {
      admin_api: { enabled: true, initial_admin_email: 'a@b', token_secret: '0123456789abcdef' },
      api: { roots_path: '/api/roots.pem' },
    },
    ['admin_api.base_path'],
  ],
  [
    'an Admin API in front of the metrics',
    {
      admin_api: { enabled: true, initial_admin_email: 'a@b', token_secret: '0123456789abcdef' },
      metrics: { path: '/api/metrics' },
    },
    ['admin_api.base_path'],
  ],
  [
    'a provider that is asked in plain text over the network',
    { admin_api: { oidc: { ...OIDC, issuer: 'http://login.example' } } },
    ['admin_api.oidc.issuer'],
  ],
  ['a provider on this machine', { admin_api: { oidc: { ...OIDC, issuer: 'http://127.0.0.1:8080' } } }, []],
  [
    'a second factor that nobody can have',
    { admin_api: { require_second_factor: true, console_url: 'https://192.0.2.1/api/console/' } },
    ['admin_api.require_second_factor'],
  ],
  [
    'a second factor that no browser offers without TLS',
    { admin_api: { require_second_factor: true, console_url: 'http://ca.example/api/console/' } },
    ['admin_api.require_second_factor'],
  ],
  [
    'a second factor on this machine',
    { admin_api: { require_second_factor: true, console_url: 'http://localhost:8080/api/console/' } },
    [],
  ],
  [
    'a second factor at a provider',
    { admin_api: { require_second_factor: true, console_url: 'https://192.0.2.1/api/console/', oidc: OIDC } },
    [],
  ],
  ['pages above the largest page', { admin_api: { default_page_size: 1001 } }, ['admin_api.default_page_size']],
]

describe('rules between keys', () => {
  for (const [name, patch, expected] of CASES)
    test(`${name}: ${expected.join(', ') || 'accepted'}`, () => {
      const config = aConfig(patch)
      const broken = RULES.filter((rule) => rule.check(config, isSetBy(patch)) !== undefined).map((rule) => rule.path)
      assert.deepEqual(broken.toSorted(), expected.toSorted())
    })

  test('a URL with a U-label is refused with the A-label to write', () => {
    const rules = RULES.map((rule) =>
      rule.check(aConfig({ server: { external_url: 'https://Bücher.example/acme' } }), () => true),
    )
    assert.ok(rules.includes('is sent to clients, and URLs are ASCII; write its host as xn--bcher-kva.example'))
  })

  test('every rule has a case', () => {
    const covered = new Set(CASES.flatMap(([, , expected]) => expected))
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
