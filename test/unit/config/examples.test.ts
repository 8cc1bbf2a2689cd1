import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { ABSENT_FEATURES } from '../../../src/config/availability.ts'
import { loadConfig } from '../../../src/config/load.ts'
import { parseTree } from './support.ts'

/** Seen from the compiled file. */
const FIXTURES = fileURLToPath(new URL('../../../../test/fixtures/config/', import.meta.url))

const ENV = {
  ACME_URL: 'https://acme.example.com',
  ACMEEH_EXTERNAL_URL: 'https://acme.example.com',
  ADMIN_TOKEN_SECRET: '0123456789abcdef0123456789abcdef',
  CA_EXT_AUTH_VALUE: 'credential',
  CA_PROXY_EAB_HMAC_KEY: 'c2VjcmV0',
  DB_PASSWORD: 'secret',
  HSM_PIN: '1234',
  POSTGRES_PASSWORD: 'secret',
  SMTP_PASSWORD: 'secret',
}

/** File → the switches that are refused because their feature comes later. A feature that arrives leaves this table. */
const EXAMPLES: Record<string, readonly string[]> = {
  'acme-proxy-eab': ['ca.backend'],
  'admin-api': ['admin_api.enabled'],
  'all-challenges': [],
  'audit-export': [
    'audit_export.webhook_url',
    'audit_export.syslog_host',
    'logging.audit.enabled',
    'logging.audit.syslog',
  ],
  'background-workers': ['nonce.audit_consumed'],
  'certificate-transparency': ['ct_logging.enabled'],
  'crl-ari': [],
  'custom-ca': ['ca.backend'],
  'custom-paths': [],
  'custom-validator': [],
  development: [],
  'docker-compose': ['logging.audit.file'],
  email: ['smtp.enabled', 'notifications.enabled'],
  'environment-variables': [],
  'external-ca': ['ca.backend'],
  gevent: [],
  hooks: ['hooks.registered[0]'],
  hsm: [],
  'ip-identifiers': [],
  metrics: [],
  minimal: [],
  production: [
    'admin_api.enabled',
    'smtp.enabled',
    'metrics.auth_required',
    'logging.audit.enabled',
    'logging.audit.file',
  ],
  profiles: [],
  proxy: [],
  quotas: [],
  retention: ['audit_retention.enabled'],
  'strict-security': ['admin_api.enabled'],
}

describe('example configurations', () => {
  for (const [name, absent] of Object.entries(EXAMPLES)) {
    test(absent.length === 0 ? `${name} is accepted` : `${name} is refused for ${absent.join(', ')} only`, async () => {
      const loaded = await loadConfig(`${FIXTURES}${name}.yaml`, ENV)
      const errors = loaded.ok ? [] : loaded.errors
      assert.deepEqual(
        errors.map(({ path }) => path),
        absent,
      )
      for (const error of errors) assert.match(error.message, /not available in this version$/)
    })
  }

  test('every example file is in the table', () => {
    const files = readdirSync(FIXTURES).map((file) => file.replace(/\.yaml$/, ''))
    assert.deepEqual(files.toSorted(), Object.keys(EXAMPLES).toSorted())
    assert.equal(files.length, 27)
  })
})

describe('features of later versions', () => {
  test('a default configuration is not warned about features that are on by default', () => {
    const parsed = parseTree({ acme: { caa_enforce: false } })
    assert.ok(parsed.ok)
    assert.deepEqual(parsed.warnings, [])
  })

  test('settings of a feature that is on by default are errors, unless it is switched off', () => {
    const set = { max_retries: 5, expiration_warning_days: [3] }
    const parsed = parseTree({ notifications: set, logging: { audit: { backup_count: 3 } } })
    assert.deepEqual(parsed.ok || parsed.errors.map(({ path, message }) => [path, message]), [
      ['notifications.max_retries', 'notifications are not available in this version'],
      ['notifications.expiration_warning_days', 'notifications are not available in this version'],
      ['logging.audit.backup_count', 'the audit log is not available in this version'],
    ])
    const off = { notifications: { ...set, enabled: false }, logging: { audit: { backup_count: 3, enabled: false } } }
    assert.ok(parseTree(off).ok)
  })

  test('the same switch written in the file is an error, and written as false it is silent', () => {
    const on = parseTree({ smtp: { enabled: true, host: 'mail.test', from_address: 'ca@mail.test' } })
    assert.deepEqual(on.ok || on.errors.map(({ path }) => path), ['smtp.enabled'])
    const off = parseTree({ notifications: { enabled: false } })
    assert.ok(off.ok && !off.warnings.some(({ message }) => message.includes('notifications.enabled')))
  })

  test('no switch is listed twice', () => {
    const paths = ABSENT_FEATURES.map(({ path }) => path)
    assert.deepEqual(paths, [...new Set(paths)])
  })
})
