// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${VAR} is the syntax of the file

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { substituteVariables } from '../../../src/config/substitute.ts'
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
  for (const [text, expected] of replaced) {
    test(`${text} becomes ${JSON.stringify(expected)}`, () => {
      assert.equal(substituteVariables(text, ENV).value, expected)
    })
  }

  for (const text of ['https://${NAME}.example', ' ${NAME}', '${NAME', '$NAME', '${}', '${NAME:x}', '$${NAME}']) {
    test(`${JSON.stringify(text)} stays as it is`, () => {
      assert.equal(substituteVariables(text, ENV).value, text)
    })
  }

  test('values are replaced at any depth, keys are not', () => {
    const { value } = substituteVariables({ '${NAME}': [{ a: '${NAME}' }, 1, null] }, ENV)
    assert.deepEqual(value, { '${NAME}': [{ a: 'value' }, 1, null] })
  })

  test('an unset variable without default is an error with its name, path and line', () => {
    assert.deepEqual(errorLines(parseTree({ dns: { resolvers: ['192.0.2.1', '${RESOLVER}'] } })), [
      'dns.resolvers[1] (line 1): the variable RESOLVER is not set; set it or give a default: ${RESOLVER:-default}',
    ])
  })

  test('a number cannot come from a variable', () => {
    assert.deepEqual(errorLines(parseTree({ server: { port: '${PORT}' } }, { PORT: '8443' })), [
      'server.port (line 1): is a text from ${PORT}; must be a whole number from 1 to 65535, without quotes and not from a variable',
    ])
  })

  test('what a variable holds is validated', () => {
    assert.deepEqual(errorLines(parseTree({ logging: { level: '${LEVEL}' } }, { LEVEL: 'LOUD' })), [
      'logging.level (line 1): is a text from ${LEVEL}; must be one of DEBUG, INFO, WARNING, ERROR, CRITICAL',
    ])
  })

  test('an optional text from an empty variable is as if left out', () => {
    const config = acceptedConfig(parseTree({ tos: { url: '${TOS:-}' }, smtp: { host: '${EMPTY}' } }, ENV))
    assert.equal(config.tos.url, null)
    assert.equal(config.smtp.host, null)
  })

  test('a reference inside a longer text is warned about', () => {
    const parsed = parseTree({ email: { allowed_domains: ['${NAME}.example.com'] } }, ENV)
    assert.ok(parsed.ok && parsed.warnings.some(({ path }) => path === 'email.allowed_domains[0]'))
  })
})
