/**
 * A process that measures the crypto floor while a server is loaded: on the server's processors, a few milliseconds every
 * now and then.
 *
 * On a machine whose other processors are at work, the same instructions take up to 1.6 times as long as on an idle one:
 * processors share caches, memory and, behind a hypervisor, cores. What the server uses is inflated by as much, so a floor from an idle
 * moment makes every server look worse than it is.
 */

import { FloorMeter } from './crypto-floor.ts'

/** A burst takes about 5 ms, so the probe takes about one hundredth of a processor from the server. */
const PAUSE_MS = 400
const EXECUTIONS = 16

const meter = new FloorMeter()
let timer: NodeJS.Timeout | undefined
process.on('message', (message: 'begin' | 'end') => {
  if (message === 'begin') timer = setInterval(() => meter.run(EXECUTIONS), PAUSE_MS)
  else {
    clearInterval(timer)
    // A run that was over before the first burst has no costs, and undefined is no message.
    process.send?.(meter.costs() ?? null, () => process.disconnect())
  }
})
process.on('disconnect', () => process.exit())
