/** The page on the probes knows each word that the code has. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

const read = (name: string) => readFileSync(path.resolve(import.meta.dirname, '../../../..', name), 'utf8')
const words = [...read('docs/decisions/probes.md').matchAll(/`([^`]+)`/g)].map(([, word]) => word as string)
const health = read('src/domain/health.ts')
const all = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([, found]) => found as string)

test('each reason of /readyz has a row with what it comes from', () => {
  const reasons = all(health.slice(health.indexOf('function unreadiness')), /'([A-Za-z]+ [A-Za-z ]+)'/g)
  const types = all(health, /export type (?:CaTrouble|DatabaseTrouble) = (.*)/g).flatMap((one) =>
    all(one, /'([^']+)'/g),
  )
  assert.ok(reasons.length >= 5 && types.length === 5, `${reasons} ${types}`)
  assert.deepEqual(
    [...reasons, ...types].filter((one) => !words.includes(one)),
    [],
  )
})

test('each check of /healthz has a row', () => {
  // They are shown under the words of /readyz.
  const underOtherWords = ['database', 'ca_backend']
  const checks = all(/checks: \{\n([\s\S]*?)\n {2}\}/.exec(health)?.[1] ?? '', /^ {4}(\w+)\??:/gm)
  assert.ok(checks.length >= 8, String(checks))
  const known = words.map((word) => word.replace(/\..*/, ''))
  assert.deepEqual(
    checks.filter((one) => !known.includes(one) && !underOtherWords.includes(one)),
    [],
  )
})

test('each gauge of readiness has a row', () => {
  for (const gauge of [
    'ready',
    'ca_up',
    'database_up',
    'database_disk_trouble',
    'database_behind',
    'given_up',
    'audit_log_broken',
  ])
    assert.ok(words.includes(`service_${gauge}`), gauge)
})
