/** Conducts one scenario: prepares the generators, warms up, measures, checks what came, and sums up. */

import { randomBytes } from 'node:crypto'
import { parseTarget } from './client/connection.ts'
import { Fleet, shareOf } from './generator/fleet.ts'
import type { GeneratorJob, Phase, RanMessage } from './generator/messages.ts'
import { readSavedAccounts, writeSavedAccounts } from './generator/saved-accounts.ts'
import { type Interrupt, Interrupted, unlessInterrupted } from './interrupt.ts'
import { measureCryptoCosts } from './measure/crypto-floor.ts'
import { findListener } from './measure/find-server.ts'
import { startFloorBeside } from './measure/floor-beside.ts'
import type { ServerPids } from './measure/server-cpu.ts'
import { type ServerSample, sampleServer } from './measure/server-sampler.ts'
import { DEFAULT_SLOT_MS, RunStats } from './measure/stats.ts'
import type { Slot } from './measure/time-slots.ts'
import { isLoopback, type Options } from './options/options.ts'
import type { Rate } from './options/rate.ts'
import type { ProgressLine } from './report/progress.ts'
import { buildResult, type LoadShape, type Result } from './report/result.ts'
import { Proofs } from './responder/proofs.ts'
import { type Responder, startResponders } from './responder/responders.ts'
import { Unsupported } from './scenario/scenario.ts'
import { type ScenarioName, scenarioNamed } from './scenario/table.ts'

/** Connections open and queues settle before an open loop is measured. */
const SETTLING_MS = 3_000

/** Long enough for a steady figure, short enough not to be noticed: three primitives, before and after. */
const FLOOR_MS = 450

/** Generators that are ready, and everything they need beside them. */
export interface Rig {
  /**
   * @returns what was measured, until an interruption too; `slots` are those of `result.series`, still with whole distributions.
   * @throws Interrupted when nothing was measured yet.
   */
  load(plan: LoadPlan): Promise<{ result: Result; slots: readonly Slot[]; samples: readonly ServerSample[] }>
}

export interface LoadPlan {
  /** For the progress line. */
  name: string
  shape: LoadShape
  phase: Phase
  /** What is run before, one after the other, and not measured. */
  warmup: readonly Phase[]
  observer?: Observer
}

/** Who looks at the server while operations are measured. */
export interface Observer {
  begin(): Promise<void>
  end(): Promise<void>
}

/**
 * Loads a server with one scenario in a closed loop.
 * @param interrupt Ends the measured time early; what was measured until then is the result.
 * @throws Interrupted when nothing was measured until then. @throws Error when the run could not begin or a generator process broke.
 */
export function runScenario(
  options: Options,
  scenario: ScenarioName,
  progress: ProgressLine,
  interrupt: Interrupt,
  observer?: Observer,
): Promise<Result> {
  return withRig({ options, scenario, connections: 0 }, progress, interrupt, async (rig) => {
    const plan = { ...closedLoop(options), ...(observer && { observer }) }
    return (await rig.load(plan)).result
  })
}

/**
 * Loads a server with one scenario as the options say: a closed loop, or an open one at each rate in turn.
 * @param interrupt Ends it early; what was measured until then is the result, of one load or none too.
 * @throws Error when the run could not begin or a generator process broke.
 */
export function runRates(
  options: Options,
  scenario: ScenarioName,
  progress: ProgressLine,
  interrupt: Interrupt,
): Promise<Result[]> {
  const { rates } = options.open
  const connections = rates.length === 0 ? 0 : options.open.connections
  return withRig({ options, scenario, connections }, progress, interrupt, async (rig) => {
    const needsMaximum = rates.length === 0 || rates.some((rate) => 'ofMaximum' in rate)
    const results: Result[] = []
    const load = async (plan: LoadPlan) => {
      const loaded = await unlessInterrupted(rig.load(plan))
      if (loaded) results.push(loaded.result)
    }
    if (needsMaximum) await load(closedLoop(options))
    const maximum = results[0]?.perSecond
    for (const rate of rates) {
      if (interrupt.aborted) break
      await load(openLoop(options, rate, maximum))
    }
    return results
  })
}

export function closedLoop(options: Options): LoadPlan {
  const { count, durationMs, warmupMs } = options
  const phase = count === undefined ? { forMs: durationMs } : { operations: count }
  return { name: 'measuring', shape: { kind: 'closed' }, phase, warmup: warmupOf(warmupMs) }
}

function warmupOf(ms: number): Phase[] {
  return ms > 0 ? [{ forMs: ms }] : []
}

