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
    assert.equal(parseConfig(readFileSync(file, 'utf8'), file).issuers.length, 2)
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
