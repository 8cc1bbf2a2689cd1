/** Conducts one scenario: prepares the generators, warms up, measures, checks what came, and sums up. */

import { randomBytes } from 'node:crypto'
import { parseTarget } from './client/connection.ts'
import { Fleet, shareOf } from './generator/fleet.ts'
import type { GeneratorJob, RanMessage } from './generator/messages.ts'
import { measureCryptoCosts } from './measure/crypto-floor.ts'
import { findListener } from './measure/find-server.ts'
import { readProcesses } from './measure/proc-stat.ts'
import { type CpuByRole, cpuBetween, cpuByRole, type ServerPids } from './measure/server-cpu.ts'
import { RunStats } from './measure/stats.ts'
import { isLoopback, type Options } from './options.ts'
import type { ProgressLine } from './report/progress.ts'
import { buildResult, type Result } from './report/result.ts'
import { Proofs } from './responder/proofs.ts'
import { startResponders } from './responder/responders.ts'
import { type ScenarioName, scenarioNamed } from './scenario/table.ts'

/** Long enough for a steady figure, short enough not to be noticed: three primitives, before and after. */
const FLOOR_MS = 150

/** Who looks at the server while operations are measured. */
export interface Observer {
  begin(): Promise<void>
  end(): Promise<void>
}

/**
 * @param interrupt Ends the measured time early; what was measured until then is the result.
 * @throws Error when the run could not begin or a generator process broke.
 */
export async function runScenario(
  options: Options,
  scenario: ScenarioName,
  progress: ProgressLine,
  interrupt: AbortSignal,
  observer?: Observer,
): Promise<Result> {
  const proofs = new Proofs()
  const fleet = new Fleet(generatorJobs(options, scenario), ({ name, text }) => proofs.put(name, text))
  const stop = () => fleet.stop()
  interrupt.addEventListener('abort', stop)
  try {
    progress.begin(`${scenario}: preparing`)
    const thumbprints = await prepareFleet(fleet, options.directoryUrl)
    const responder = scenarioNamed(scenario).answersChallenges
      ? await startResponders(options.challengeType, options.responders, thumbprints, proofs)
      : undefined
    try {
      return await measure(options, scenario, fleet, progress, interrupt, observer)
    } finally {
      await responder?.close()
    }
  } finally {
    interrupt.removeEventListener('abort', stop)
    progress.end()
    await fleet.close()
  }
}

async function prepareFleet(fleet: Fleet, directoryUrl: string): Promise<string[]> {
  try {
    return await fleet.prepare()
  } catch (cause) {
    const { message } = cause as Error
    const advice = /certificate/.test(message) ? '; name the roots to trust with --ca-cert, or use --insecure' : ''
    throw new Error(`cannot begin with ${directoryUrl}: ${message}${advice}`, { cause })
  }
}

async function measure(
  options: Options,
  scenario: ScenarioName,
  fleet: Fleet,
  progress: ProgressLine,
  interrupt: AbortSignal,
  observer: Observer | undefined,
): Promise<Result> {
  const costsBefore = measureCryptoCosts(FLOOR_MS)
  const readProgress = () => fleet.progress
  if (options.warmupMs > 0 && !interrupt.aborted) {
    const warmingUp = fleet.run({ forMs: options.warmupMs })
    progress.begin(`${scenario}: warming up`, readProgress)
    await warmingUp
  }

  await observer?.begin()
  const phase = options.count === undefined ? { forMs: options.durationMs } : { operations: options.count }
  const serverCpu = serverCpuMeter(options)
  const ownCpu = process.cpuUsage()
  const startedAt = new Date()
  const start = performance.now()
  const running = fleet.run(phase)
  progress.begin(`${scenario}: measuring`, readProgress)
  const ran = await running
  const elapsedMs = performance.now() - start
  const { user, system } = process.cpuUsage(ownCpu)
  const usedByServer = serverCpu()
  await observer?.end()

  progress.begin(`${scenario}: checking`)
  const costsAfter = measureCryptoCosts(FLOOR_MS)
  const { stats, certificatesChecked } = await sumUp(fleet, ran)
  return buildResult(options, {
    scenario,
    startedAt,
    // Operations that ended late are not in the rate, so neither is the time they took.
    seconds: (options.count === undefined ? Math.min(elapsedMs, options.durationMs) : elapsedMs) / 1000,
    stats,
    certificatesChecked,
    serverCpu: usedByServer,
    generatorCpuMicros: ran.reduce((sum, { cpuMicros }) => sum + cpuMicros, 0),
    responderCpuMicros: user + system,
    costsBefore,
    costsAfter,
  })
}

async function sumUp(
  fleet: Fleet,
  ran: readonly RanMessage[],
): Promise<{ stats: RunStats; certificatesChecked: number }> {
  const stats = new RunStats()
  for (const { stats: part } of ran) stats.add(part)

  let certificatesChecked = 0
  for (const { checked, failures } of await fleet.check()) {
    certificatesChecked += checked
    stats.addFailures(failures)
  }
  return { stats, certificatesChecked }
}

/** @returns a function that tells what the server has used since. */
function serverCpuMeter(options: Options): () => CpuByRole {
  const pids = serverPids(options)
  if (Object.keys(pids).length === 0) return () => ({})
  const before = cpuByRole(readProcesses(), pids)
  return () => cpuBetween(before, cpuByRole(readProcesses(), pids))
}

function serverPids({ pids, directoryUrl }: Options): ServerPids {
  const { service, ...others } = pids
  if (service === 0) return others
  const found = service ?? (isLoopback(directoryUrl) ? findListener(parseTarget(directoryUrl).port) : undefined)
  return found === undefined ? others : { ...others, service: found }
}

function generatorJobs(options: Options, scenario: ScenarioName): GeneratorJob[] {
  const { processes, clients, directoryUrl, domainSuffix, challengeType, signing, caCertificates, insecure } = options
  const { rootCertificate, timeoutMs, poll } = options
  const accounts = scenarioNamed(scenario).usesAccounts ? options.accounts : 0
  const run = randomBytes(3).toString('hex')
  let firstAccount = 0
  return Array.from({ length: processes }, (_, index) => {
    const job: GeneratorJob = {
      directoryUrl,
      scenario,
      clients: shareOf(clients, processes, index),
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
    }
    firstAccount += job.accounts
    return job
  })
}
