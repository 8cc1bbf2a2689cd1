/**
 * `bench profile`: where the CPU of one operation goes, in a server of its own.
 *
 * Three runs on one server. The first measures what everything costs, with nothing watching but clocks. The second records CPU
 * profiles of all threads; they slow the server down, so only their shares count, of the time that the first run found.
 * The third records allocations.
 */

import { chmodSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type Interrupt, unlessInterrupted } from '../interrupt.ts'
import { familyOf, type ProcessInfo, readProcesses, TICKS_PER_SECOND } from '../measure/proc-stat.ts'
import type { Options } from '../options/options.ts'
import type { ProgressLine } from '../report/progress.ts'
import type { Result } from '../report/result.ts'
import { runScenario } from '../run.ts'
import type { ScenarioName } from '../scenario/table.ts'
import { type Build, ownBuild } from '../servers/build.ts'
import { featuresFor, optionsFor, type Server, startServer } from '../servers/chancery.ts'
import { Agents } from './agents.ts'
import { allocationShares, cpuShares, type Shares } from './attribute.ts'
import { ALLOCATIONS, CPU, capture, type Instrument, type ThreadCapture, TIMES } from './capture.ts'
import {
  type CostRow,
  type LoopDelayRow,
  type Measured,
  placeOfThread,
  rowsByPart,
  threadKey,
  topFunctions,
} from './costs.ts'
import { type DatabaseFigures, enableStatementStatistics, watchDatabase } from './statements.ts'

export interface ProfileSettings {
  workers: number | undefined
  /** Processors of the server, as taskset(1) takes them. */
  serverCpus: string | undefined
  /** How many functions are listed. */
  top: number
}

export interface ScenarioProfile {
  scenario: ScenarioName
  build: string
  /** Of the first run, which nothing slowed down. */
  result: Result
  /** Of the run with CPU profiles, for comparison. */
  profiledPerSecond: number
  /** Microseconds an operation, by part. */
  cpu: CostRow[]
  /** Microseconds an operation of what is no thread of JavaScript: helpers of V8 and libuv, and PostgreSQL's processes. */
  elsewhere: Record<string, number>
  /** Largest of all, and largest of what is in no part: microseconds an operation. */
  functions: [name: string, micros: number][]
  otherFunctions: [name: string, micros: number][]
  database: DatabaseFigures
  loopDelays: LoopDelayRow[]
  /** Bytes an operation, by part. */
  allocations: CostRow[]
  allocatingFunctions: [name: string, bytes: number][]
}

const MICROS_PER_TICK = 1_000_000 / TICKS_PER_SECOND
const ALLOCATORS_SHOWN = 15

/**
 * @param interrupt Ends it early; only scenarios that are whole count.
 * @throws Error when the server could not be started or a run not begin; whatever happens, nothing is left running.
 */
export async function profileServer(
  settings: ProfileSettings,
  options: Options,
  progress: ProgressLine,
  interrupt: Interrupt,
): Promise<{ build: Build; profiles: ScenarioProfile[] }> {
  const build = await ownBuild(interrupt)
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'chancery-profile-')))
  // PostgreSQL may run as another user; what is secret below has modes of its own.
  chmodSync(folder, 0o755)
  const agents = await Agents.listen()
  let server: Server | undefined
  try {
    progress.begin('making a server')
    server = await startProfiled(build, settings, options, folder, agents, interrupt)
    const profiles: ScenarioProfile[] = []
    for (const scenario of options.scenarios) {
      const setting = { build, server, agents, folder, settings, options, progress, interrupt }
      const profile = await unlessInterrupted(profileScenario(setting, scenario))
      if (profile) profiles.push(profile)
    }
    return { build, profiles }
  } finally {
    progress.begin('taking the server down')
    try {
      await server?.stop()
    } finally {
      agents.close()
      rmSync(folder, { recursive: true, force: true })
      progress.end()
    }
  }
}

/** Twice: PostgreSQL loads an extension only with its start. */
async function startProfiled(
  build: Build,
  { workers, serverCpus }: ProfileSettings,
  options: Options,
  dataDir: string,
  agents: Agents,
  interrupt: AbortSignal,
): Promise<Server> {
  const settings = { dataDir, workers, cpus: serverCpus, ...featuresFor(options) }
  const first = await startServer(build, settings, interrupt)
  try {
    await enableStatementStatistics(dataDir)
  } finally {
    await first.stop()
  }
  return startServer(build, { ...settings, environment: agents.environment }, interrupt)
}

interface Setting {
  build: Build
  server: Server
  agents: Agents
  folder: string
  settings: ProfileSettings
  options: Options
  progress: ProgressLine
  interrupt: Interrupt
}

