/** Conducts one scenario: prepares the generators, warms up, measures, checks what came, and sums up. */

import { randomBytes } from 'node:crypto'
import { Fleet, type GeneratorJob, type Phase, shareOf } from './generator/fleet.ts'
import { startFloorBeside } from './measure/crypto-floor.ts'
import { memoryByRole } from './measure/memory.ts'
import { sampleServer, totalMicros } from './measure/server-cpu.ts'
import { DEFAULT_SLOT_MS, RunStats, type Slot, type StatsSnapshot } from './measure/stats.ts'
import type { Options, Rate } from './options.ts'
import { buildResult, type LoadShape, type Result, type Warmup } from './report/result.ts'
import { type Proofs, startResponder } from './responder/responders.ts'
import { type ScenarioName, scenarioNamed } from './scenario/table.ts'
import { again, type ProgressLine, unlessInterrupted } from './surroundings.ts'

/** Connections open and queues settle before an open loop is measured. */
const SETTLING_MS = 3_000
/** An arrival of the open loop that finds no connection for so long goes away, and counts as dropped. */
const PATIENCE_MS = 5_000
/** A name is asked about within seconds; half a million of them are some 100 MB. */
const MOST_PROOFS = 500_000
const UNTIL_STEADY = 'until steady'

interface Load {
  /** For the progress line. */
  name: string
  shape: LoadShape
  phase: Phase
  /** Phases before the measurement, one after the other. */
  warmup: readonly (Phase | typeof UNTIL_STEADY)[]
}

interface Loaded {
  result: Result
  /** The slots of `result.series`, with whole distributions. */
  slots: readonly Slot[]
}

/** @returns what was measured, until an interruption too. @throws Interrupted when nothing was measured yet */
type Loader = (load: Load) => Promise<Loaded>

/** The needs of a run beside its options. */
export interface Surroundings {
  progress: ProgressLine
  interrupt: AbortSignal
}

/**
 * Loads a server with one scenario as the options say: a closed loop, or an open one at each rate in turn.
 * @returns what was measured until an interruption, of one load or none too
 * @throws Error when the run could not begin or a generator process broke
 */
export function runScenario(options: Options, scenario: ScenarioName, around: Surroundings): Promise<Result[]> {
  const { rates } = options
  const connections = rates.length === 0 ? 0 : options.connections
  return withRig(options, scenario, connections, around, async (loadOnce) => {
    const results: Result[] = []
    const load = async (load: Load) => {
      const loaded = await unlessInterrupted(loadOnce(load))
      if (loaded) results.push(loaded.result)
    }
    if (rates.length === 0 || rates.some((rate) => 'ofMaximum' in rate)) await load(closedLoop(options))
    const maximum = results[0]?.perSecond
    for (const rate of rates) if (!around.interrupt.aborted) await load(openLoop(options, rate, maximum))
    return results
  })
}

export function closedLoop({ count, durationMs, warmupMs }: Options): Load {
  const phase = count === undefined ? { forMs: durationMs } : { operations: count }
  const warmup = warmupMs === undefined ? UNTIL_STEADY : { forMs: warmupMs }
  return { name: 'measuring', shape: { kind: 'closed' }, phase, warmup: warmupMs === 0 ? [] : [warmup] }
}

/** @throws Error for a part of a maximum of nothing */
function openLoop(options: Options, rate: Rate, maximum: number | undefined): Load {
  const { connections, durationMs } = options
  const ofMaximum = 'ofMaximum' in rate ? rate.ofMaximum : undefined
  const perSecond = 'perSecond' in rate ? rate.perSecond : rate.ofMaximum * (maximum ?? 0)
  if (perSecond <= 0) throw new Error('nothing succeeded in the closed loop, so there is no maximum to take a part of')
  return {
    name: `open loop at ${perSecond.toFixed(1)}/s`,
    shape: { kind: 'open', perSecond, ofMaximum, connections },
    phase: { arrivals: { steps: [{ perSecond, forMs: durationMs }], patienceMs: PATIENCE_MS } },
    // A closed loop has warmed the server up, unless there was none.
    warmup: [
      ...(maximum === undefined ? closedLoop(options).warmup : []),
      { arrivals: { steps: [{ perSecond, forMs: SETTLING_MS }], patienceMs: PATIENCE_MS } },
    ],
  }
}

/** Makes generators ready for a scenario. @param connections Most of the open loop, if there is to be one. */
export async function withRig<T>(
  options: Options,
  scenario: ScenarioName,
  connections: number,
  { progress, interrupt }: Surroundings,
  use: (load: Loader) => Promise<T>,
): Promise<T> {
  interrupt.throwIfAborted()
  const proofs: Proofs = new Map()
  const fleet = new Fleet(generatorJobs(options, scenario, connections), ({ name, text }) => {
    // The oldest go first: a Map keeps the order in which its keys came.
    if (proofs.size >= MOST_PROOFS) proofs.delete(proofs.keys().next().value as string)
    proofs.set(name, text)
  })
  let isReady = false
  const stop = () => (isReady ? fleet.stop() : fleet.kill())
  interrupt.addEventListener('abort', stop)
  const kill = () => fleet.kill()
  again.addEventListener('abort', kill)
  try {
    progress.begin(`${scenario}: preparing`)
    const responder = scenarioNamed(scenario).answersChallenges
      ? await startResponder(options.challengeType, options.responders, proofs)
      : undefined
    try {
      await fleet.prepare().catch((cause: Error) => {
        interrupt.throwIfAborted()
        const advice = /certificate/.test(cause.message) ? '; name its roots with --ca-cert, or use --insecure' : ''
        throw new Error(`cannot begin with ${options.directoryUrl}: ${cause.message}${advice}`, { cause })
      })
      isReady = true
      return await use((load) => measure(options, scenario, load, fleet, { progress, interrupt }))
    } finally {
      await responder?.close()
    }
  } catch (error) {
    throw again.aborted ? again.reason : error
  } finally {
    interrupt.removeEventListener('abort', stop)
    progress.end()
    await fleet.close()
    again.removeEventListener('abort', kill)
  }
}

