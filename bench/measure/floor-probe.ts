/**
 * The process that measures the crypto floor on a server's processors while the server is loaded.
 *
 * Busy processors slow each other down: the same loop took 854 µs on an idle machine and 1,360 µs on a loaded one. A
 * floor from an idle moment would make every server look worse.
 */

import { FloorMeter } from './crypto-floor.ts'

/** A burst takes about 4 ms, so the probe takes about one hundredth of a processor. */
const PAUSE_MS = 400
const EXECUTIONS = 16

const meter = new FloorMeter()
let timer: NodeJS.Timeout | undefined
process.on('message', (message: 'begin' | 'end') => {
  if (message === 'begin') timer = setInterval(() => meter.run(EXECUTIONS), PAUSE_MS)
  else {
    clearInterval(timer)
    // Undefined is no message.
    process.send?.(meter.costs() ?? null, () => process.disconnect())
  }
})
process.on('disconnect', () => process.exit())
