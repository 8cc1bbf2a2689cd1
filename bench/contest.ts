/**
 * One server or several under the same load, in turn: A B C, A B C …
 *
 * All that the bench starts run at once and only one is loaded at a time. Whatever happens, they end, and check-outs and data are
 * removed. A server that breaks is reported as broken and the others go on.
 */

import { chmodSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type Interrupt, Interrupted } from './interrupt.ts'
import type { Options } from './options/options.ts'
import type { AgainstOptions } from './options/servers.ts'
import type { ProgressLine } from './report/progress.ts'
import type { Result } from './report/result.ts'
import { letterOf, type Measured, nameOfLoad, summarize, type Turn } from './report/summary.ts'
import { runRates } from './run.ts'
import { Unsupported } from './scenario/scenario.ts'
import type { ScenarioName } from './scenario/table.ts'
import { startBeside } from './servers/beside.ts'
import { type Build, buildCommit, commitOf, ownBuild, removeCheckout } from './servers/build.ts'
import { featuresFor, optionsFor, startServer } from './servers/chancery.ts'
import type { Contestant } from './servers/contestant.ts'

/**
 * Starts what is to be started, hands all servers over, and takes down what it has started.
 * @throws OptionsError for a ref that is none. @throws Error when something could not be built or started.
 */
export async function withServers<T>(
  options: Options,
  progress: ProgressLine,
  interrupt: AbortSignal,
  use: (contestants: Contestant[]) => Promise<T>,
): Promise<T> {
  const { start, compare, beside, against } = options.servers
  const commit = compare === undefined ? undefined : await commitOf(compare, interrupt)
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'chancery-bench-')))
  // PostgreSQL may run as another user; what is secret below has modes of its own.
  chmodSync(folder, 0o755)
  const checkout = path.join(folder, 'checkout')
  const contestants: Contestant[] = []
  try {
    const builds = start ? [await ownBuild(interrupt)] : []
    if (compare !== undefined && commit !== undefined)
      builds.push(await buildCommit({ ref: compare, commit, root: checkout }, progress.begin, interrupt))
    if (builds.length + beside.length > 0) progress.begin('starting servers')
    const starting = [
      ...builds.map((build, index) => startBuild(build, path.join(folder, String(index)), options, interrupt)),
      ...beside.map((other) => startBeside(other, path.join(folder, other.name), options, interrupt)),
    ]
    const started = await Promise.allSettled(starting)
    if (!start) contestants.push(firstServer(options))
    for (const one of started) if (one.status === 'fulfilled') contestants.push(one.value)
    for (const one of started) if (one.status === 'rejected') throw one.reason
    contestants.push(...against.map((other) => runningServer(other, options)))
    return await use(contestants)
  } finally {
    if (start || beside.length > 0) progress.begin('taking servers down')
    try {
      await Promise.all(contestants.map((contestant) => contestant.stop()))
      if (compare !== undefined) await removeCheckout(checkout)
    } finally {
      rmSync(folder, { recursive: true, force: true })
      progress.end()
    }
  }
}

/**
 * @param interrupt Ends it early. Of one server what was measured until then stays; of several only rounds that are whole.
 * @param onResult Told each result as soon as it is there.
 * @param onLeftOut Told why a scenario of "all" is not measured.
 */
export async function contest(
  contestants: readonly Contestant[],
  { scenarios, servers, skipsUnsupported }: Options,
  progress: ProgressLine,
  interrupt: Interrupt,
  onResult: (result: Result) => void,
  onLeftOut: (scenario: ScenarioName, reason: string) => void,
): Promise<Measured[]> {
  const isAlone = contestants.length === 1
  const rounds = new Map<ScenarioName, Turn[][][]>(scenarios.map((scenario) => [scenario, []]))
  for (let round = 1; round <= servers.repeat; round++) {
    for (const [scenario, done] of rounds) {
      const turns: Turn[][] = []
      for (const [index, contestant] of contestants.entries()) {
        if (interrupt.aborted) break
        const label = isAlone ? '' : `, ${letterOf(index)}`
        const line =
          servers.repeat === 1 && isAlone
            ? progress
            : withPrefix(progress, `round ${round} of ${servers.repeat}${label}, `)
        const turn = await takeTurn(contestant, scenario, line, interrupt, isAlone && round === 1).catch((error) => {
          if (!(skipsUnsupported && error instanceof Unsupported)) throw error
          onLeftOut(scenario, `${isAlone ? '' : `${letterOf(index)}: `}${error.message}`)
          return undefined
        })
        if (!turn) {
          rounds.delete(scenario)
          break
        }
        if (turn.length === 0) break
        for (const result of turn) if (!('broken' in result)) onResult(result)
        turns.push(turn)
      }
      // Among several, a run that was cut short is no match for one that was not.
      if (turns.length === contestants.length && (isAlone || !interrupt.aborted)) done.push(turns)
    }
  }
  return [...rounds].flatMap(([scenario, done]) => measuredLoads(scenario, done))
}

