import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseConfigText } from '../../../src/config/load.ts'

const read = (text: string) => parseConfigText(text, { format: 'yaml', env: {}, sections: ['perspective', 'dns'] })
const placesOf = (text: string) => {
  const parsed = read(text)
  return parsed.ok ? [] : parsed.errors.map(({ path }) => path)
}

describe('a file of which only some sections are read', () => {
  test('need not have the others', () => {
    const parsed = read('perspective: {code: here}')
    assert.ok(parsed.ok)
    assert.equal(parsed.config.perspective.code, 'here')
    assert.deepEqual(parsed.warnings, [])
  })
  test('may have them, whatever they say between each other', () =>
    assert.deepEqual(placesOf('server: {tls: {cert_path: a}}\nadmin_api: {enabled: true}\nca: {backend: hsm}'), []))
  test('is refused for a key that does not exist, wherever it stands', () =>
    assert.deepEqual(placesOf('perspectiv: {}\nserver: {prt: 1}'), ['perspectiv', 'server.prt']))
  test('is refused for a wrong value in a section that is read', () =>
    assert.deepEqual(placesOf('perspective: {port: 0, tokens: [short]}'), [
      'perspective.port',
      'perspective.tokens[0]',
    ]))
})
