import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parseAllDocuments } from 'yaml'
import { loadConfig } from '../../../src/config/load.ts'
import { each } from '../../support/each.ts'
import { aConfig, parseTree } from './support.ts'

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
  'acme-proxy-eab': [],
  'admin-api': [],
  'all-challenges': [],
  'audit-export': [],
  'background-workers': [],
  'certificate-transparency': ['ct_logging.submit_precert'],
  'crl-ari': [],
  'custom-ca': ['ca.backend'],
  'custom-paths': [],
  'custom-validator': ['challenges.enabled[1]'],
  development: [],
  'docker-compose': [],
  email: [],
  'environment-variables': [],
  'external-ca': [],
  gevent: [],
  hooks: ['hooks.registered[0].class'],
  hsm: [],
  'ip-identifiers': [],
  metrics: [],
  minimal: [],
  production: [],
  profiles: [],
  proxy: [],
  quotas: [],
  retention: [],
  'strict-security': [],
}

describe('example configurations', () => {
  for (const [name, absent] of Object.entries(EXAMPLES))
    test(absent.length === 0 ? `${name} is accepted` : `${name} is refused for ${absent.join(', ')} only`, async () => {
      const loaded = await loadConfig(`${FIXTURES}${name}.yaml`, ENV)
      const errors = loaded.ok ? [] : loaded.errors
      assert.deepEqual(each(errors, 'path'), absent)
      for (const error of errors)
        assert.match(
          error.message,
          /not available in this version(?:; set it to false.*)?$|names a Python class; (?:hooks|CA backends|validators) are JavaScript modules here, .js or .mjs: write ext:.\/(?:hooks\/inventoryhook.js#InventoryHook, or webhook|ca\/vaultbackend.js#VaultBackend, and port it|validators\/\w+.js#\w+, and port it)/,
        )
    })

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
})

test('the NetworkPolicy leaves out what blocked_networks does, but for the pod’s own loopback', () => {
  const file = fileURLToPath(new URL('../../../../deploy/kubernetes/base/network-policy.yaml', import.meta.url))
  const [policy] = parseAllDocuments(readFileSync(file, 'utf8')).map((document) => document.toJS())
  const blocks = policy.spec.egress.flatMap(({ to = [] }: { to?: object[] }) => to)
  const left = blocks.flatMap(({ ipBlock }: { ipBlock: { except: string[] } }) => ipBlock.except)
  const blocked = aConfig({}).challenges.http01.blocked_networks.filter((one) => !/^(?:127\.|::1)/.test(one))
  assert.deepEqual(left.sort(), [...blocked].sort())
})
