/** `npm run bench` without a command: loads servers in turn, A B C, A B C … A server that breaks is reported, and the others continue. */

import type { Command as ProgramCommand, Raw } from '../src/shared/command-line.ts'
import { FLAGS, type Plan, parseOptions } from './options.ts'
import type { Parts } from './report/document.ts'
import { isGood, type Result } from './report/result.ts'
import { isBroken, letterOf, type Measured, nameOfLoad, summarize, type Turn, turnOf } from './report/summary.ts'
import { renderSummary, renderText } from './report/text.ts'
import { runScenario, type Surroundings } from './run.ts'
import type { ScenarioName } from './scenario/table.ts'
import type { Contestant } from './servers/chancery.ts'
import { withServers } from './servers/start.ts'
import { Interrupted, withPrefix } from './surroundings.ts'
import { measureTable } from './table.ts'

export interface Command extends Pick<ProgramCommand, 'about' | 'examples' | 'options'> {
  /** Prints what it measures. @throws UsageError before anything starts; Interrupted; Error in a plain sentence */
  run(raw: Raw, around: Surroundings): Promise<Outcome>
}

export interface Outcome {
  plan: Plan
  /** For the files. */
  parts: Parts
  /** Whether every operation of every server went well. */
  isGood: boolean
}

export const command: Command = {
  about: [
    'Measure ACME servers: throughput, latency per step, CPU per operation by role.',
    'Another command: "overload" offers more than a server can do. Here "bench" stands for: npm run bench --',
    'Ends with 0 when every operation went well (refusals with Retry-After and dropped arrivals do not count), with 1 otherwise, with 2 for a wrong option.',
  ],
  examples: [
    'overload --help',
    '--ca-cert data/ca/root.pem --duration 5',
    '--start --clients 64 --html report.html',
    '--start --scenario all --duration 5',
    '--start --clients 64 --rate 25%,50%,75%',
    '--compare main --clients 64',
    '--start --beside pebble --server-cpus 0',
    '--start --beside pebble,caddy --clients 64 --scenario full-flow',
  ],
  options: FLAGS,
  run: measureServers,
}

async function measureServers(raw: Raw, around: Surroundings): Promise<Outcome> {
  const plan = parseOptions(raw)
  if (plan.isTable) return { plan, ...(await measureTable(plan, around)) }
  return await withServers(plan, around, async (contestants) => {
    const isAlone = contestants.length === 1
    const measurements = await contest(contestants, plan, around, (result) => {
      if (isAlone) process.stdout.write(`${renderText(result)}\n`)
    })
    const servers = contestants.map(({ subject }) => subject)
    if (!isAlone || plan.repeat > 1) process.stdout.write(renderSummary(servers, measurements))
    const isWhole = measurements.every(({ rounds }) => rounds.length === plan.repeat)
    const turns = measurements.flatMap(({ rounds }) => rounds.flat())
    const good = isWhole && turns.every((turn) => !isBroken(turn) && isGood(turn))
    return { plan, parts: { servers, measurements }, isGood: good }
  })
}

/**
 * An interruption ends it early: of one server what was measured until then stays, of several only whole rounds.
 * @param onResult told as it goes
 */
export async function contest(
  contestants: readonly Contestant[],
  { scenarios, repeat }: Plan,
  { progress, interrupt }: Surroundings,
  onResult: (result: Result) => void,
): Promise<Measured[]> {
  const isAlone = contestants.length === 1
  const rounds = new Map<ScenarioName, Turn[][][]>(scenarios.map((scenario) => [scenario, []]))
  for (let round = 1; round <= repeat; round++) {
    for (const [scenario, done] of rounds) {
      const turns: Turn[][] = []
      for (const [index, contestant] of contestants.entries()) {
        if (interrupt.aborted) break
        const prefix = `round ${round} of ${repeat}${isAlone ? '' : `, ${letterOf(index)}`}, `
        const line = repeat === 1 && isAlone ? progress : withPrefix(progress, prefix)
        const turn = await takeTurn(contestant, scenario, { progress: line, interrupt }, isAlone && round === 1)
        if (turn.length === 0) break
        for (const result of turn) if (!isBroken(result)) onResult(result)
        turns.push(turn)
      }
      // Among several, a run that was cut short is no match for one that was not.
      if (turns.length === contestants.length && (isAlone || !interrupt.aborted)) done.push(turns)
    }
  }
  return [...rounds].flatMap(([scenario, done]) => measuredLoads(scenario, done))
}

/** @throws Error when a server that must work cannot be loaded at all */
async function takeTurn(
  contestant: Contestant,
  scenario: ScenarioName,
  around: Surroundings,
  mustWork: boolean,
): Promise<Turn[]> {
  const { options, down, restart } = contestant
  const turns = await (down ? Promise.reject(down) : runScenario(options, scenario, around)).then(
    (results) => results.map((result) => (mustWork ? result : turnOf(result))),
    (error: Error): Turn[] => {
      if (error instanceof Interrupted) return []
      if (mustWork) throw error
      return [{ broken: error.message }]
    },
  )
  const isStuck = turns.some((turn) => isBroken(turn) || turn.failures.some(({ kind }) => kind === 'timeout'))
  // The next turn reports an error.
  if (isStuck && !around.interrupt.aborted)
    contestant.down = await restart?.().then(
      () => undefined,
      (error: Error) => error,
    )
  return turns
}

/** A turn that broke early has one entry, which serves for every load of it. */
function measuredLoads(scenario: ScenarioName, rounds: readonly Turn[][][]): Measured[] {
  const model = rounds.flat().toSorted((a, b) => b.length - a.length)[0] ?? [NOT_REACHED]
  return model.map((turn, load) => {
    const name = isBroken(turn) ? 'closed loop' : nameOfLoad(turn.load)
    const ofLoad = (turns: Turn[]) => turns[load] ?? turns.find(isBroken) ?? NOT_REACHED
    return summarize(
      scenario,
      name,
      rounds.map((turns) => turns.map(ofLoad)),
    )
  })
}

const NOT_REACHED: Turn = { broken: 'interrupted before this load' }
