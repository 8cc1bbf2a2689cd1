/** `npm run bench` without a command: scenarios on one server, or on several in turn. */

import { type Command, EXIT_CODES, type Session, writeReports } from './command.ts'
import { contest, withServers } from './contest.ts'
import { FLAGS, parseOptions } from './options/options.ts'
import type { Raw } from './options/reader.ts'
import { renderSummary } from './report/comparison-text.ts'
import { isGood, type Result } from './report/result.ts'
import { isBroken } from './report/summary.ts'
import { renderText } from './report/text.ts'
import { ONLY_BY_NAME } from './scenario/table.ts'

export const command: Command = {
  description: [
    'Measure ACME servers: throughput, latency per step, CPU per operation. Other commands: overload, abuse, scale, profile, micro, load, signer.',
    EXIT_CODES,
  ],
  examples: [
    'overload --help',
    'abuse --help',
    'scale --help',
    'profile --help',
    'micro --help',
    'load --help',
    'signer --help',
    '--directory https://localhost:14000/dir --insecure --clients 4',
    '--scenario directory,nonce,new-order --clients 64 --processes 2 --json results.json',
    '--start --clients 64 --rate 50%',
    '--compare main --clients 64 --workers 3 --server-cpus 0-2',
  ],
  flags: FLAGS,
  run: measureServers,
}

async function measureServers(raw: Raw, { progress, interrupt, document }: Session): Promise<boolean> {
  const options = parseOptions(raw)
  return await withServers(options, progress, interrupt, async (contestants) => {
    const isAlone = contestants.length === 1
    let printed = 0
    const onResult = (result: Result) => {
      if (isAlone) process.stdout.write(`${printed++ > 0 ? '\n' : ''}${renderText(result)}`)
    }
    const leftOut = options.skipsUnsupported ? ONLY_BY_NAME.map((name) => `${name} (only by name)`) : []
    const onLeftOut = (scenario: string, reason: string) => void leftOut.push(`${scenario} (${reason})`)
    const measurements = await contest(contestants, options, progress, interrupt, onResult, onLeftOut)
    const servers = contestants.map(({ subject }) => subject)
    if (!isAlone || options.servers.repeat > 1)
      process.stdout.write(`${printed > 0 ? '\n' : ''}${renderSummary(servers, measurements)}`)
    if (leftOut.length > 0) process.stdout.write(`\nleft out of "all": ${leftOut.join(', ')}\n`)
    const isWritten = writeReports(options, document(servers, { measurements }))
    return (
      isWritten &&
      measurements.every(
        ({ rounds }) =>
          rounds.length === options.servers.repeat &&
          rounds.every((turns) => turns.every((turn) => !isBroken(turn) && isGood(turn))),
      )
    )
  })
}