/** @throws Error for a part of a maximum of nothing. */
function openLoop({ open, durationMs, warmupMs }: Options, rate: Rate, maximum: number | undefined): LoadPlan {
  const ofMaximum = 'ofMaximum' in rate ? rate.ofMaximum : undefined
  const perSecond = 'perSecond' in rate ? rate.perSecond : rate.ofMaximum * (maximum ?? 0)
  if (perSecond <= 0) throw new Error('nothing succeeded in the closed loop, so there is no maximum to take a part of')
  const { connections, patienceMs } = open
  const part = ofMaximum === undefined ? '' : ` (${Math.round(ofMaximum * 100)} %)`
  return {
    name: `open loop at ${perSecond.toFixed(perSecond < 100 ? 1 : 0)}/s${part}`,
    shape: { kind: 'open', perSecond, ofMaximum, connections, patienceSeconds: patienceMs / 1000 },
    phase: { arrivals: { steps: [{ perSecond, forMs: durationMs }], patienceMs } },
    // A closed loop has warmed the server up, unless there was none.
    warmup: [
      ...(maximum === undefined ? warmupOf(warmupMs) : []),
      { arrivals: { steps: [{ perSecond, forMs: SETTLING_MS }], patienceMs } },
    ],
  }
}

/** @param what `connections` are those of the open loop, if there is to be one. */
export async function withRig<T>(
  what: { options: Options; scenario: ScenarioName; connections: number },
  progress: ProgressLine,
  interrupt: Interrupt,
  use: (rig: Rig) => Promise<T>,
): Promise<T> {
  const { options, scenario } = what
  interrupt.throwIfAborted()
  const proofs = new Proofs()
  const jobs = generatorJobs(options, scenario, what.connections)
  const fleet = new Fleet(jobs, ({ name, text }) => proofs.put(name, text))
  let isReady = false
  const stop = () => (isReady ? fleet.stop() : fleet.kill(interrupt.reason))
  const giveUp = () => fleet.kill(interrupt.again.reason)
  interrupt.addEventListener('abort', stop)
  interrupt.again.addEventListener('abort', giveUp)
  try {
    progress.begin(`${scenario}: preparing`)
    const { thumbprints, newAccounts } = await prepareFleet(fleet, options.directoryUrl)
    if (options.accountsFile !== undefined) saveAccounts(options.accountsFile, options.directoryUrl, jobs, newAccounts)
    const { answersChallenges, holdsAnswers } = scenarioNamed(scenario)
    const responder = answersChallenges
      ? await startResponders(options.challengeType, options.responders, thumbprints, proofs)
      : undefined
    try {
      if (holdsAnswers) requireHolding(responder).hold(true)
      await prepareFleetAccounts(fleet, options.directoryUrl)
      isReady = true
      const release = () => responder?.hold?.(false)
      return await use({ load: (plan) => measure(options, scenario, plan, { fleet, release }, progress, interrupt) })
    } finally {
      await responder?.close()
    }
  } finally {
    interrupt.removeEventListener('abort', stop)
    interrupt.again.removeEventListener('abort', giveUp)
    progress.end()
    await fleet.close()
  }
}

function requireHolding(responder: Responder | undefined): Required<Responder> {
  if (responder?.hold) return { ...responder, hold: responder.hold }
  throw new Unsupported('held answers are those of http-01: --challenge http-01 and an --http01-port')
}

async function prepareFleet(fleet: Fleet, directoryUrl: string) {
  try {
    return await fleet.prepare()
  } catch (cause) {
    if (cause instanceof Interrupted) throw cause
    const { message } = cause as Error
    const advice = /certificate/.test(message) ? '; name the roots to trust with --ca-cert, or use --insecure' : ''
    throw new Error(`cannot begin with ${directoryUrl}: ${message}${advice}`, { cause })
  }
}

async function prepareFleetAccounts(fleet: Fleet, directoryUrl: string): Promise<void> {
  try {
    await fleet.prepareAccounts()
  } catch (cause) {
    if (cause instanceof Unsupported || cause instanceof Interrupted) throw cause
    throw new Error(`cannot begin with ${directoryUrl}: ${(cause as Error).message}`, { cause })
  }
}

/** New ones go behind those that each job was given, so that a later run with as many processes finds them in its share. */
function saveAccounts(
  file: string,
  directoryUrl: string,
  jobs: readonly GeneratorJob[],
  newAccounts: readonly string[][],
): void {
  if (newAccounts.every((lines) => lines.length === 0)) return
  const known = readSavedAccounts(file, directoryUrl)
  const used = jobs.flatMap(({ savedAccounts }, index) => [...savedAccounts, ...(newAccounts[index] ?? [])])
  const unused = known.slice(jobs.reduce((sum, { savedAccounts }) => sum + savedAccounts.length, 0))
  writeSavedAccounts(file, directoryUrl, [...used, ...unused])
}

