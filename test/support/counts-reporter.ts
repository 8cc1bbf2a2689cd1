/** A reporter for Node's test runner that writes the counts of a run as one JSON object, and how long each file took. */

import type { TestEvent } from 'node:test/reporters'

export interface TestCounts {
  passed: number
  failed: number
  skipped: number
  /** Why tests were skipped, each reason once. */
  skipReasons: string[]
  /** Where a test failed: paths of sources, from `test` on. */
  failedFiles: string[]
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

/** From the source map or, where a file failed as a whole, from the compiled file. */
export const sourceName = (file: string) => file.replace(/^.*\/(?=test\/)/, '').replace(/\.js$/, '.ts')

export default async function* countsReporter(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const counts: TestCounts = { passed: 0, failed: 0, skipped: 0, skipReasons: [], failedFiles: [], seconds: {} }
  const reasons = new Set<string>()
  const failedFiles = new Set<string>()
  for await (const event of events) {
    if (event.type === 'test:diagnostic' && event.data.nesting === 0) {
      const [, name, number] = /^(\w+) (\d+)$/.exec(event.data.message) ?? []
      const counted = name && COUNTED[name]
      if (counted) counts[counted] += Number(number)
    }
    if ((event.type === 'test:pass' || event.type === 'test:fail') && event.data.nesting === 0) {
      const name = sourceName(event.data.file ?? '')
      counts.seconds[name] = (counts.seconds[name] ?? 0) + event.data.details.duration_ms / 1000
    }
    if (event.type === 'test:fail' && event.data.file) failedFiles.add(sourceName(event.data.file))
    if (event.type === 'test:pass' && typeof event.data.skip === 'string') reasons.add(event.data.skip)
  }
  counts.skipReasons = [...reasons]
  counts.failedFiles = [...failedFiles]
  yield JSON.stringify(counts)
}
