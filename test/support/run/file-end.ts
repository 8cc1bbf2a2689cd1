/**
 * Loaded before each test file of a run. It ends a file whose tests are over and which something keeps alive, such as a server that a
 * failed test did not close: Node would wait for it until the time of the whole file is over. And it notes what the process spent.
 */

import { isMainThread } from 'node:worker_threads'
import { endChildrenOf } from '../descendants.ts'
import { WAIT_MS } from '../patience.ts'
import { cpuOf, notePart } from './used-parts.ts'

// The threads of a test load this, too, and what it forks; in a thread the test runner would take errors over.
if (isMainThread && /\.test\.m?js$/.test(process.argv[1] ?? '')) {
  const { after } = await import('node:test')
  after(() => {
    setTimeout(() => {
      console.error(`the tests are over, and these keep the file alive: ${process.getActiveResourcesInfo()}`)
      endChildrenOf(process.pid)
      process.exit(1)
    }, WAIT_MS).unref()
  })
  process.on('exit', () => notePart({ kind: 'test process', seconds: process.uptime(), cpu: cpuOf() }))
}