async function measure(
  options: Options,
  scenario: ScenarioName,
  { name, shape, phase, warmup, observer }: LoadPlan,
  { fleet, release }: { fleet: Fleet; release: () => void },
  progress: ProgressLine,
  interrupt: Interrupt,
) {
  const costsBefore = measureCryptoCosts(FLOOR_MS)
  const run = (phase: Phase, doing: string) => {
    // Generators that were told to stop before they run would run all the same.
    interrupt.throwIfAborted()
    const running = fleet.run(phase)
    progress.begin(`${scenario}: ${doing}`, () => fleet.progress)
    return running
  }
  const pids = serverPids(options)
  const floorBeside = startFloorBeside(pids.service)
  const watched = await (async () => {
    for (const phase of warmup) await run(phase, 'warming up')
    await observer?.begin()
    floorBeside.begin()
    const watched = await watch(pids, () => run(phase, name))
    return { ...watched, costsBeside: await floorBeside.end() }
  })().finally(floorBeside.close)
  const { ran, elapsedMs, ...figures } = watched
  await observer?.end()

  progress.begin(`${scenario}: checking`)
  release()
  const costsAfter = measureCryptoCosts(FLOOR_MS)
  const { stats, certificatesChecked } = await sumUp(fleet, ran)
  const result = buildResult(options, {
    scenario,
    load: shape,
    slotMs: phase.slotMs ?? DEFAULT_SLOT_MS,
    // Operations that ended late are not in the rate, so neither is the time they took.
    seconds: Math.min(elapsedMs, plannedMs(phase)) / 1000,
    stats,
    certificatesChecked,
    generatorCpuMicros: ran.reduce((sum, { cpuMicros }) => sum + cpuMicros, 0),
    generatorCores: Math.max(...ran.map(({ cpuMicros }) => cpuMicros)) / 1000 / elapsedMs,
    costsBefore,
    costsAfter,
    ...figures,
  })
  return { result, slots: stats.slots, samples: figures.samples }
}

/** Lets operations run and looks at the server meanwhile, and at what this process, which answers challenges, uses. */
async function watch(pids: ServerPids, run: () => Promise<RanMessage[]>) {
  const sampler = sampleServer(pids)
  const ownCpu = process.cpuUsage()
  const startedAt = new Date()
  const start = performance.now()
  try {
    const ran = await run()
    const elapsedMs = performance.now() - start
    const { user, system } = process.cpuUsage(ownCpu)
    return { ran, startedAt, elapsedMs, responderCpuMicros: user + system, samples: sampler.samples }
  } finally {
    sampler.end()
  }
}

/** Infinite when a count ends the phase. */
function plannedMs(phase: Phase): number {
  if ('operations' in phase) return Number.POSITIVE_INFINITY
  return 'forMs' in phase ? phase.forMs : phase.arrivals.steps.reduce((sum, { forMs }) => sum + forMs, 0)
}

async function sumUp(
  fleet: Fleet,
  ran: readonly RanMessage[],
): Promise<{ stats: RunStats; certificatesChecked: number }> {
  const stats = new RunStats()
  for (const { stats: part } of ran) stats.add(part)

  let certificatesChecked = 0
  for (const { failures } of await fleet.finish()) stats.addFailures(failures)
  for (const { checked, failures } of await fleet.check()) {
    certificatesChecked += checked
    stats.addFailures(failures)
  }
  return { stats, certificatesChecked }
}

function serverPids({ pids, directoryUrl }: Options): ServerPids {
  const { service, ...others } = pids
  if (service === 0) return others
  const found = service ?? (isLoopback(directoryUrl) ? findListener(parseTarget(directoryUrl).port) : undefined)
  return found === undefined ? others : { ...others, service: found }
}

function generatorJobs(options: Options, scenario: ScenarioName, connections: number): GeneratorJob[] {
  const { processes, clients, directoryUrl, domainSuffix, challengeType, signing, caCertificates, insecure } = options
  const { rootCertificate, timeoutMs, poll } = options
  const accounts = scenarioNamed(scenario).usesAccounts ? options.accounts : 0
  const run = randomBytes(3).toString('hex')
  let firstAccount = 0
  const { accountsFile, renewalReads, crlReads, storm, dataDir } = options
  const saved = accountsFile === undefined ? [] : readSavedAccounts(accountsFile, directoryUrl)
  return Array.from({ length: processes }, (_, index) => {
    const job: GeneratorJob = {
      directoryUrl,
      scenario,
      clients: shareOf(clients, processes, index),
      connections: shareOf(connections, processes, index),
      accounts: shareOf(accounts, processes, index),
      firstAccount,
      runId: `b${run}${index.toString(36)}`,
      domainSuffix,
      challengeType,
      signing,
      caCertificates,
      insecure,
      rootCertificate,
      timeoutMs,
      poll,
      ...{ renewalReads, crlReads, storm, dataDir, accountCount: accounts },
      savedAccounts: [],
      savesAccounts: accountsFile !== undefined,
    }
    job.savedAccounts = saved.slice(firstAccount, firstAccount + job.accounts)
    firstAccount += job.accounts
    return job
  })
}
