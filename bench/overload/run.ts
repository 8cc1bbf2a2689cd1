/** Runs an overload: a closed loop finds the maximum, then one open loop goes from calm to flood and back. */

import type { Interrupt } from '../interrupt.ts'
import type { OverloadOptions } from '../options/overload.ts'
import type { ProgressLine } from '../report/progress.ts'
import { closedLoop, withRig } from '../run.ts'
import type { ScenarioName } from '../scenario/table.ts'
import type { Contestant } from '../servers/contestant.ts'
import { type OverloadPart, type OverloadResult, reckonOverload } from './result.ts'

/** Short enough to see a recovery of some hundred milliseconds. */
const SLOT_MS = 200

/** @throws Error when the closed loop brought nothing, or a generator process broke. */
export async function runOverload(
  { subject, options }: Contestant,
  scenario: ScenarioName,
  { calmSeconds, floodSeconds, factor, calmShare }: OverloadOptions,
  progress: ProgressLine,
  interrupt: Interrupt,
): Promise<OverloadResult> {
  const { connections, patienceMs } = options.open
  return await withRig({ options, scenario, connections }, progress, interrupt, async (rig) => {
    const { result: maximum } = await rig.load({ ...closedLoop(options), name: 'finding the maximum' })
    if (maximum.perSecond === 0) throw new Error('nothing succeeded in the closed loop, so there is no maximum')
    const calm = calmShare * maximum.perSecond
    const flood = factor * maximum.perSecond
    const [floodFrom, floodTo] = [calmSeconds, calmSeconds + floodSeconds]
    const parts = [
      { name: 'before', from: 0, to: floodFrom, perSecond: calm },
      { name: 'flood', from: floodFrom, to: floodTo, perSecond: flood },
      { name: 'after', from: floodTo, to: floodTo + calmSeconds, perSecond: calm },
    ] satisfies [OverloadPart, OverloadPart, OverloadPart]
    const steps = parts.map(({ name, from, to, perSecond }) => ({
      ...{ perSecond, forMs: (to - from) * 1000 },
      leaveAtEnd: name === 'flood',
    }))
    const { result: run, ...measured } = await rig.load({
      name: `calm, flood (${flood.toFixed(0)}/s), calm`,
      shape: { kind: 'open', perSecond: flood, ofMaximum: factor, connections, patienceSeconds: patienceMs / 1000 },
      phase: { arrivals: { steps, patienceMs }, slotMs: SLOT_MS },
      warmup: [],
    })
    return reckonOverload({ server: subject.name, maximum, run, parts, ...measured })
  })
}
