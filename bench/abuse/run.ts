/** Well-behaved clients in a closed loop, with and without one abusive client beside them, in turn: A B A B. */

import { type Interrupt, unlessInterrupted } from '../interrupt.ts'
import type { AbuseOptions } from '../options/abuse.ts'
import type { ProgressLine } from '../report/progress.ts'
import { summarize, type Turn } from '../report/summary.ts'
import { closedLoop, withRig } from '../run.ts'
import type { ScenarioName } from '../scenario/table.ts'
import type { Contestant } from '../servers/contestant.ts'
import { startAbuser } from './abuser.ts'
import type { AbuseKind, AbuserReport } from './messages.ts'
import type { AbuseResult } from './result.ts'

/** @throws Error when the abuser or a generator process broke. */
export async function runAbuse(
  { subject, options }: Contestant,
  scenario: ScenarioName,
  kind: AbuseKind,
  { connections, pauseMs, from }: AbuseOptions,
  progress: ProgressLine,
  interrupt: Interrupt,
): Promise<AbuseResult> {
  const { directoryUrl, caCertificates, insecure, timeoutMs, servers } = options
  const job = { kind, directoryUrl, connections, pauseMs, localAddress: from, caCertificates, insecure, timeoutMs }
  return await withRig({ options, scenario, connections: 0 }, progress, interrupt, async (rig) => {
    const rounds: Turn[][] = []
    const reports: AbuserReport[] = []
    for (let round = 1; round <= servers.repeat && !interrupt.aborted; round++) {
      const load = (who: string) =>
        unlessInterrupted(rig.load({ ...closedLoop(options), name: `round ${round} of ${servers.repeat}, ${who}` }))
      const alone = await load('alone')
      if (!alone || interrupt.aborted) break
      const abuser = await startAbuser(job)
      try {
        const beside = await load(`beside ${kind}`)
        if (!beside || interrupt.aborted) break
        reports.push(await abuser.report())
        rounds.push([alone.result, beside.result])
      } finally {
        await abuser.stop()
      }
    }
    const others = summarize(scenario, `beside ${kind}`, rounds)
    return { server: subject.name, kind, connections, pauseMs, others, abuser: reports }
  })
}
