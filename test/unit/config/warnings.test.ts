import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { WARNINGS } from '../../../src/config/warnings.ts'
import { each } from '../../support/each.ts'
import { aConfig, isSetBy, nested, parseTree, type Tree } from './support.ts'

/** Nothing to warn about: the patches below change one thing each. */
const QUIET: Tree = {
  acme: { caa_enforce: false },
  smtp: { enabled: true },
  security: { rate_limits: { backend: 'database' } },
}

const forbidding = (forbidden_domains: string[], allowed_domains: string[] = []) => ({
  security: { identifier_policy: { forbidden_domains, allowed_domains } },
})

const FORBIDDEN = 'security.identifier_policy.forbidden_domains'
const FORBIDDEN_NAMES: [what: string, patch: Tree, warned: string][] = [
  ['a forbidden name whose www. passes', forbidding(['Forbidden.test.']), FORBIDDEN],
  ['forbidden names whose www. passes, in one sentence', forbidding(['a.test', '*.b.test', 'c.test']), FORBIDDEN],
  ['a forbidden name with all below it', forbidding(['*.forbidden.test']), ''],
  ['a forbidden name below a forbidden one', forbidding(['*.forbidden.test', 'www.forbidden.test']), ''],
  ['a forbidden name whose www. is outside what is allowed', forbidding(['a.test'], ['a.test', 'b.test']), ''],
  ['a forbidden name within what is allowed', forbidding(['a.corp.test'], ['*.corp.test']), FORBIDDEN],
  ['an allowed name alone, which lets nothing else pass', forbidding([], ['a.test']), ''],
]

const CASES: [what: string, patch: Tree, warned: string][] = [
  ['nothing unusual', {}, ''],
  [
    'a method that is validated by nobody here',
    { 'challenges.http01.auto_validate': false },
    'challenges.background_worker.enabled',
  ],
  [
    'a method that the challenge worker validates',
    { 'challenges.http01.auto_validate': false, 'challenges.background_worker.enabled': true },
    '',
  ],
  ['a time for idle connections', { 'server.keepalive': 5 }, 'server.keepalive'],
  ['no time for idle connections', { 'server.keepalive': 0 }, ''],
  ['a length of nonces', { 'nonce.length': 32 }, 'nonce.length'],
  [
    'an archive while nothing is deleted',
    {
      'retention.enabled': false,
      'retention.certificates_days_after_expiry': 400,
      'retention.archive_dir': '/archive',
    },
    'retention.certificates_days_after_expiry',
  ],
  ['a record of used nonces', { 'nonce.audit_consumed': true }, 'nonce.audit_consumed'],
  ['retention of an audit log that nothing keeps', { 'audit_retention.enabled': true }, 'audit_retention.enabled'],
  [
    'approvals by users whom one person may make',
    { 'admin_api.approvals.resume_signing': true },
    'admin_api.approvals.user_changes',
  ],
  [
    'approvals of users, too',
    { 'admin_api.approvals.resume_signing': true, 'admin_api.approvals.user_changes': true },
    '',
  ],
  ['a secret of 31 bytes', { 'admin_api.token_secret': `${'ü'.repeat(15)}x` }, 'admin_api.token_secret'],
  ['a secret of 32 bytes', { 'admin_api.token_secret': 'ü'.repeat(16) }, ''],
  ['another worker class', { 'server.worker_class': 'gthread' }, 'server.worker_class'],
  ['trusted proxies that nobody asks', { 'proxy.trusted_proxies': ['192.0.2.1'] }, 'proxy.trusted_proxies'],
  [
    'nothing validated',
    { 'challenges.auto_accept': true, 'security.identifier_policy.enforce_account_allowlist': true },
    'challenges.auto_accept',
  ],
  ['HSTS of less than a day', { 'security.hsts_max_age_seconds': 86399 }, 'security.hsts_max_age_seconds'],
  ['no HSTS', { 'security.hsts_max_age_seconds': 0 }, ''],
  [
    'limits in memory with nonces for several instances',
    { 'security.rate_limits.backend': 'memory', 'nonce.store': 'database' },
    'security.rate_limits.backend',
  ],
  ['limits in memory of a single instance', { 'security.rate_limits.backend': 'memory' }, ''],
  [
    'reusable bindings that are not required',
    { 'acme.caa_enforce': false, 'acme.eab_reusable': true },
    'acme.eab_reusable',
  ],
  ['a CAA check without a name, by default', { acme: {} }, 'acme.caa_identities'],
  ['the same, written down', { 'acme.caa_enforce': true }, 'acme.caa_identities'],
  ...FORBIDDEN_NAMES,
  [
    'zones excepted from a CAA check that is off',
    { 'acme.caa_enforce': false, 'acme.caa_unreachable_ok': ['corp'] },
    'acme.caa_unreachable_ok',
  ],
  [
    'zones excepted from a CAA check',
    { 'acme.caa_identities': ['ca.example'], 'acme.caa_enforce': true, 'acme.caa_unreachable_ok': ['corp.example'] },
    '',
  ],
  [
    'a key file beside a running signer',
    { 'ca.signer.socket': 's', 'ca.signer.secret_file': 'k' },
    'ca.internal.root_key_path',
  ],
  [
    'a PIN beside a running signer',
    {
      'ca.backend': 'hsm',
      'ca.signer.socket': 's',
      'ca.signer.secret_file': 'k',
      'ca.hsm.pin': '1234',
      'ca.internal.root_key_path': null,
    },
    'ca.hsm.pin',
  ],
  ...['dns01', 'dnspersist01', 'dnsaccount01'].flatMap((section): [what: string, patch: Tree, warned: string][] => {
    const enabled = ['dns-01', 'dns-persist-01', 'dns-account-01']
    const path = `challenges.${section}`
    const patch = (more: Tree) => ({ challenges: { enabled, [section]: more } })
    const own = { require_dnssec: true, resolvers: ['127.0.0.1'] }
    const slow = patch({ propagation_wait_seconds: 30 })
    return [
      [`DNSSEC by the resolvers of the system (${section})`, patch({ require_dnssec: true }), `${path}.require_dnssec`],
      [`DNSSEC by a resolver of its own (${section})`, patch(own), ''],
      [`a wait that outlasts the attempt (${section})`, slow, `${path}.propagation_wait_seconds`],
    ]
  }),
  ['a CRL that certificates name by https', { 'crl.enabled': true }, 'ca.crl_url'],
  ['a CRL elsewhere, by https', { 'ca.crl_url': 'https://crl.example/{crl}' }, 'ca.crl_url'],
  ['a CRL by http', { 'crl.enabled': true, 'ca.crl_url': 'http://crl.example/{crl}' }, ''],
  ['a CRL at a port without TLS', { 'crl.enabled': true, 'crl.http_port': 80 }, ''],
  ['a CRL of a service without TLS', { 'crl.enabled': true, 'server.external_url': 'http://acme.example.com' }, ''],
  [
    'an upstream that anybody can pose as',
    { 'ca.backend': 'acme_proxy', 'ca.acme_proxy.verify_ssl': false },
    'ca.acme_proxy.trust_anchors ca.acme_proxy.verify_ssl',
  ],
  ['roots that are not served', { 'api.roots_file': 'roots.pem' }, 'api.roots_file'],
  ['a port for no CRL', { 'crl.http_port': 80 }, 'crl.http_port'],
  ['MX checks with the resolvers of the system', { 'email.validate_mx': true }, 'email.validate_mx'],
  ['fewer connections than threads', { 'server.workers': 60 }, 'database.max_connections'],
  ['connections for 15 front threads and the events thread', { 'server.workers': 15 }, ''],
  ['few connections for the threads', { 'server.workers': 16 }, 'database.max_connections'],
  [
    'few connections beside those of the Admin API',
    { 'server.workers': 14, 'admin_api.enabled': true },
    'database.max_connections',
  ],
  ['more front threads where nobody wants events', { 'server.workers': 17, 'notifications.enabled': false }, ''],
  [
    'ten connections with everything on',
    { 'server.workers': 3, 'admin_api.enabled': true, 'database.max_connections': 10 },
    '',
  ],
  ['few connections', { 'server.workers': 1, 'database.max_connections': 9 }, 'database.max_connections'],
  ['a long wait for the database', { 'database.connection_timeout': 15.5 }, 'database.connection_timeout'],
  ['notifications without mail', { 'smtp.enabled': false, 'notifications.enabled': true }, 'notifications.enabled'],
  ['no mail, as it is written down', { 'admin_api.enabled': true, 'smtp.enabled': false }, ''],
  [
    'unknown notification types',
    { 'notifications.disabled_types': ['expiration_warning', 'x', 'y'] },
    'notifications.disabled_types notifications.disabled_types',
  ],
  ['hooks that outlast requests', { 'hooks.timeout_seconds': 31 }, 'hooks.timeout_seconds'],
  [
    'one hook that outlasts requests',
    { 'hooks.registered': [{ class: 'a', timeout_seconds: 31 }] },
    'hooks.registered',
  ],
  ['quotas without a limit', { 'quotas.enabled': true }, 'quotas.enabled'],
  [
    'an external CA without roots, that is not told of revocations',
    { 'ca.backend': 'external', 'ca.external.sign_url': 'https://ca.test/sign' },
    'ca.external.trust_anchors ca.external.revoke_url',
  ],
  ['a CA module without roots', { 'ca.backend': 'ext:./ca.js' }, 'ca.extension_settings'],
  [
    'an Admin API without mail',
    { 'admin_api.enabled': true, smtp: {}, 'notifications.enabled': false },
    'admin_api.enabled',
  ],
]

