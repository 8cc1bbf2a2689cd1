/** The alerting rules below deploy/, and the metrics that the manual names: each of them is one that the service has. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { parse } from 'yaml'
import { createMetrics, takeSnapshot } from '../../src/ops/metrics.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const read = (name: string) => readFileSync(path.join(ROOT, name), 'utf8')

interface Rule {
  alert: string
  expr: string
  for?: string
  labels: { severity: string }
  annotations: { summary: string }
}

const { groups } = parse(read('deploy/prometheus-rules.yml')) as { groups: { name: string; rules: Rule[] }[] }
const rules = groups.flatMap((group) => group.rules)

async function knownMetrics(): Promise<Set<string>> {
  const metrics = createMetrics()
  metrics.requests.answered('GET', 200, 'directory', 0.001)
  return new Set((await takeSnapshot(metrics)).map(({ name }) => name))
}

async function assertKnown(text: string): Promise<void> {
  const known = await knownMetrics()
  const named = [...text.matchAll(/\bservice_[a-z0-9_]+/g)].map(([name]) => name)
  assert.ok(named.length > 0)
  assert.deepEqual(
    named.filter((name) => !known.has(name)),
    [],
  )
}

describe('the alerting rules', () => {
  for (const { alert, expr } of rules) {
    test(`${alert} is about metrics that the service has`, () => assertKnown(expr))
  }

  test('have names of their own, a severity and a sentence', () => {
    assert.equal(new Set(rules.map(({ alert }) => alert)).size, rules.length)
    for (const { alert, labels, annotations } of rules) {
      assert.match(labels.severity, /^(?:critical|warning)$/, alert)
      assert.match(annotations.summary, /\S\.$/, alert)
    }
  })

  test('have one that fires on an idle service whose signer is away', () => {
    assert.ok(rules.some(({ expr }) => expr === 'service_ca_up == 0'))
  })
})

test('the manual names no metric that the service does not have', () => assertKnown(read('docs/operations.md')))
