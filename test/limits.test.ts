/** No limit of time decides a test: each is `WAIT_MS` of `support/patience.ts` or a part or multiple of it, never a number. */

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

const TESTS = path.resolve(import.meta.dirname, '../../test')
const NUMBER = '(\\d[\\d_]*)(?![\\w.]| \\*)'
const LIMITS = [
  `\\b(?:[A-Z_]+_)?(?:TIMEOUT|PATIENCE|DEADLINE|WITHIN|BOUND)_MS = ${NUMBER}`,
  `\\b(?:timeout|timeoutMs|withinMs)(?:\\?: number)? ?[:=] ?${NUMBER}`,
  `\\bAbortSignal\\.timeout\\(${NUMBER}\\)`,
  `\\b(?:until|waitFor|waitForLog)\\(.*, ${NUMBER}\\)`,
  `\\b(?:deadline|end)\\w* = (?:Date|performance)\\.now\\(\\) \\+ ${NUMBER}`,
].map((pattern) => new RegExp(pattern))

/** What is longer ends a wait for what never comes, on any machine. */
const MINUTE_MS = 60_000
/** A shorter `timeoutMs` is a setting of what is tested, and running out of it is what the test shows. */
const SHORTEST_SETTING_MS = 10_000
/** Less is no time in milliseconds. */
const SHORTEST_MS = 100

/** File → why it has a number. */
const EXCEPTIONS: Record<string, string> = {
  'support/acme-client.ts': 'a connection that is idle ends before the service ends it',
  'support/hosts/proxies.ts': 'a connection that is idle ends before the proxy ends it',
  'signer/record-frames.ts': 'the recorded frames hold it',
  'store/pipeline.test.ts': 'the setting of the database whose end is shown',
  'store/settled-commands.test.ts': 'the setting of the database whose end is shown',
  'events/webhook.test.ts': 'a request that is broken off is what the test shows',
  'unit/ca/external-backend.test.ts': 'a request that is broken off is what the test shows',
  'unit/settings/audit.test.ts': 'the expected value of a setting',
}

/** @returns lines with a limit of less than a minute that does not follow the machine */
function literalLimits(file: string, text: string): string[] {
  return text.split('\n').flatMap((line, i) => {
    const isLimit = LIMITS.some((limit) => {
      const [found = '', digits = ''] = limit.exec(line) ?? []
      const ms = Number(digits.replaceAll('_', ''))
      return ms < MINUTE_MS && ms >= (found.startsWith('timeoutMs') ? SHORTEST_SETTING_MS : SHORTEST_MS)
    })
    return isLimit ? [`${file}:${i + 1}: ${line.trim()}`] : []
  })
}

test('no limit of less than a minute is a number', () => {
  const files = readdirSync(TESTS, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
  assert.ok(files.length > 100, 'the sources are there')
  const read = (file: string) => literalLimits(file, readFileSync(path.join(TESTS, file), 'utf8'))
  const others = files.filter((file) => !(file in EXCEPTIONS) && file !== 'limits.test.ts')
  assert.deepEqual(others.flatMap(read), [])
  assert.deepEqual(
    Object.keys(EXCEPTIONS).filter((file) => read(file).length === 0),
    [],
    'each exception is needed',
  )
})

test('a limit is found in each form', () => {
  for (const line of [
    'const START_TIMEOUT_MS = 30_000',
    "await until('a line', look, 5_000)",
    "await service.waitForLog('ready', 500)",
    'const options = { timeout: 30_000 }',
    'timeoutMs = 20_000,',
    'const deadline = Date.now() + 30_000',
    'signal: AbortSignal.timeout(1000)',
  ])
    assert.equal(literalLimits('sample', line).length, 1, line)
})

test('settings and multiples of the one limit are none', () => {
  for (const line of ['timeoutMs: 500', 'timeout: 5', 'timeoutMs: 120_000', 'const BOUND_MS = 2 * WAIT_MS'])
    assert.deepEqual(literalLimits('sample', line), [], line)
})
