/**
 * `npm run bench -- overload`: more than a server can do.
 *
 * A closed loop finds the maximum. Then one open loop goes without a pause through calm, flood and calm again, so that
 * nothing that a flood leaves behind can hide between two runs.
 */

import { option, type Raw, readOptions, UsageError } from '../src/shared/command-line.ts'
import type { Command, Outcome } from './contest.ts'
import { number } from './flags.ts'
import { type Latency, latencyOf, percentileMs, type Slot, sumOfSlots } from './measure/stats.ts'
import { DEFAULT_SCENARIO, FLAGS, type Options, parseOptions, TABLE } from './options.ts'
import type { OverloadResult } from './report/document.ts'
import { isGood } from './report/result.ts'
import { number as shown, troubleLines, warmupWarning } from './report/text.ts'
import { closedLoop, type Surroundings, withRig } from './run.ts'
import type { ScenarioName } from './scenario/table.ts'
import { withServers } from './servers/start.ts'
import { unlessInterrupted } from './surroundings.ts'

const { rate: _, compare: __, repeat: ___, figures: ____, ...COMMON } = FLAGS
const OWN_FLAGS = {
  flood: option('Seconds of the flood', number(2, 604_800), 60),
  calm: option('Seconds before the flood and after it', number(2, 604_800), 15),
  factor: option('Rate of the flood, in multiples of the maximum; calm is half of the maximum', number(1, 1000), 2),
}
type Settings = { flood: number; calm: number; factor: number }

/** Enough to have many in flight at a server that only queues; who waits longer than a second is one too many. */
const CONNECTIONS = 1000
const PATIENCE_MS = 1000
const CALM_SHARE = 0.5
/** Short enough to see a recovery of some hundred milliseconds. */
const SLOT_SECONDS = 0.2
/** Beyond this factor of the p95 before the flood, latency is not back. */
const BACK_WITHIN = 1.5
const RECOVERY_SECONDS = 1
const WORST_SECONDS = 5
/** At the start of each part, while it settles. */
const SETTLING_SECONDS = 1

export const command: Command = {
  about: [
    'Offer a server more than it can do: goodput, refusals, latency, recovery.',
    'A closed loop finds the maximum; then an open loop goes from calm to flood and back without a pause.',
    'Here "bench" stands for: npm run bench --',
  ],
  examples: ['overload --start --clients 64 --html overload.html'],
  options: { ...COMMON, ...OWN_FLAGS },
  run: overloadServers,
}

async function overloadServers(raw: Raw, around: Surroundings): Promise<Outcome> {
  const settings = readOptions(OWN_FLAGS, raw)
  const scenario = raw['scenario'] ?? DEFAULT_SCENARIO
  const plan = parseOptions({ ...raw, scenario, connections: raw['connections'] ?? CONNECTIONS })
  if (plan.isTable) throw new UsageError(`--scenario ${TABLE}: an overload has another one`)
  return await withServers(plan, around, async (contestants) => {
    const overload: OverloadResult[] = []
    for (const scenario of plan.scenarios)
      for (const { subject, options } of contestants) {
        if (around.interrupt.aborted) break
        const result = await unlessInterrupted(runOverload(subject.name, options, scenario, settings, around))
        if (!result) break
        process.stdout.write(renderOverload(result))
        overload.push(result)
      }
    const good = overload.every(({ maximum, run }) => isGood(maximum) && isGood(run))
    return { plan, parts: { servers: contestants.map(({ subject }) => subject), overload }, isGood: good }
  })
}

async function runOverload(
  server: string,
  options: Options,
  scenario: ScenarioName,
  { calm, flood, factor }: Settings,
  around: Surroundings,
): Promise<OverloadResult> {
  const { connections } = options
  return await withRig(options, scenario, connections, around, async (load) => {
    const { result: maximum } = await load({ ...closedLoop(options), name: 'finding the maximum' })
    if (maximum.perSecond === 0) throw new Error('nothing succeeded in the closed loop, so there is no maximum')
    const [calmRate, floodRate] = [CALM_SHARE * maximum.perSecond, factor * maximum.perSecond]
    const quiet = { perSecond: calmRate, forMs: 1000 * calm }
    const steps = [quiet, { perSecond: floodRate, forMs: 1000 * flood, leaveAtEnd: true }, quiet]
    const { result: run, slots } = await load({
      name: `calm, flood (${floodRate.toFixed(0)}/s), calm`,
      shape: { kind: 'open', perSecond: floodRate, ofMaximum: factor, connections },
      phase: { arrivals: { steps, patienceMs: PATIENCE_MS }, slotMs: SLOT_SECONDS * 1000 },
      warmup: [],
    })
    const reckoned = reckonOverload(maximum.perSecond, slots, calm, calm + flood)
    return { server, maximum, run, offered: { calm: calmRate, flood: floodRate }, ...reckoned }
  })
}

