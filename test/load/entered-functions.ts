/**
 * Loaded into each thread of a service that `files-entered.ts` has started: tells how often which functions of the project
 * were entered since it was last asked. V8 counts calls without its optimizer, so nothing here measures time.
 */

import { Session } from 'node:inspector/promises'
import { createServer } from 'node:net'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { isMainThread, threadId } from 'node:worker_threads'

/** A file here is the socket of a thread. */
const THREADS = path.join(import.meta.dirname, 'threads')
const PROGRAMS = path.join(import.meta.dirname, 'dist')

const session = new Session()
session.connect()
await session.post('Profiler.enable')
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })

/** Calls by function, as `src/http/uws.js:120` with the offset of its beginning. The module itself is none. */
async function entered(): Promise<[string, number][]> {
  const { result } = await session.post('Profiler.takePreciseCoverage')
  const calls: [string, number][] = []
  for (const { url, functions } of result) {
    if (!url.startsWith('file:') || !fileURLToPath(url).startsWith(PROGRAMS)) continue
    const file = path.relative(PROGRAMS, fileURLToPath(url))
    for (const { ranges } of functions) {
      const { startOffset, count } = ranges[0]!
      if (startOffset > 0 && count > 0) calls.push([`${file}:${startOffset}`, count])
    }
  }
  return calls
}

const program = path.basename(process.argv[1] ?? '', '.js')
const server = createServer((client) => {
  void entered().then((calls) => client.end(JSON.stringify(calls)))
})
server.listen(path.join(THREADS, `${isMainThread ? program : `thread-${threadId}`}.${process.pid}`))
server.unref()
