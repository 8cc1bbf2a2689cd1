/**
 * `--compare REF`: this tree and a commit under the same load, in turn.
 *
 * Both run at once and only one is loaded at a time: A B A B … Whatever happens, servers end, and the check-out and all data are removed.
 */

import { chmodSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { CompareOptions, Options } from '../options.ts'
import type { ProgressLine } from '../report/progress.ts'
import { asksDns } from '../responder/responders.ts'
import { runScenario } from '../run.ts'
import type { ScenarioName } from '../scenario/table.ts'
import { ACCEPT_ALL, ACCEPT_ALL_MODULE } from './accept-all.ts'
import { type Build, buildCommit, commitOf, ownBuild, removeCheckout } from './build.ts'
import { type Server, startServer } from './server.ts'
import { type Comparison, compareRounds, type Round } from './summary.ts'

/**
 * @param interrupt Ends it early: rounds that are whole are the result.
 * @throws OptionsError for a ref that is none. @throws Error when something could not be built, started or run.
 */
export async function compareWith(
  { ref, rounds, workers, serverCpus }: CompareOptions,
  options: Options,
  progress: ProgressLine,
  interrupt: AbortSignal,
): Promise<Comparison> {
  const a = await ownBuild(interrupt)
  const commit = await commitOf(ref, interrupt)
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'chancery-compare-')))
  // PostgreSQL may run as another user; what is secret below has modes of its own.
  chmodSync(folder, 0o755)
  const checkout = path.join(folder, 'checkout')
  const servers: Server[] = []
  try {
    const b = await buildCommit({ ref, commit, root: checkout }, progress.begin, interrupt)
    const validator = options.challengeType === ACCEPT_ALL ? ACCEPT_ALL_MODULE : undefined
    const settings = { workers, cpus: serverCpus, validator, asksDns: asksDns(options.challengeType) }
    const start = (build: Build, name: string) =>
      startServer(build, { ...settings, dataDir: path.join(folder, name) }, interrupt)
    progress.begin('starting both')
    const started = await Promise.allSettled([start(a, 'a'), start(b, 'b')])
    for (const start of started) if (start.status === 'fulfilled') servers.push(start.value)
    const [serverA, serverB] = servers
    if (!serverA || !serverB) throw started.find((start) => start.status === 'rejected')?.reason
    const sides = { a: serverA, b: serverB }
    const scenarios = await runRounds(options, rounds, sides, progress, interrupt)
    const nameOf = ({ name, commit }: Build) => ({ name, commit })
    return { a: nameOf(a), b: nameOf(b), scenarios }
  } finally {
    progress.begin('taking both down')
    try {
      await Promise.all(servers.map((server) => server.stop()))
      await removeCheckout(checkout)
    } finally {
      rmSync(folder, { recursive: true, force: true })
      progress.end()
    }
  }
}

async function runRounds(
  options: Options,
  count: number,
  servers: Record<'a' | 'b', Server>,
  progress: ProgressLine,
  interrupt: AbortSignal,
) {
  const rounds = new Map<ScenarioName, Round[]>(options.scenarios.map((scenario) => [scenario, []]))
  for (let round = 1; round <= count; round++) {
    for (const [scenario, done] of rounds) {
      const load = (side: 'a' | 'b') => {
        const line = withPrefix(progress, `round ${round} of ${count}, ${side.toUpperCase()}, `)
        return runScenario(optionsFor(options, servers[side]), scenario, line, interrupt)
      }
      if (interrupt.aborted) break
      const a = await load('a')
      if (interrupt.aborted) break
      const b = await load('b')
      // A run that was cut short is no match for one that was not.
      if (!interrupt.aborted) done.push({ a, b })
    }
  }
  return [...rounds].map(([scenario, done]) => compareRounds(scenario, done))
}

function optionsFor(options: Options, { directoryUrl, responders, root, pid }: Server): Options {
  return {
    ...options,
    directoryUrl,
    responders,
    caCertificates: root,
    rootCertificate: root,
    pids: { service: pid },
  }
}

function withPrefix(progress: ProgressLine, prefix: string): ProgressLine {
  return { begin: (phase, read) => progress.begin(prefix + phase, read), end: progress.end }
}
