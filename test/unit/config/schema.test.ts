// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${VAR} is the syntax of the file

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { isNetwork, isResolver } from '../../../src/config/field.ts'
import { ConfigSchema, LEAVES, REFERENCE } from '../../../src/config/schema.ts'
import { readDocument } from '../../../src/shared/config-file/document.ts'
import { valueAt } from '../../../src/shared/config-file/messages.ts'
import { formatPath } from '../../../src/shared/config-file/notice.ts'
import { type SchemaNode, withoutNull } from '../../../src/shared/config-file/schema-node.ts'
import { forAllIn } from '../../support/property-runs.ts'
import { words } from '../../support/words.ts'
import { aConfig, acceptedConfig, MINIMAL, merged, parseTree, type Tree } from './support.ts'

/** A value that the schema accepts for a key, when that can be told from type and bounds alone. */
function validValue(raw: SchemaNode): fc.Arbitrary<unknown> | undefined {
  const node = withoutNull(raw)
  if (node.expects !== undefined) return undefined
  if (node.enum !== undefined) return fc.constantFrom(...node.enum)
  switch (node.type) {
    case 'boolean':
      return fc.boolean()
    case 'integer':
      return fc.integer({ min: node.minimum ?? 0, max: Math.min(node.maximum ?? 2 ** 31, 2 ** 31) })
    case 'string':
      return fc.string({ minLength: 1, maxLength: 20 }).filter((text) => !text.includes('${'))
    case 'array':
      return validList(node)
    default:
      return node.properties && validSection(node)
  }
}

function validList(node: SchemaNode): fc.Arbitrary<unknown> | undefined {
  const entry = node.items && validValue(node.items)
  return entry && fc.array(entry, { minLength: node.minItems ?? 0, maxLength: 3 })
}

function validSection(node: SchemaNode): fc.Arbitrary<unknown> {
  const keys = Object.entries(node.properties ?? {}).flatMap(([key, child]) => {
    const value = key === '_comment' ? undefined : validValue(child)
    return value === undefined ? [] : [[key, value] as const]
  })
  const present = new Set(keys.map(([key]) => key))
  const requiredKeys = (node.required ?? []).filter((key) => present.has(key))
  return fc.record(Object.fromEntries(keys), { requiredKeys })
}

const validTree = validSection(REFERENCE).map((tree) => merged(MINIMAL as Tree, withUrls(tree as Tree)))

/** Entries with a required URL cannot be made from type and bounds. */
function withUrls(tree: Tree): Tree {
  const { ct_logging: _, hooks: __, dns: ___, challenges, admin_api, ...rest } = tree
  const { oidc: _____, ...administration } = (admin_api ?? {}) as Tree
  const { perspectives: ____, ...methods } = (challenges ?? {}) as Tree
  return { ...rest, challenges: methods, admin_api: administration }
}

