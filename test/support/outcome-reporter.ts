/** A reporter for the process of one test file or several: a line of JSON for each test that ended, for `test-process.ts`. */

import { AssertionError } from 'node:assert'
import type { TestEvent } from 'node:test/reporters'
import { inspect } from 'node:util'

export interface TestEnd {
  /** The source, from `test` on. */
  file: string
  /** Its own name, behind the names of its suites. */
  name: string
  result: 'passed' | 'failed' | 'skipped' | 'suite'
  /** The time of a test or suite that is in no other. */
  seconds?: number
  /** The error of a failure, unless it only says that something in it failed. */
  error?: string
  skipReason?: string
}

/** From the source map or, where a file failed as a whole, from the compiled file. */
export const sourceName = (file: string) => file.replace(/^.*\/(?=test\/)/, '').replace(/\.js$/, '.ts')

/** Finds what the test threw, which Node wraps. */
function textOf(error: Error): string | undefined {
  if ('failureType' in error && error.failureType === 'subtestsFailed') return undefined
  const thrown: unknown = error.cause ?? error
  // Its suite says why.
  if (thrown === 'test did not finish before its parent and was cancelled') return undefined
  // The difference is in the message; what is compared follows it once more, otherwise.
  const text = thrown instanceof AssertionError ? (thrown.stack ?? thrown.message) : inspect(thrown, { depth: 6 })
  return text.replace(/\n +at .*\(?node:.*/g, '')
}

export default async function* outcomes(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const names: string[] = []
  for await (const event of events) {
    if (event.type === 'test:start') names.splice(event.data.nesting, names.length, event.data.name)
    if (event.type !== 'test:pass' && event.type !== 'test:fail') continue
    const { data } = event
    const isFailed = event.type === 'test:fail' && data.todo === undefined
    const end: TestEnd = {
      file: sourceName(data.file ?? ''),
      name: [...names.slice(0, data.nesting), data.name].join(' › '),
      result: data.skip !== undefined ? 'skipped' : isFailed ? 'failed' : 'passed',
    }
    const error = isFailed ? textOf((data.details as { error: Error }).error) : undefined
    if (error !== undefined) end.error = error
    // A suite counts where it failed by itself, such as in `before`.
    if (data.details.type === 'suite' && error === undefined) end.result = 'suite'
    if (data.nesting === 0) end.seconds = data.details.duration_ms / 1000
    if (typeof data.skip === 'string') end.skipReason = data.skip
    yield `${JSON.stringify(end)}\n`
  }
}
