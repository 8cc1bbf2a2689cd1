/** `npm run bench` without a command: scenarios on one server, or on several in turn. */

import type { Raw } from '../src/shared/command-line.ts'
import type { Command, Outcome } from './command.ts'
import { contest, withServers } from './contest.ts'
import { FLAGS, parseOptions } from './options.ts'
import { renderSummary } from './report/comparison.ts'
import { isGood } from './report/result.ts'
import { isBroken } from './report/summary.ts'
import { renderText } from './report/text.ts'
import type { Surroundings } from './run.ts'

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
    '--start --beside pebble,caddy --clients 64',
  ],
  options: FLAGS,
  run: measureServers,
}

async function measureServers(raw: Raw, around: Surroundings): Promise<Outcome> {
  const plan = parseOptions(raw)
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
