import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { ConfigError, parseConfig } from '../../../signer/config.ts'

const GOOD = `socket: /run/chancery-signer/signer.sock
secret_file: /etc/chancery/signer.secret
audit: { file: /var/lib/chancery-signer/audit.jsonl }
issuers:
  - id: default
    certificate: /etc/chancery/issuer.pem
    key: { file: /etc/chancery/issuer.key }
`

function problemsOf(text: string): readonly string[] {
  try {
    parseConfig(text, 'signer.yaml')
  } catch (error) {
    assert.ok(error instanceof ConfigError)
    return error.problems
  }
  return []
}

describe('the configuration of the signer', () => {
  test('needs four keys; everything else has a default', () => {
    const config = parseConfig(GOOD, 'signer.yaml')
    assert.equal(config.limits.connections, 64)
    assert.equal(config.issuers[0]!.policy.max_validity_days, 398)
    assert.deepEqual(config.issuers[0]!.policy.subject_attributes, ['CN'])
  })

  test('reads the example that comes with it', () => {
    const file = 'signer/signer.example.yaml'
    const { issuers } = parseConfig(readFileSync(file, 'utf8'), file)
    assert.deepEqual(
      issuers.map(({ key }) => (key.pkcs11 ? 'token' : 'file')),
      ['file', 'file', 'token'],
    )
  })

  const KEYS: [string, string, RegExp | undefined][] = [
    ['a file', '{ file: k }', undefined],
    ['a file with a prompt', '{ file: k, passphrase_prompt: true }', undefined],
    ['a token by label', '{ pkcs11: { library: l, token: t, label: k } }', undefined],
    ['a slot, and a key by id', '{ pkcs11: { library: l, slot: 0, id: "01AF", login: false } }', undefined],
    ['neither', '{}', /set either file or pkcs11/],
    ['both', '{ file: k, pkcs11: { library: l, token: t, label: k } }', /set either file or pkcs11/],
    ['no library', '{ pkcs11: { token: t, label: k } }', /key\.pkcs11\.library/],
    ['no token', '{ pkcs11: { library: l, label: k } }', /set token or slot/],
    ['no key', '{ pkcs11: { library: l, token: t } }', /set label or id of the key/],
    ['an id that is none', '{ pkcs11: { library: l, token: t, id: "1" } }', /hexadecimal bytes such as 01af/],
    ['33 sessions', '{ pkcs11: { library: l, token: t, label: k, sessions: 33 } }', /pkcs11\.sessions/],
    ['a PIN in it', '{ pkcs11: { library: l, token: t, label: k, pin: "1234" } }', /key\.pkcs11\.pin: unknown key/],
    ['two PINs', '{ pkcs11: { library: l, token: t, label: k, pin_env: A, pin_file: b } }', /only one of pin_file/],
    [
      'a passphrase for a token',
      '{ passphrase_env: A, pkcs11: { library: l, token: t, label: k } }',
      /a passphrase is for a key file/,
    ],
  ]
  for (const [what, key, refused] of KEYS) {
    test(`a key section with ${what} is ${refused ? 'refused' : 'read'}`, () => {
      const text = `socket: s\nsecret_file: f\naudit: { file: a }\nissuers: [{ id: i, certificate: c, key: ${key} }]`
      if (refused) assert.throws(() => parseConfig(text, 'signer.yaml'), refused)
      else assert.equal(parseConfig(text, 'signer.yaml').issuers.length, 1)
    })
  }

  test('reports all errors at once, in the order of the file, with their lines', () => {
    const text = `socket: 5
secret_file: ""
audit: { fil: x }
log: { level: loud }
limits:
  connections: 0
issuers:
  - id: "a b"
    certificate: c
    key: { file: k, passphrase_env: A, passphrase_file: b }
    policy:
      key_types: [DSA]
      key_usages: [key_cert_sign]
      permitted: { dns: [".example.org"], ip: [10.0.0.1] }
colour: red
`
    const problems = problemsOf(text)
    const lines = problems.map((problem) => Number(problem.split(':')[1]))
    assert.deepEqual(
      lines,
      lines.toSorted((a, b) => a - b),
    )
    for (const expected of [
      /^signer\.yaml:1: socket: /,
      /:2: secret_file: /,
      /:3: audit\.fil: unknown key/,
      /:4: log\.level: /,
      /:6: limits\.connections: /,
      /:8: issuers\.0\.id: /,
      /:10: issuers\.0\.key: set only one of passphrase_file, passphrase_env/,
      /:12: issuers\.0\.policy\.key_types\.0: /,
      /:13: issuers\.0\.policy\.key_usages\.0: /,
      /:14: issuers\.0\.policy\.permitted\.dns\.0: /,
      /:14: issuers\.0\.policy\.permitted\.ip\.0: /,
      /:15: colour: unknown key/,
    ]) {
      assert.ok(
        problems.some((problem) => expected.test(problem)),
        `${expected} in\n${problems.join('\n')}`,
      )
    }
  })

  test('refuses two issuers with one id', () => {
    assert.match(problemsOf(`${GOOD}${GOOD.slice(GOOD.indexOf('  - id'))}`).join(), /same id/)
  })

  test('reports broken YAML with its line', () => assert.match(problemsOf('a: [1\nb: }')[0]!, /^signer\.yaml:\d+: /))
  test('reports an empty file', () => assert.match(problemsOf('').join('\n'), /socket/))
})
