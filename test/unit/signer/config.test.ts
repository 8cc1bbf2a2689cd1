import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { ConfigError, parseConfig } from '../../../signer/config.ts'
import { refusalBy } from '../../support/refusals.ts'

const GOOD = `socket: /run/chancery-signer/signer.sock
secret_file: /etc/chancery/signer.secret
audit: { file: /var/lib/chancery-signer/audit.jsonl }
issuers:
  - id: default
    certificate: /etc/chancery/issuer.pem
    key: { file: /etc/chancery/issuer.key }
`

const problemsOf = (text: string): readonly string[] =>
  refusalBy(ConfigError, () => parseConfig(text, 'signer.yaml')).message.split('\n')

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
    const kinds = issuers.map(({ key }) => (key.pkcs11 ? 'token' : 'file'))
    assert.deepEqual(kinds, ['file', 'file', 'token'])
  })

  const token = (more: string) => `{ pkcs11: { library: l, token: t, label: k, ${more} } }`
  const KEYS: [string, string, RegExp | undefined][] = [
    ['a file', '{ file: k }', undefined],
    ['a file with a prompt', '{ file: k, passphrase_prompt: true }', undefined],
    ['a token by label', '{ pkcs11: { library: l, token: t, label: k } }', undefined],
    ['a slot, and a key by id', '{ pkcs11: { library: l, slot: 0, id: "01AF", login: false } }', undefined],
    ['neither', '{}', /set either file or pkcs11/],
    ['both', '{ file: k, pkcs11: { library: l, token: t, label: k } }', /set either file or pkcs11/],
    ['no library', '{ pkcs11: { token: t, label: k } }', /key\.pkcs11\.library.* is missing/],
    ['no token', '{ pkcs11: { library: l, label: k } }', /set token or slot/],
    ['no key', '{ pkcs11: { library: l, token: t } }', /set label or id of the key/],
    [
      'an id that is none',
      '{ pkcs11: { library: l, token: t, id: "1" } }',
      /hexadecimal bytes in quotes such as "01af"/,
    ],
    ['33 sessions', token('sessions: 33'), /pkcs11\.sessions/],
    ['a PIN in it', token('pin: "1234"'), /key\.pkcs11\.pin \(line 4\): unknown key/],
    ['two PINs', token('pin_env: A, pin_file: b'), /only one of pin_file/],
    [
      'a passphrase for a token',
      '{ passphrase_env: A, pkcs11: { library: l, token: t, label: k } }',
      /a passphrase is for a key file/,
    ],
  ]
  for (const [what, key, refused] of KEYS)
    test(`a key section with ${what} is ${refused ? 'refused' : 'read'}`, () => {
      const text = `socket: s\nsecret_file: f\naudit: { file: a }\nissuers: [{ id: i, certificate: c, key: ${key} }]`
      if (refused) assert.throws(() => parseConfig(text, 'signer.yaml'), refused)
      else assert.equal(parseConfig(text, 'signer.yaml').issuers.length, 1)
    })

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
    const lines = problems.map((problem) => Number(/ \(line (\d+)\): /.exec(problem)?.[1]))
    assert.deepEqual(
      lines,
      lines.toSorted((a, b) => a - b),
    )
    for (const expected of [
      'socket (line 1): is 5; must be a text that is not empty',
      'secret_file (line 2): is an empty text; must be a text that is not empty',
      'audit.fil (line 3): unknown key; did you mean file?',
      'audit.file (line 3): is missing; must be a text that is not empty',
      'log.level (line 4): is "loud"; must be one of trace, debug, info, warn, error, fatal, silent',
      'limits.connections (line 6): is 0; must be a whole number from 1 to 10000',
      'issuers[0].id (line 8): is "a b"; must be 1 to 64 letters, digits, dots, dashes or underscores',
      'issuers[0].key (line 10): set only one of passphrase_file, passphrase_env, passphrase_prompt',
      'issuers[0].policy.key_types[0] (line 12): is "DSA"; must be one of RSA, P-256, P-384, P-521, Ed25519',
      'issuers[0].policy.permitted.dns[0] (line 14): is ".example.org"; must be a lower-case domain without a leading dot or *',
      'issuers[0].policy.permitted.ip[0] (line 14): is "10.0.0.1"; must be a network such as 10.0.0.0/8 or 2001:db8::/32',
    ])
      assert.ok(problems.includes(`signer.yaml: ${expected}`), `${expected} in\n${problems.join('\n')}`)
    assert.match(
      problems.join('\n'),
      /issuers\[0\]\.policy\.key_usages\[0\] \(line 13\): is "key_cert_sign"; must be one of/,
    )
    assert.match(problems.join('\n'), /colour \(line 15\): unknown key/)
  })

  test('refuses two issuers with one id', () =>
    assert.match(problemsOf(`${GOOD}${GOOD.slice(GOOD.indexOf('  - id'))}`).join(), /same id/))

  test('names every required key of an empty file, without a line that has none of them', () =>
    assert.deepEqual(problemsOf(''), [
      'signer.yaml: socket: is missing; must be a text that is not empty',
      'signer.yaml: secret_file: is missing; must be a text that is not empty',
      'signer.yaml: audit.file: is missing; must be a text that is not empty',
      'signer.yaml: issuers: is missing; must be a list of at least 1, each entry a section: keys with values',
    ]))

  test('says what belongs where a text stands in the place of a list', () =>
    assert.deepEqual(problemsOf(`${GOOD}    policy: { permitted: { dns: corp.example } }\n`), [
      'signer.yaml: issuers[0].policy.permitted.dns (line 8): is a text; must be a list, each entry a lower-case domain without a leading dot or *',
    ]))

  test('says both bounds of a number, and how it is written', () =>
    assert.deepEqual(problemsOf(`${GOOD}limits: { handshake_timeout: 0, graceful_timeout: "5" }\n`), [
      'signer.yaml: limits.handshake_timeout (line 8): is 0; must be a number above 0, at most 3600',
      'signer.yaml: limits.graceful_timeout (line 8): is "5"; must be a number above 0, at most 3600, without quotes',
    ]))

  test('never repeats what stands where the name of a secret belongs', () => {
    const text = GOOD.replace(
      '{ file: /etc/chancery/issuer.key }',
      '{ pkcs11: { library: l, token: t, label: k, pin_env: 837465 } }',
    )
    const [problem = ''] = problemsOf(text)
    assert.match(problem, /issuers\[0\]\.key\.pkcs11\.pin_env \(line 7\): is a number; must be a text/)
    assert.doesNotMatch(problem, /837465/)
  })
})
