// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${VAR} is the syntax of the file

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { substituteVariables } from '../../../src/config/shape.ts'
import { acceptedConfig, errorLines, parseTree } from './support.ts'

const ENV = { NAME: 'value', EMPTY: '', NESTED: '${NAME}', 'odd name!': 'odd' }

describe('variables', () => {
  const replaced: [string, string][] = [
    ['${NAME}', 'value'],
    ['${NAME:-other}', 'value'],
    ['${UNSET:-other}', 'other'],
    ['${UNSET:-}', ''],
    ['${UNSET:-a:-b}', 'a:-b'],
    ['${UNSET:-a}b}', 'a}b'],
    ['${EMPTY:-other}', ''],
    ['${NESTED}', '${NAME}'],
    ['${odd name!}', 'odd'],
  ]
  for (const [text, expected] of replaced)
    test(`${text} becomes ${JSON.stringify(expected)}`, () =>
      assert.equal(substituteVariables(text, ENV).value, expected))

  for (const text of ['https://${NAME}.example', ' ${NAME}', '${NAME', '$NAME', '${}', '${NAME:x}', '$${NAME}'])
    test(`${JSON.stringify(text)} stays as it is`, () => assert.equal(substituteVariables(text, ENV).value, text))

  test('values are replaced at any depth, keys are not', () => {
    const { value } = substituteVariables({ '${NAME}': [{ a: '${NAME}' }, 1, null] }, ENV)
    assert.deepEqual(value, { '${NAME}': [{ a: 'value' }, 1, null] })
  })

  test('an unset variable without default is an error with its name, path and line', () =>
    assert.deepEqual(errorLines(parseTree({ dns: { resolvers: ['192.0.2.1', '${RESOLVER}'] } })), [
      'dns.resolvers[1] (line 1): the variable RESOLVER is not set; set it or give a default: ${RESOLVER:-default}',
    ]))

  test('a number or a switch may come from a variable, or from its default', () => {
    const server = { port: '${PORT}', workers: '${WORKERS:-3}', timeout: '${EMPTY}', keepalive: '${EMPTY}' }
    const tree = { server, database: { connection_timeout: '${WAIT}' }, metrics: { enabled: '${METRICS}' } }
    const config = acceptedConfig(parseTree(tree, { ...ENV, PORT: '8444\n', WAIT: '2.5', METRICS: 'True' }))
    const { port, workers, timeout, keepalive } = config.server
    assert.deepEqual([port, workers, timeout, keepalive], [8444, 3, 30, null])
    assert.deepEqual([config.database.connection_timeout, config.metrics.enabled], [2.5, true])
  })

  test('what is no number, no switch or out of bounds is refused', () => {
    const tree = { server: { port: '${PORT}', timeout: '${TIME}' }, metrics: { enabled: '${METRICS}' } }
    assert.deepEqual(errorLines(parseTree(tree, { PORT: '70000', TIME: '1e3', METRICS: 'yes' })), [
      'server.port (line 1): is a number from ${PORT}; must be a whole number from 1 to 65535',
      'server.timeout (line 1): is a text from ${TIME}; must be a whole number, at least 1',
      'metrics.enabled (line 1): is a text from ${METRICS}; must be true or false',
    ])
  })

  test('a text of digits stays a text where the key wants one', () =>
    assert.equal(
      acceptedConfig(parseTree({ database: { password: '${PIN}' } }, { PIN: '0042' })).database.password,
      '0042',
    ))

  test('line ends behind a value and a byte order mark before it are cut', () => {
    for (const PASSWORD of ['secret\n', 'secret\r\n', 'secret\n\n', '\uFEFFsecret\r\n'])
      assert.equal(
        acceptedConfig(parseTree({ database: { password: '${PASSWORD}' } }, { PASSWORD })).database.password,
        'secret',
      )
    assert.equal(substituteVariables('${NAME}', { NAME: ' a\nb ' }).value, ' a\nb ')
  })

  test('what a variable holds is validated', () =>
    assert.deepEqual(errorLines(parseTree({ logging: { level: '${LEVEL}' } }, { LEVEL: 'LOUD' })), [
      'logging.level (line 1): is a text from ${LEVEL}; must be one of DEBUG, INFO, WARNING, ERROR, CRITICAL',
    ]))

  test('an optional text from an empty variable is as if left out', () => {
    const config = acceptedConfig(parseTree({ tos: { url: '${TOS:-}' }, smtp: { host: '${EMPTY}' } }, ENV))
    assert.equal(config.tos.url, null)
    assert.equal(config.smtp.host, null)
  })

  for (const [key, tree] of Object.entries({
    'server.external_url': { server: { external_url: 'https://${NAME}.example.com' } },
    'server.tls.cert_path': { server: { tls: { cert_path: '/etc/${NAME}/cert.pem' } } },
    'database.host': { database: { host: 'db.${NAME}' } },
    'database.host[1]': { database: { host: ['db', 'db.${NAME}'] } },
    'email.allowed_domains[0]': { email: { allowed_domains: ['${NAME}.example.com'] } },
    'server.port': { server: { port: '84${NAME}' } },
    'audit_export.webhook_url': { audit_export: { webhook_url: 'https://hooks.example.com/${NAME}' } },
    'challenges.perspectives[0].url': {
      challenges: { perspectives: [{ name: 'a', url: 'https://${NAME}.example', token: 'x' }] },
    },
  }))
    test(`a reference inside a longer text is an error at ${key}`, () => {
      const lines = errorLines(parseTree(tree, ENV)).filter((line) => line.startsWith(`${key} `))
      assert.equal(lines.length, 1)
      assert.match(lines[0] ?? '', /holds a variable reference inside a longer text/)
    })

  test('a reference inside a longer secret may be part of it, and is warned about', () => {
    const parsed = parseTree({ database: { password: 'a${b}c' } }, ENV)
    assert.ok(parsed.ok && parsed.warnings.some(({ path }) => path === 'database.password'))
    assert.equal(acceptedConfig(parsed).database.password, 'a${b}c')
  })
})
