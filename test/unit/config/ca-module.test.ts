/** `ext:` backends in the configuration: which module, and whose settings. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { publicNames } from '../../../src/config/backends.ts'
import { caModules } from '../../../src/settings/backend-settings.ts'
import { acceptedConfig, errorLines, parseTree, parseYaml, type Tree } from './support.ts'

const A = 'ext:./ca/a.js#A'
const B = 'ext:pki-of-ours#B'
const withCa = (ca: Tree) => parseTree({ ca })
const modulesOf = (ca: Tree) => caModules(acceptedConfig(withCa(ca)))

describe('CA modules', () => {
  test('stand wherever a backend can, and each knows the key that names it', () => {
    const modules = modulesOf({
      backend: 'failover',
      failover: { backends: [A, B] },
      profiles: { other: { backend: 'ext:./c.js' } },
    })
    const found = modules.map(({ name, key, module }) => [name, key, module.module, module.exportName])
    assert.deepEqual(found, [
      [A, 'ca.failover.backends', './ca/a.js', 'A'],
      [B, 'ca.failover.backends', 'pki-of-ours', 'B'],
      ['ext:./c.js', 'ca.profiles.other.backend', './c.js', 'default'],
    ])
    assert.match(modules[0]?.module.url ?? '', /^file:\/\/\/.*\/ca\/a\.js$/)
    assert.equal(modules[1]?.module.url, 'pki-of-ours')
  })

  test('have the common settings and their own, and not those of another', () => {
    const [a, b] = modulesOf({
      backend: A,
      profiles: { other: { backend: B } },
      extension_settings: {
        url: 'common',
        timeout_seconds: 7,
        [B]: { url: 'of B', concurrency: 2, trust_anchors: ['b.pem'] },
      },
    })
    assert.deepEqual(a?.module.settings, { url: 'common', timeout_seconds: 7 })
    assert.deepEqual([a?.timeoutMs, a?.concurrency, a?.trustAnchors], [7000, 4, []])
    assert.deepEqual(b?.module.settings, { url: 'of B', timeout_seconds: 7, concurrency: 2, trust_anchors: ['b.pem'] })
    assert.deepEqual([b?.timeoutMs, b?.concurrency, b?.trustAnchors], [7000, 2, ['b.pem']])
  })

  test('get unknown keys under ca as settings, as classes of ACMEEH do', () => {
    const [a] = modulesOf({ backend: A, vault_role: 'acme', extension_settings: { vault_role: 'wins' } })
    assert.deepEqual(a?.module.settings, { vault_role: 'wins' })
    assert.match(errorLines(withCa({ vault_role: 'acme' })).join(), /ca\.vault_role/)
  })

  const PYTHON = 'ext:company.pki.VaultBackend'
  for (const [what, ca, expected] of [
    [
      'a Python class',
      { backend: PYTHON },
      /^ca\.backend \(line 1\): names a Python class; .* write ext:\.\/ca\/vaultbackend\.js#VaultBackend, and port it/,
    ],
    [
      'a Python class of a profile',
      { profiles: { p: { backend: PYTHON } } },
      /^ca\.profiles\.p\.backend \(line 1\): names a Python class/,
    ],
    [
      'a Python class in failover',
      { backend: 'failover', failover: { backends: ['internal', PYTHON] } },
      /^ca\.failover\.backends \(line 1\): names a Python class/,
    ],
    [
      'no module',
      { backend: 'ext:./ca.py' },
      /^ca\.backend \(line 1\): ext:\.\/ca\.py is no module such as ext:\.\/ca\/module\.js#Ca/,
    ],
    [
      'a time that is none',
      { backend: A, extension_settings: { timeout_seconds: 0 } },
      /^ca\.extension_settings \(line 1\): is wrong: timeout_seconds /,
    ],
    [
      'too many threads',
      { backend: A, extension_settings: { concurrency: 65 } },
      /^ca\.extension_settings \(line 1\): is wrong: concurrency /,
    ],
    [
      'anchors that are no list',
      { backend: A, extension_settings: { trust_anchors: 'a.pem' } },
      /^ca\.extension_settings \(line 1\): is wrong: trust_anchors /,
    ],
    [
      'settings of a backend that is not in use',
      { backend: A, extension_settings: { [B]: {} } },
      /^ca\.extension_settings \(line 1\): has settings of ext:pki-of-ours#B, which is no backend in use/,
    ],
    [
      'a text for the settings of one',
      { backend: A, extension_settings: { [A]: 'x' } },
      /^ca\.extension_settings \(line 1\): has no section below ext:\.\/ca\/a\.js#A/,
    ],
  ] as const)
    test(`${what} is an error at its key`, () => {
      const [line, ...others] = errorLines(withCa(ca))
      assert.match(line ?? '', expected)
      assert.deepEqual(others, [])
    })

  test('without trust_anchors are warned about', () => {
    const warningsOf = (ca: Tree) => {
      const parsed = withCa(ca)
      assert.ok(parsed.ok)
      return parsed.warnings.filter(({ path }) => path === 'ca.extension_settings').map(({ message }) => message)
    }
    assert.deepEqual(warningsOf({ backend: A }), [
      `has no trust_anchors for ${A}; every chain that agrees with itself is delivered`,
    ])
    assert.deepEqual(warningsOf({ backend: A, extension_settings: { trust_anchors: ['a.pem'] } }), [])
  })

  test('show no folder to whoever reads /healthz', () =>
    assert.deepEqual(publicNames(['external', A, 'ext:/etc/other/a.js#A', B]), [
      'external',
      'ext:a.js#A',
      'ext:a.js#A 2',
      B,
    ]))

  test('the example of the reference says what to write instead', () => {
    const lines = errorLines(
      parseYaml(`server: { external_url: https://acme.example.com }
database: { database: d, user: u }
ca: { backend: ext:example_pki.backends.VaultBackend, vault_role: acme }`),
    )
    assert.match(lines.join('\n'), /^ca\.backend \(line 3\): names a Python class; .*\(docs\/ca-modules\.md\)$/)
  })
})
