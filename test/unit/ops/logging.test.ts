/** What the log writes and what it must never write. */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'

const LOGGING = new URL('../../../src/ops/logging.js', import.meta.url).href

/** What a process of its own writes to standard output when it logs these facts: a value, or an expression that makes one. */
function written(format: 'json' | 'human', facts: object | string): string {
  const program = `
    const { createLogger } = await import(${JSON.stringify(LOGGING)})
    const { log, flush } = createLogger({ level: 'INFO', format: ${JSON.stringify(format)} }, 'main', false)
    log.info(${typeof facts === 'string' ? facts : JSON.stringify(facts)}, 'something happened')
    flush()`
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
  })
  assert.equal(status, 0, stderr)
  return stdout
}

const SECRETS = ['password', 'secret', 'pin', 'token_secret', 'hmac_key', 'eab_hmac_key', 'auth_value', 'd']

for (const format of ['json', 'human'] as const) {
  test(`secrets are cut out at every depth that is promised, in ${format}`, () => {
    const facts = Object.fromEntries(SECRETS.map((name) => [name, `hush-${name}`]))
    const text = written(format, { ...facts, database: facts, config: { database: facts }, kept: 'visible' })
    assert.doesNotMatch(text, /hush/)
    assert.equal(text.match(/\[redacted\]/g)?.length, 3 * SECRETS.length)
    assert.match(text, /visible/)
  })

  test(`secrets that an error or a list carries are cut out as well, in ${format}`, () => {
    const error = "Object.assign(new Error('lost'), { password: 'hush', config: { pin: 'hush' } })"
    const text = written(format, `{ err: ${error}, cause: ${error}, list: [{ secret: 'hush' }] }`)
    assert.doesNotMatch(text, /hush/)
    assert.match(text, /"message":"lost"/)
    assert.match(text, /"list":\[\{"secret":"\[redacted\]"\}\]|list=\[\{"secret":"\[redacted\]"\}\]/)
  })

  test(`a date and bytes are written as JSON has them, in ${format}`, () => {
    const text = written(format, '{ at: new Date(0), bytes: Buffer.from("a") }')
    assert.match(text, /1970-01-01T00:00:00\.000Z/)
    assert.match(text, /"data":\[97\]/)
  })

  test(`control characters of a client never reach a terminal or make a second line, in ${format}`, () => {
    const text = written(format, {
      path: '/a\u001b[31mb\r\nc\u0007\u0085\u009b2J',
      nested: { path: '\u001b]0;x\u0007\u009b' },
    })
    assert.equal(text.split('\n').length, 2)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    assert.doesNotMatch(text.slice(0, -1), format === 'json' ? /[\u0000-\u001f]/ : /[\u0000-\u001f\u007f-\u009f]/)
    assert.match(text, /something happened/)
  })
}

test('a front thread that is killed has written its lines with an event, whatever else it holds back', () => {
  const program = `
    const { createLogger } = await import(${JSON.stringify(LOGGING)})
    const { log } = createLogger({ level: 'INFO', format: 'json' }, 'front-1', true)
    log.info({ event: 'certificate_issued' }, 'certificate issued')
    setTimeout(() => process.kill(process.pid, 'SIGKILL'), 500)`
  const { stdout, signal } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' })
  assert.equal(signal, 'SIGKILL')
  assert.match(stdout, /"event":"certificate_issued"/)
})