describe('schema', () => {
  test('finished values are accepted again and stay what they are, from YAML and JSON text too', () =>
    forAllIn({ numRuns: 15 }, validTree, (tree) => {
      const config = ConfigSchema.parse({
        ...tree,
        server: { ...(tree['server'] as Tree), external_url: 'https://a.example' },
      })
      assert.deepEqual(ConfigSchema.parse(config), config)
      for (const format of ['yaml', 'json'] as const) {
        const { value, problems } = readDocument(JSON.stringify(config, null, 1), format)
        assert.deepEqual(problems, [])
        assert.deepEqual(ConfigSchema.parse(value), config)
      }
    }))

  test('the defaults are those of the reference, and ours where a decision says so', () => {
    const config = aConfig({})
    assert.equal(config.security.rate_limits.new_order_per_identifier.window_seconds, 604800)
    assert.equal(config.challenges.dns01.auto_validate, true)
    assert.equal(config.challenges.dnspersist01.auto_validate, true)
    assert.equal(config.ca.serial_source, 'random')
    assert.equal(config.order.finalize_wait_ms, 2000)
    assert.deepEqual(config.ca.profiles['default']?.extended_key_usages, ['server_auth'])
    assert.deepEqual(config.ca.profiles['default']?.key_types, ['RSA', 'P-256', 'P-384'])
    assert.deepEqual(config.security.identifier_policy.forbidden_domains, ['*.localhost'])
    const { server: _, ...withoutWorkers } = MINIMAL
    const { workers } = ConfigSchema.parse({ ...withoutWorkers, server: { external_url: 'https://a.example' } }).server
    assert.ok(workers >= 1 && workers <= 8)
  })

  test('a section may set any one of its keys; the others have their defaults', () => {
    const defaults = ConfigSchema.parse(MINIMAL)
    const keys = LEAVES.map(({ path }) => path).filter((path) => path.length > 2)
    assert.ok(keys.length > 100)
    const refused = keys.filter((path) => {
      const value = valueAt(defaults, path)
      const alone = path.toReversed().reduce<unknown>((inner, key) => ({ [key]: inner }), value) as Tree
      return value !== undefined && !ConfigSchema.safeParse(merged(MINIMAL, alone)).success
    })
    assert.deepEqual(refused.map(formatPath), [])
    const { new_account: limit } = acceptedConfig(
      parseTree({ security: { rate_limits: { new_account: { requests: 100 } } } }),
    ).security.rate_limits
    assert.deepEqual(limit, { requests: 100, window_seconds: 3600 })
  })

  test('every section of the reference is there, and one of ours', () => {
    const names = Object.keys(REFERENCE.properties ?? {}).filter((name) => name !== '_comment')
    assert.equal(names.length, 28)
  })

  test('two configurations share no default list or section', () => {
    const one = aConfig({})
    one.notifications.expiration_warning_days.push(99)
    one.security.rate_limits.new_nonce.requests = 1
    assert.deepEqual(aConfig({}).notifications.expiration_warning_days, [30, 14, 7, 1])
    assert.equal(aConfig({}).security.rate_limits.new_nonce.requests, 100)
  })

  test('a profile named default replaces the built-in one, others stand beside it', () => {
    const config = acceptedConfig(parseTree({ ca: { profiles: { short: { validity_days: 7 } } } }))
    assert.deepEqual(Object.keys(config.ca.profiles), ['default', 'short'])
    const own = acceptedConfig(parseTree({ ca: { profiles: { default: { key_usages: ['key_agreement'] } } } }))
    assert.deepEqual(own.ca.profiles['default']?.key_usages, ['key_agreement'])
  })

  test('the older place of the serial source counts', () => {
    assert.equal(
      acceptedConfig(parseTree({ ca: { internal: { serial_source: 'random' } } })).ca.serial_source,
      'random',
    )
    assert.equal(
      acceptedConfig(parseTree({ ca: { internal: { serial_source: 'database' } } })).ca.serial_source,
      'database',
    )
  })

  test('issuer domain names are brought to one spelling', () => {
    const config = aConfig({
      challenges: { dnspersist01: { issuer_domain_names: [' CA.Example.COM. ', 'bücher.example'] } },
    })
    assert.deepEqual(config.challenges.dnspersist01.issuer_domain_names, ['ca.example.com', 'xn--bcher-kva.example'])
  })

  test('every key has a sentence', () => {
    const silent: string[] = []
    const visit = (node: SchemaNode, path: string) => {
      const plain = withoutNull(node)
      if (path !== '' && plain.description === undefined) silent.push(path)
      for (const [key, child] of Object.entries(plain.properties ?? {})) visit(child, `${path}.${key}`)
      if (plain.items?.properties) visit(plain.items, `${path}[]`)
    }
    visit(REFERENCE, '')
    assert.deepEqual(silent, [])
  })
})

describe('addresses', () => {
  for (const good of ['192.0.2.1', '192.0.2.1:53', '2001:db8::1', '[2001:db8::1]', '[2001:db8::1]:5353'])
    test(`${good} is a resolver`, () => assert.ok(isResolver(good)))
  for (const bad of [
    '',
    ...words`dns.example 192.0.2.1: 192.0.2.1:65536 [192.0.2.1]:53 2001:db8::1]:53 [2001:db8::1]53`,
  ])
    test(`${JSON.stringify(bad)} is no resolver`, () => assert.ok(!isResolver(bad)))
  for (const good of ['10.0.0.0/8', '::/0', '::1/128', '192.0.2.1'])
    test(`${good} is a network`, () => assert.ok(isNetwork(good)))
  for (const bad of ['10.0.0.0/33', '::/129', '10.0.0.0/', '10.0.0.0/8/8', '10.0.0/8', 'a/8', '10.0.0.0/-1'])
    test(`${bad} is no network`, () => assert.ok(!isNetwork(bad)))
})

describe('names of the identifier policy', () => {
  const withForbidden = (pattern: string) =>
    ConfigSchema.safeParse(
      merged(MINIMAL as Tree, { security: { identifier_policy: { forbidden_domains: [pattern] } } }),
    )

  for (const pattern of ['example.org', '*.Example.org.', 'intranet', '*.bücher.example', 'xn--bcher-kva.example'])
    test(`${pattern} is a pattern`, () => assert.equal(withForbidden(pattern).success, true))

  for (const pattern of ['.example.org', 'example.org ', 'a.*.example', '*', 'https://example.org', '10.0.0.1'])
    test(`${JSON.stringify(pattern)}, which no name could match, is refused`, () =>
      assert.equal(withForbidden(pattern).success, false))
})