/** @param from the flood's begin, `to` its end; seconds from the start of the run. */
export function reckonOverload(maximum: number, slots: readonly Slot[], from: number, to: number) {
  const between = (first: number, last?: number) => slots.slice(slotAt(first), last && slotAt(last))
  const inFlood = between(from, to)
  const { latency, ...flood } = sumOfSlots(inFlood)
  const calm = sumOfSlots(between(SETTLING_SECONDS, from)).latency
  return {
    goodputShare: flood.succeeded / (to - from) / maximum,
    worstGoodputShare: worstRate(inFlood) / maximum,
    flood,
    latency: {
      before: latencyOf(calm),
      flood: latencyOf(latency),
      after: latencyOf(sumOfSlots(between(to + SETTLING_SECONDS)).latency),
    },
    recoverySeconds: recoveryOf(between(to), percentileMs(calm, 95)),
  }
}

const slotAt = (seconds: number) => Math.round(seconds / SLOT_SECONDS)

function worstRate(slots: readonly Slot[]): number {
  const size = Math.min(slotAt(WORST_SECONDS), slots.length)
  const starts = slots.slice(0, slots.length - size + 1).keys()
  return (
    Math.min(...[...starts].map((start) => sumOfSlots(slots.slice(start, start + size)).succeeded)) /
    (size * SLOT_SECONDS)
  )
}

/** The first moment from which a second's arrivals are all served, about as fast as before. */
function recoveryOf(slots: readonly Slot[], p95Before: number): number | undefined {
  const size = slotAt(RECOVERY_SECONDS)
  for (let start = 0; start + size <= slots.length; start++) {
    const { latency, refused, dropped, failed } = sumOfSlots(slots.slice(start, start + size))
    const isBack = latency.totalCount > 0 && percentileMs(latency, 95) <= BACK_WITHIN * p95Before
    if (isBack && refused + dropped + failed === 0) return Math.round(start * SLOT_SECONDS * 10) / 10
  }
  return undefined
}

function renderOverload(result: OverloadResult): string {
  const { server, maximum, run, goodputShare, worstGoodputShare, flood, latency, recoverySeconds } = result
  const percent = (share: number) => `${(share * 100).toFixed(0)} %`
  const words = ({ p50, p99, max }: Latency) => `p50 ${shown(p50)}, p99 ${shown(p99)}, max ${shown(max)} ms`
  const isTooLow = goodputShare > 1 && flood.refused + flood.dropped + flood.failed === 0
  const counts = (['succeeded', 'refused', 'dropped', 'failed'] as const).map((name) => `${flood[name]} ${name}`)
  const lines = [
    ['maximum', `${shown(maximum.perSecond)}/s`],
    [
      'goodput in flood',
      `${percent(goodputShare)} of it, ${percent(worstGoodputShare)} in the worst ${WORST_SECONDS} s`,
    ],
    ['of the flood', counts.join(', ')],
    ['latency before', words(latency.before)],
    ['latency in flood', words(latency.flood)],
    ['latency after', words(latency.after)],
    ['recovery', recoverySeconds === undefined ? 'not within the run' : `${recoverySeconds} s after the flood`],
  ] as const
  return [
    `overload of ${server} with ${run.scenario}`,
    ...lines.map(([name, value]) => `  ${name.padEnd(18)}${value}`),
    ...warmupWarning(maximum),
    ...(isTooLow ? ['this was no overload: the maximum was found too low; raise --duration or --factor'] : []),
    ...troubleLines(run),
    '',
  ].join('\n')
}