/** @throws Error when the only server cannot be loaded at all: there is nothing to go on with. */
async function takeTurn(
  { options, restart }: Contestant,
  scenario: ScenarioName,
  progress: ProgressLine,
  interrupt: Interrupt,
  isAllThereIs: boolean,
): Promise<Turn[]> {
  const turns = await runRates(options, scenario, progress, interrupt).then(
    (results) => results.map((result) => (isAllThereIs || result.succeeded > 0 ? result : brokenBy(result))),
    (error: unknown): Turn[] => {
      if (error instanceof Interrupted) return []
      if (isAllThereIs || (options.skipsUnsupported && error instanceof Unsupported)) throw error
      return [{ broken: (error as Error).message }]
    },
  )
  const isStuck = turns.some((turn) => 'broken' in turn || turn.failures.some(({ kind }) => kind === 'timeout'))
  // One that cannot be started anew is broken in its next turn, too, and says so there.
  if (isStuck && restart && !interrupt.aborted) await restart().catch(() => undefined)
  return turns
}

function brokenBy({ failures: [first] }: Result): Turn {
  return { broken: `nothing succeeded${first ? `; ${first.kind}: ${first.example}` : ''}` }
}

/** A turn that broke early has one entry, which stands for every load of it. */
function measuredLoads(scenario: ScenarioName, rounds: readonly Turn[][][]): Measured[] {
  const model = rounds.flat().toSorted((a, b) => b.length - a.length)[0] ?? []
  if (model.length === 0) return [summarize(scenario, 'closed loop', [])]
  return model.map((turn, load) => {
    const name = 'broken' in turn ? 'closed loop' : nameOfLoad(turn.load)
    return summarize(
      scenario,
      name,
      rounds.map((turns) =>
        turns.map((turn): Turn => turn[load] ?? turn.find((one) => 'broken' in one) ?? NOT_REACHED),
      ),
    )
  })
}

const NOT_REACHED: Turn = { broken: 'interrupted before this load' }

function firstServer(options: Options): Contestant {
  const subject = { name: options.directoryUrl, commit: undefined, note: '', isOurs: true }
  return { subject, options, stop: async () => undefined }
}

async function startBuild(build: Build, dataDir: string, options: Options, signal: AbortSignal): Promise<Contestant> {
  const { workers, serverCpus } = options.servers
  const settings = { dataDir, workers, cpus: serverCpus, ...featuresFor(options) }
  const server = await startServer(build, settings, signal)
  const subject = { name: build.name, commit: build.commit, note: '', isOurs: true }
  return { subject, options: optionsFor(options, server), server, stop: server.stop }
}

function runningServer(other: AgainstOptions, options: Options): Contestant {
  const clients = other.clients ?? options.clients
  return {
    subject: { name: other.name, commit: undefined, note: '', isOurs: false },
    options: {
      ...options,
      directoryUrl: other.directoryUrl,
      clients,
      processes: Math.min(options.processes, clients),
      challengeType: other.challengeType ?? options.challengeType,
      responders: { ...options.responders, ...other.http01 },
      caCertificates: other.caCertificates,
      rootCertificate: undefined,
      insecure: other.insecure,
      pids: other.pids,
    },
    stop: async () => undefined,
  }
}

export function withPrefix(progress: ProgressLine, prefix: string): ProgressLine {
  return { begin: (phase, read) => progress.begin(prefix + phase, read), end: progress.end }
}