describe('warnings', () => {
  for (const [name, flat, expected] of CASES)
    test(`${name}: ${expected || 'none'}`, () => {
      const patch = nested(flat)
      const tree = { ...QUIET, ...patch, ...mergedSecurity(patch) }
      const config = aConfig(tree)
      const found = WARNINGS.flatMap((rule) => [rule.check(config, isSetBy(tree)) ?? []].flat().map(() => rule.path))
      assert.deepEqual(found, expected.split(' ').filter(Boolean))
    })

  test('every warning has a case', () => {
    const covered = new Set(CASES.flatMap(([, , expected]) => expected.split(' ')))
    const found = WARNINGS.map((rule) => rule.path).filter((path) => !covered.has(path))
    assert.deepEqual(found, [])
  })

  test('a warning about a key of the file carries its line, one about a default does not', () => {
    const parsed = parseTree({ server: { workers: 60 }, acme: { eab_reusable: true } })
    assert.ok(parsed.ok)
    const lines = new Map(parsed.warnings.map(({ path, line }) => [path, line]))
    assert.equal(lines.get('acme.eab_reusable'), 1)
    assert.equal(lines.get('database.max_connections'), undefined)
  })

  test('what depends on an absent feature is not warned about', () => {
    const parsed = parseTree({})
    assert.ok(parsed.ok)
    assert.deepEqual(each(parsed.warnings, 'path'), ['acme.caa_identities'])
  })
})

function mergedSecurity(patch: Tree): Tree {
  const security = patch['security'] as Tree | undefined
  return security ? { security: { rate_limits: { backend: 'database' }, ...security } } : {}
}
