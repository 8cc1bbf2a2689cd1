/**
 * Loaded before each test file of a run: ends a file whose tests are over and which something keeps alive, such as a server that a failed
 * test did not close. Node would wait for it until the time of the whole file is over.
 */

import { readdirSync, readFileSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'
import { WAIT_MS } from './patience.ts'

/** Of this process (Linux), those in process groups of their own included. */
function children(): number[] {
  const tasks = readdirSync('/proc/self/task')
  const pids = tasks.map((task) => readFileSync(`/proc/self/task/${task}/children`, 'utf8').split(' '))
  return pids.flat().filter(Boolean).map(Number)
}

function endChildren(): void {
  for (const pid of process.platform === 'linux' ? children() : [])
    for (const target of [-pid, pid])
      try {
        process.kill(target, 'SIGKILL')
      } catch {
        // It has ended, or leads no group.
      }
}

// The runner and the threads of a test load this, too, and what it forks; in a thread the test runner would take errors over.
if (isMainThread && /\.test\.m?js$/.test(process.argv[1] ?? '')) {
  const { after } = await import('node:test')
  after(() => {
    setTimeout(() => {
      console.error(`the tests are over, and these keep the file alive: ${process.getActiveResourcesInfo()}`)
      endChildren()
      process.exit(1)
    }, WAIT_MS).unref()
  })
}