async function measure(
  options: Options,
  scenario: ScenarioName,
  { name, shape, phase, warmup }: Load,
  fleet: Fleet,
  { progress, interrupt }: Surroundings,
): Promise<Loaded> {
  const run = async (phase: Phase, doing: string) => {
    // Generators that were told to stop before they run would run all the same.
    interrupt.throwIfAborted()
    const running = fleet.run(phase)
    progress.begin(`${scenario}: ${doing}`, () => fleet.progress)
    return await running
  }
  const floor = startFloorBeside(options.pids[0])
  try {
    let warmedUp: Warmup | undefined
    const runWarmup = (phase: Phase) => run(phase, 'warming up')
    for (const step of warmup) {
      if (step === UNTIL_STEADY) warmedUp = await warmUp(runWarmup, options.pids)
      else await runWarmup(step)
    }
    const sampler = sampleServer(options.pids)
    const [startedAt, start, ownCpu] = [new Date(), performance.now(), process.cpuUsage()]
    floor.begin()
    const ran = await run(phase, name).finally(sampler.end)
    const elapsedMs = performance.now() - start
    const { user, system } = process.cpuUsage(ownCpu)
    const costs = await floor.end()
    // Afterwards, because the kernel walks all pages for it.
    const memory = memoryByRole(options.pids)
    progress.begin(`${scenario}: checking`)
    const stats = new RunStats()
    for (const { stats: part } of ran) stats.add(part)
    const certificatesChecked = await checkDownloads(fleet, stats)
    const result = buildResult(options, {
      scenario,
      load: shape,
      startedAt,
      stats,
      certificatesChecked,
      samples: sampler.samples,
      memory,
      costs,
      warmup: warmedUp,
      slotMs: phase.slotMs ?? DEFAULT_SLOT_MS,
      // Operations that ended late are not in the rate, so neither is the time they took.
      seconds: Math.min(elapsedMs, plannedMs(phase)) / 1000,
      generatorCpuMicros: ran.reduce((sum, { cpuMicros }) => sum + cpuMicros, 0),
      generatorCores: Math.max(...ran.map(({ cpuMicros }) => cpuMicros)) / 1000 / elapsedMs,
      responderCpuMicros: user + system,
    })
    return { result, slots: stats.slots }
  } finally {
    floor.close()
  }
}

async function checkDownloads(fleet: Fleet, stats: RunStats): Promise<number> {
  const parts = await fleet.check()
  for (const { failures } of parts) stats.addFailures(failures)
  return parts.reduce((sum, { checked }) => sum + checked, 0)
}

/** Infinite when a count ends the phase. */
function plannedMs(phase: Phase): number {
  if ('operations' in phase) return Number.POSITIVE_INFINITY
  return 'forMs' in phase ? phase.forMs : phase.arrivals.steps.reduce((sum, { forMs }) => sum + forMs, 0)
}

function generatorJobs(options: Options, scenario: ScenarioName, connections: number): GeneratorJob[] {
  const { processes, clients } = options
  const accounts = scenarioNamed(scenario).usesAccounts ? options.accounts : 0
  const run = randomBytes(3).toString('hex')
  let firstAccount = 0
  return Array.from({ length: processes }, (_, index) => {
    const share = (total: number) => shareOf(total, processes, index)
    const job = { target: options, scenario, firstAccount, runId: `b${run}${index.toString(36)}` }
    firstAccount += share(accounts)
    return { ...job, clients: share(clients), connections: share(connections), accounts: share(accounts) }
  })
}

const WINDOW_MS = 5_000
const MOST_WINDOWS = 6
const TOLERANCE = 0.05

/** A part of the warm-up. */
interface WarmupWindow {
  perSecond: number
  /** The server's CPU for each operation; undefined when nothing succeeded or the server is not on this machine. */
  cpuMicros: number | undefined
}

/** Runs windows until two in succession are alike, or for 30 s. @throws what `run` throws */
async function warmUp(
  run: (phase: Phase) => Promise<readonly { stats: StatsSnapshot }[]>,
  pids: readonly number[],
): Promise<Warmup> {
  let before: WarmupWindow | undefined
  for (let windows = 1; ; windows++) {
    const sampler = sampleServer(pids)
    const ran = await run({ forMs: WINDOW_MS }).finally(sampler.end)
    const count = ran.reduce((sum, { stats }) => sum + stats.counts.withinWindow, 0)
    const micros = totalMicros(sampler.samples)
    const cpuMicros = micros === undefined || count === 0 ? undefined : micros / count
    const now = { perSecond: (1000 * count) / WINDOW_MS, cpuMicros }
    const hasSettled = before !== undefined && isSteady(before, now)
    if (hasSettled || windows === MOST_WINDOWS) return { seconds: (windows * WINDOW_MS) / 1000, isSteady: hasSettled }
    before = now
  }
}

/** True when both the rate and the CPU per operation differ by at most 5 percent. */
export function isSteady(before: WarmupWindow, now: WarmupWindow): boolean {
  return isNear(before.perSecond, now.perSecond) && isNear(before.cpuMicros ?? 0, now.cpuMicros ?? 0)
}

function isNear(a: number, b: number): boolean {
  return Math.abs(a - b) <= TOLERANCE * Math.max(a, b)
}
