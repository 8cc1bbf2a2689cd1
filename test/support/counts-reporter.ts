/** A reporter for Node's test runner that writes the counts of a run as one JSON object, and how long each file took. */

import type { TestEvent } from 'node:test/reporters'

export interface TestCounts {
  passed: number
  failed: number
  skipped: number
  /** Why tests were skipped, each reason once. */
  skipReasons: string[]
  /** Path of a file, from `test` on → seconds that its tests took. */
  seconds: Record<string, number>
}

/** Node ends a run with diagnostics such as "pass 12"; a cancelled test has not passed, so it counts as failed. */
const COUNTED: Record<string, 'passed' | 'failed' | 'skipped'> = {
  pass: 'passed',
  fail: 'failed',
  cancelled: 'failed',
  skipped: 'skipped',
}

export default async function* countsReporter(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const counts: TestCounts = { passed: 0, failed: 0, skipped: 0, skipReasons: [], seconds: {} }
  const reasons = new Set<string>()
  for await (const event of events) {
    if (event.type === 'test:diagnostic' && event.data.nesting === 0) {
      const [, name, number] = /^(\w+) (\d+)$/.exec(event.data.message) ?? []
      const counted = name && COUNTED[name]
      if (counted) counts[counted] += Number(number)
    }
    if ((event.type === 'test:pass' || event.type === 'test:fail') && event.data.nesting === 0) {
      const name = event.data.file?.replace(/^.*\/(?=test\/)/, '') ?? ''
      counts.seconds[name] = (counts.seconds[name] ?? 0) + event.data.details.duration_ms / 1000
    }
    if (event.type === 'test:pass' && typeof event.data.skip === 'string') reasons.add(event.data.skip)
  }
  counts.skipReasons = [...reasons]
  yield JSON.stringify(counts)
}
