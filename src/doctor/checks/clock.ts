/** Clocks: certificates, nonces and lists compare the times of several machines. */

import type { Check } from '../check.ts'
import { requireAnswer } from '../sources.ts'
import { CannotTell, failure, ok, type Verdict, warning } from '../verdict.ts'

const ROUNDS = 5

export const CLOCK: readonly Check[] = [
  {
    id: 'clock.database',
    title: 'This host and the database agree on the time',
    async look(sources) {
      const database = await sources.database()
      let best: { offMs: number; errorMs: number } | undefined
      // Other questions may wait in front of one; the quickest answer is the most exact.
      for (let round = 0; round < ROUNDS; round++) {
        const before = Date.now()
        const { now } = await database.read('clock')
        const errorMs = (Date.now() - before) / 2
        if (!best || errorMs < best.errorMs) best = { offMs: now.getTime() - before - errorMs, errorMs }
      }
      return best && judgeClock('the database', best.offMs, best.errorMs)
    },
  },
  {
    id: 'clock.proxy',
    title: 'This host and the public URL agree on the time',
    async look(sources) {
      const before = Date.now()
      const asked = await sources.publicly(sources.local('directory'), { headers: { 'X-Request-ID': 'doctor-clock' } })
      const { headers } = requireAnswer(asked, 'the public URL')
      if (headers.date === undefined) throw new CannotTell('the public URL sends no Date header')
      // The header has whole seconds.
      return judgeClock(
        'the public URL (Date header)',
        Date.parse(headers.date) + 500 - (before + Date.now()) / 2,
        500 + (Date.now() - before) / 2,
      )
    },
  },
]

const WARNING_MS = 2_000
/** The signer takes a list whose thisUpdate is at most 5 minutes ahead of its clock. */
const FAILURE_MS = 60_000

/** @param offMs how far the other clock is ahead of this one; @param errorMs how exact that is */
export function judgeClock(whose: string, offMs: number, errorMs: number): Verdict {
  const seconds = `${(Math.abs(offMs) / 1000).toFixed(1)} s`
  const least = Math.abs(offMs) - errorMs
  if (least < WARNING_MS) return ok(`${whose} is less than ${Math.ceil((Math.abs(offMs) + errorMs) / 1000)} s away`)
  const says = `the clock of ${whose} is ${seconds} ${offMs > 0 ? 'ahead of' : 'behind'} that of this host`
  const mend = 'see on both machines which one is wrong: timedatectl; install systemd-timesyncd or chrony'
  return least < FAILURE_MS ? warning(says, mend) : failure(says, mend)
}