async function profileScenario(setting: Setting, scenario: ScenarioName): Promise<ScenarioProfile> {
  const { server, build, settings } = setting
  const database = watchDatabase(setting.folder)
  try {
    let processes: ProcessInfo[] = []
    let postgres: Record<string, number> = {}
    const times = await runWith(setting, scenario, 'times', TIMES, {
      async begin() {
        await database.reset()
        processes = readProcesses()
      },
      async end() {
        postgres = postgresMicros(server.pid, processes, readProcesses())
      },
    })
    const figures = await database.read()
    const cpu = await runWith(setting, scenario, 'CPU profiles', CPU)
    const allocations = await runWith(setting, scenario, 'allocations', ALLOCATIONS)

    const { result } = times
    const each = (total: number) => total / result.succeeded
    const spent = new Map(times.captures.map((thread) => [threadKey(thread), each(thread.cpuMicros)]))
    const profiled = measured(
      cpu.captures,
      server.pid,
      ({ profile }) => cpuShares(profile),
      (thread) => spent.get(threadKey(thread)) ?? 0,
    )
    const allocated = measured(
      allocations.captures,
      server.pid,
      ({ profile }) => allocationShares(profile),
      (_, shares) => shares.total / allocations.result.succeeded,
    )
    return {
      scenario,
      build: build.name,
      result,
      profiledPerSecond: cpu.result.perSecond,
      cpu: rowsByPart(profiled),
      elsewhere: {
        ...helpersOf(result, times.captures, server.pid),
        ...Object.fromEntries(Object.entries(postgres).map(([kind, micros]) => [`PostgreSQL: ${kind}`, each(micros)])),
      },
      functions: topFunctions(profiled, 'functions', settings.top),
      otherFunctions: topFunctions(profiled, 'otherFunctions', settings.top),
      database: figures,
      loopDelays: times.captures.map((thread) => ({ thread: nameOf(thread, server.pid), ...thread.loopDelay })),
      allocations: rowsByPart(allocated),
      allocatingFunctions: topFunctions(allocated, 'functions', ALLOCATORS_SHOWN),
    }
  } finally {
    await database.close()
  }
}

/** Every run warms up anew: a capture begins with code that is compiled. */
async function runWith<Profile>(
  { server, agents, options, progress, interrupt }: Setting,
  scenario: ScenarioName,
  phase: string,
  instrument: Instrument<Profile>,
  beside?: { begin(): Promise<void>; end(): Promise<void> },
): Promise<{ result: Result; captures: ThreadCapture<Profile>[] }> {
  let finish: (() => Promise<ThreadCapture<Profile>[]>) | undefined
  let captures: ThreadCapture<Profile>[] = []
  const line = {
    begin: (what: string, read?: Parameters<ProgressLine['begin']>[1]) => progress.begin(`${phase}, ${what}`, read),
    end: progress.end,
  }
  const observer = {
    async begin() {
      finish = await capture(agents, instrument)
      await beside?.begin()
    },
    async end() {
      await beside?.end()
      captures = (await finish?.()) ?? []
    },
  }
  const result = await runScenario(optionsFor(options, server), scenario, line, interrupt, observer)
  interrupt.throwIfAborted()
  if (result.succeeded === 0)
    throw new Error(`no ${scenario} succeeded: ${result.failures[0]?.example ?? 'no failure either'}`)
  return { result, captures }
}

function measured<Profile>(
  captures: readonly ThreadCapture<Profile>[],
  servicePid: number,
  sharesOf: (thread: ThreadCapture<Profile>) => Shares,
  amountOf: (thread: ThreadCapture<Profile>, shares: Shares) => number,
): Measured[] {
  return captures.map((thread) => {
    const shares = sharesOf(thread)
    return { place: placeOfThread(thread, servicePid), shares, amount: amountOf(thread, shares) }
  })
}

/** What the processes used beyond the threads that were watched: collectors and compilers of V8, libuv's pool. */
function helpersOf({ cpu, succeeded }: Result, threads: readonly ThreadCapture<unknown>[], servicePid: number) {
  const watched = (isService: boolean) =>
    threads.filter(({ pid }) => (pid === servicePid) === isService).reduce((sum, { cpuMicros }) => sum + cpuMicros, 0) /
    succeeded
  return {
    'helper threads of the service': Math.max(0, (cpu?.server.service ?? 0) - watched(true)),
    'helper threads of the signer': Math.max(0, (cpu?.server.signer ?? 0) - watched(false)),
  }
}

function nameOf(thread: ThreadCapture<unknown>, servicePid: number): string {
  const place = placeOfThread(thread, servicePid)
  if (place === 'fronts') return /front-\d+/.exec(thread.title)?.[0] ?? place
  return place === 'validation' ? `validation ${/\d+/.exec(thread.title)?.[0] ?? ''}` : place
}

/** Processes say in their title what they are: `postgres: chancery chancery [local] idle`, `postgres: walwriter`. */
function postgresMicros(servicePid: number, before: readonly ProcessInfo[], after: readonly ProcessInfo[]) {
  const earlier = new Map(before.map(({ pid, ownTicks }) => [pid, ownTicks]))
  const sums: Record<string, number> = {}
  for (const { pid, ownTicks, commandLine } of familyOf(servicePid, after)) {
    const title = /^postgres: (.*)/.exec(commandLine.join(' '))?.[1]
    if (title === undefined) continue
    const kind = title.startsWith('chancery ') ? 'backends' : title.replace(/\d*\s*$/, '').trim()
    sums[kind] = (sums[kind] ?? 0) + (ownTicks - (earlier.get(pid) ?? 0)) * MICROS_PER_TICK
  }
  return Object.fromEntries(Object.entries(sums).filter(([, micros]) => micros > 0))
}
