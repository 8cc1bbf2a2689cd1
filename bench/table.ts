/**
 * `--scenario table`: what one operation costs each server, cold and warm, and which memory it takes.
 *
 * A server without load still uses CPU and memory, so each one is started for its turn, without any state, and stopped
 * after it. A cold row begins when the directory answers and each client has an account.
 */

import { rmSync } from 'node:fs'
import path from 'node:path'
import type { Options, Plan } from './options.ts'
import { isGood } from './report/result.ts'
import { isBroken, letterOf, summarize, type Turn, turnOf } from './report/summary.ts'
import { ROW_NAMES, type RowName, renderTable, tableOf } from './report/table.ts'
import { roundTroubleLines } from './report/text.ts'
import { runScenario, type Surroundings } from './run.ts'
import type { ScenarioName } from './scenario/table.ts'
import { ACCEPT_ALL, type Subject } from './servers/chancery.ts'
import { type Starter, withStarters } from './servers/start.ts'
import { Interrupted, unlessInterrupted, withPrefix } from './surroundings.ts'

interface Row {
  scenario: ScenarioName
  challengeType: typeof ACCEPT_ALL | 'http-01'
  warmupMs(options: Options): number
  says(options: Options): string
}

/** Certificates came before and have warmed up the most, so the paths of another operation need less. */
const OWN_WARMUP_MS = 10_000

const warm = ({ warmupMs = 0 }: Options) => Math.min(OWN_WARMUP_MS, warmupMs)
const inFirst = ({ durationMs }: Options) => `in the first ${durationMs / 1000} s`

/** Rows of one challenge are loads of one start, in this order. */
const ROWS: Record<RowName, Row> = {
  'certificate-cold': {
    scenario: 'full-flow',
    challengeType: ACCEPT_ALL,
    warmupMs: () => 0,
    says: (options) => `certificate, no validation, ${inFirst(options)}`,
  },
  'certificate-warm': {
    scenario: 'full-flow',
    challengeType: ACCEPT_ALL,
    // The cold row was a part of it.
    warmupMs: ({ warmupMs = 0, durationMs }) => Math.max(0, warmupMs - durationMs),
    says: ({ warmupMs = 0, durationMs }) =>
      `certificate, no validation, warm (${Math.max(warmupMs, durationMs) / 1000} s before)`,
  },
  'order-warm': { scenario: 'new-order', challengeType: ACCEPT_ALL, warmupMs: warm, says: () => 'new order, warm' },
  'read-warm': { scenario: 'signed-read', challengeType: ACCEPT_ALL, warmupMs: warm, says: () => 'signed read, warm' },
  'account-warm': { scenario: 'new-account', challengeType: ACCEPT_ALL, warmupMs: warm, says: () => 'account, warm' },
  'certificate-http-01-cold': {
    scenario: 'full-flow',
    challengeType: 'http-01',
    warmupMs: () => 0,
    says: (options) => `certificate with http-01, ${inFirst(options)}`,
  },
}

interface Served {
  subject: Subject
  turns: Partial<Record<RowName, Turn>>
}

/** Prints the table. An interruption leaves whole rounds only. @throws Error when a server does not start */
export async function measureTable(plan: Plan, around: Surroundings) {
  return await withStarters(plan, around, async (starters, folder) => {
    const rounds: Served[][] = []
    for (let round = 1; round <= plan.repeat && !around.interrupt.aborted; round++) {
      const served = await unlessInterrupted(loadEach(starters, path.join(folder, String(round)), plan, around, round))
      if (served) rounds.push(served)
    }
    const measurements = ROW_NAMES.map((name) => {
      const turns = rounds.map((served) => served.map(({ turns }) => turns[name] ?? NOT_REACHED))
      return summarize(ROWS[name].scenario, ROWS[name].says(plan.options), turns)
    })
    const servers = (rounds[0] ?? []).map(({ subject }) => subject)
    const table = tableOf(measurements)
    const troubles = measurements.flatMap(({ load, rounds }) =>
      roundTroubleLines(rounds).map((line) => `${load}: ${line}\n`),
    )
    process.stdout.write(`${renderTable(servers, table)}\n${troubles.join('')}`)
    const turns = measurements.flatMap(({ rounds }) => rounds.flat())
    const isWhole = rounds.length === plan.repeat && turns.every((turn) => !isBroken(turn) && isGood(turn))
    return { parts: { servers, measurements, table }, isGood: isWhole }
  })
}

const NOT_REACHED: Turn = { broken: 'not reached' }

async function loadEach(
  starters: readonly Starter[],
  folder: string,
  plan: Plan,
  { progress, interrupt }: Surroundings,
  round: number,
): Promise<Served[]> {
  const served: Served[] = []
  for (const [index, start] of starters.entries()) {
    const line = withPrefix(progress, `round ${round} of ${plan.repeat}, ${letterOf(index)}, `)
    const own = { progress: line, interrupt }
    const without = await loadStarted(start, `${folder}-${index}`, plan, ACCEPT_ALL, own)
    const { turns } = await loadStarted(start, `${folder}-${index}-http-01`, plan, 'http-01', own)
    served.push({ subject: without.subject, turns: { ...without.turns, ...turns } })
  }
  return served
}

/** One start of a server with the loads of one challenge. @throws Interrupted; Error when it does not start */
async function loadStarted(
  start: Starter,
  folder: string,
  plan: Plan,
  challengeType: Row['challengeType'],
  around: Surroundings,
): Promise<Served> {
  around.progress.begin('starting')
  const contestant = await start(folder, { ...plan, options: { ...plan.options, challengeType } })
  const turns: Served['turns'] = {}
  try {
    for (const name of ROW_NAMES.filter((name) => ROWS[name].challengeType === challengeType)) {
      const { scenario, warmupMs } = ROWS[name]
      const turn = await loadOnce({ ...contestant.options, warmupMs: warmupMs(plan.options) }, scenario, around)
      const isValidated = challengeType === ACCEPT_ALL && scenario === 'full-flow' && contestant.alwaysValidates
      turns[name] = isValidated ? { broken: 'always validates' } : turn
    }
    return { subject: contestant.subject, turns }
  } finally {
    around.progress.begin('stopping')
    await contestant.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** @throws Interrupted also for a load that was cut short */
async function loadOnce(options: Options, scenario: ScenarioName, around: Surroundings): Promise<Turn> {
  try {
    const [result] = await runScenario(options, scenario, around)
    around.interrupt.throwIfAborted()
    return result ? turnOf(result) : NOT_REACHED
  } catch (error) {
    if (error instanceof Interrupted) throw error
    around.interrupt.throwIfAborted()
    return { broken: (error as Error).message }
  }
}
