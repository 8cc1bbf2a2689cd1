/**
 * The alerting rules below deploy/: that a service has what they look at, from its start, and when they fire (by promtool, the
 * checker of Prometheus). And the metrics that the manual names.
 */

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parse } from 'yaml'
import { createMetrics, takeSnapshot } from '../../src/ops/metrics.ts'
import { closeConnections, send } from '../support/acme-client.ts'
import { requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'
import { startTestService, type TestService } from '../support/service.ts'

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
  const named = [...text.matchAll(/(?<!job:)\bservice_[a-z0-9_]+/g)].map(([name]) => name)
  assert.ok(named.length > 0)
  assert.deepEqual(
    named.filter((name) => !known.has(name)),
    [],
  )
}

describe('the alerting rules', () => {
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

describe('a service from its start', () => {
  let service: TestService
  let series: string[]
  before(async () => {
    const perspective = { name: 'near', url: 'https://127.0.0.1:9', token: 'a'.repeat(32) }
    service = await startTestService({
      fronts: 1,
      config: {
        crl: { enabled: true },
        challenges: { perspectives: [perspective] },
      },
    })
    series = (await send({ method: 'GET', url: `${service.baseUrl}/metrics` })).text.split('\n')
  })
  after(async () => {
    closeConnections()
    await service.dispose()
  })

  /** Series of a selector, with their values. */
  const found = (name: string, labels: readonly string[]) =>
    series.filter((line) => new RegExp(`^${name}[{ ]`).test(line) && labels.every((label) => line.includes(label)))

  for (const { alert, expr } of rules) {
    test(`has what ${alert} looks at, and counters at 0`, () => {
      const selectors = [...expr.matchAll(/(increase\()?\b(service_[a-z0-9_]+)(?:\{([^}]*)\})?/g)]
      assert.ok(selectors.length > 0)
      for (const [, isCounted, name = '', labels = ''] of selectors) {
        const lines = found(name, labels === '' ? [] : labels.split(','))
        assert.ok(lines.length > 0, `${name}{${labels}}`)
        assert.ok(series.includes(`# TYPE ${name} ${isCounted ? 'counter' : 'gauge'}`), name)
        // Rounds that went well are counted by then, too.
        if (isCounted && name !== 'service_cleanup_runs_total') for (const line of lines) assert.match(line, / 0$/)
      }
    })
  }

  test('says when its issuer ends', () => {
    const [line = ''] = found('service_issuer_not_after_seconds', ['issuer="default"'])
    const end = new Date(1000 * Number(line.split(' ')[1]))
    assert.ok(end.getTime() > Date.now() + 86_400_000, line)
  })
})

describe('the rules as Prometheus reads them', requireCommand('promtool'), () => {
  const file = (name: string) => path.join(ROOT, 'deploy', name)

  test('are valid', async () => {
    await mustRun('promtool', ['check', 'rules', file('prometheus-rules.yml')])
  })

  test('fire as prometheus-rules.test.yml says, and not on a healthy service', async () => {
    await mustRun('promtool', ['test', 'rules', file('prometheus-rules.test.yml')])
  })
})

test('there is an example of each alert firing', () => {
  const text = read('deploy/prometheus-rules.test.yml')
  assert.deepEqual(
    rules.map(({ alert }) => alert).filter((alert) => !text.includes(`alertname="${alert}",alertstate="firing"`)),
    [],
  )
})

test('the manual names no metric that the service does not have', () =>
  assertKnown(
    readdirSync(path.join(ROOT, 'docs/operations'))
      .map((name) => read(`docs/operations/${name}`))
      .join('\n'),
  ))
