/** Full flows with more and more front threads, and with several instances on one database, in turn: A B C D, A B C D … */

import { availableParallelism } from 'node:os'
import { withPrefix } from '../contest.ts'
import { shareOf } from '../generator/fleet.ts'
import type { Progress } from '../generator/messages.ts'
import { type Interrupt, unlessInterrupted } from '../interrupt.ts'
import type { Options } from '../options/options.ts'
import type { ScaleOptions } from '../options/scale.ts'
import { countCpus } from '../options/servers.ts'
import type { ProgressLine } from '../report/progress.ts'
import type { Result } from '../report/result.ts'
import { letterOf } from '../report/summary.ts'
import { runScenario } from '../run.ts'
import { optionsFor, type Server } from '../servers/chancery.ts'
import { createDatabase, postgresBelow, startInstance } from '../servers/instances.ts'
import { meetingPoint } from './meeting.ts'
import { type Configuration, configurationsOf, type Processors, reckonScale, type ScaleRow } from './result.ts'

/**
 * @param host A service in development mode, for its PostgreSQL and its CA; it is not loaded itself.
 * @param interrupt Ends it early; only rounds that are whole count.
 * @throws Error when an instance did not start, a generator process broke, or nothing succeeded.
 */
export async function runScale(
  host: Server,
  options: Options,
  scale: ScaleOptions,
  progress: ProgressLine,
  interrupt: Interrupt,
): Promise<ScaleRow[]> {
  const configurations = configurationsOf(scale)
  const started: Server[] = []
  try {
    const groups: Options[][] = []
    const postgres = postgresBelow(host)
    for (const [index, configuration] of configurations.entries()) {
      progress.begin(`starting ${letterOf(index)}, ${configuration.name}`)
      const servers = await startConfiguration(host, configuration, index, options, started, interrupt)
      groups.push(sharedOut(options, servers, postgres))
    }
    const rounds: Result[][][] = []
    for (let round = 1; round <= options.servers.repeat && !interrupt.aborted; round++) {
      const done: Result[][] = []
      for (const [index, group] of groups.entries()) {
        if (interrupt.aborted) break
        const prefix = `round ${round} of ${options.servers.repeat}, ${letterOf(index)}, `
        const results = await unlessInterrupted(loadAtOnce(group, withPrefix(progress, prefix), interrupt))
        if (results && !interrupt.aborted) done.push(results.map(requireSuccess))
      }
      if (!interrupt.aborted) rounds.push(done)
    }
    return reckonScale(configurations, rounds, processorsOf(options))
  } finally {
    progress.begin('taking instances down')
    await Promise.all(started.map((server) => server.stop()))
    progress.end()
  }
}

/** One after the other: the first sets the tables up. @param started Told each as soon as it runs. */
async function startConfiguration(
  host: Server,
  { instances, fronts, keptIn }: Configuration,
  index: number,
  { servers: { serverCpus: cpus } }: Options,
  started: Server[],
  signal: AbortSignal,
): Promise<Server[]> {
  const database = `scale_${index}`
  await createDatabase(host, database)
  const servers: Server[] = []
  for (let number = 1; number <= instances; number++) {
    const name = `${letterOf(index).toLowerCase()}-${number}`
    const server = await startInstance(host, { name, database, fronts, keptIn, cpus }, signal)
    started.push(server)
    servers.push(server)
  }
  return servers
}

/** The run's clients are divided among the instances; PostgreSQL, which is everybody's, is watched with the first. */
function sharedOut(options: Options, servers: readonly Server[], postgres: number): Options[] {
  return servers.map((server, index) => {
    const share = (total: number) => shareOf(total, servers.length, index)
    const own = optionsFor(options, server)
    return {
      ...own,
      ...{ clients: share(options.clients), accounts: share(options.accounts) },
      processes: Math.max(1, share(options.processes)),
      pids: { ...own.pids, ...(index === 0 && { postgres }) },
    }
  })
}

/** Nobody is measured before all are warm, and nobody leaves the processors to others before all have been measured. */
async function loadAtOnce(group: readonly Options[], progress: ProgressLine, interrupt: Interrupt): Promise<Result[]> {
  const [begin, end] = [meetingPoint(group.length), meetingPoint(group.length)]
  const lineOf = inOneLine(progress, group.length)
  const running = group.map((options, index) => {
    const observer = { begin: begin.arrive, end: end.arrive }
    return runScenario(options, 'full-flow', lineOf(index), interrupt, observer).catch((error) => {
      // Whoever waits for one that broke would wait for ever.
      begin.open()
      end.open()
      throw error
    })
  })
  const settled = await Promise.allSettled(running)
  return settled.map((one) => {
    if (one.status === 'rejected') throw one.reason
    return one.value
  })
}

/** The last, whom the others are ahead of, tells how far all are, with the counts of all. @returns the line of each. */
function inOneLine(progress: ProgressLine, members: number): (index: number) => ProgressLine {
  const reads: (() => Progress)[] = []
  const sum = () => reads.map((read) => read()).reduce(addProgress)
  return (index) => ({
    begin(phase, read) {
      if (read) reads[index] = read
      if (index === members - 1) progress.begin(phase, read && sum)
    },
    end() {
      if (index === members - 1) progress.end()
    },
  })
}

function addProgress(a: Progress, b: Progress): Progress {
  return {
    operations: a.operations + b.operations,
    failures: a.failures + b.failures,
    refused: a.refused + b.refused,
    dropped: a.dropped + b.dropped,
  }
}

/** Of servers that are bound to none, all of the machine. */
function processorsOf({ servers: { serverCpus } }: Options): Processors {
  return serverCpus === undefined
    ? { count: availableParallelism(), areShared: true }
    : { count: countCpus(serverCpus), areShared: false }
}

function requireSuccess(result: Result): Result {
  if (result.succeeded > 0) return result
  const [first] = result.failures
  throw new Error(`nothing succeeded at ${result.directory}${first ? `; ${first.kind}: ${first.example}` : ''}`)
}
