/** `npm run bench -- abuse`: what one abusive client costs the others. */

import { type Command, EXIT_CODES, othersMayBreak, type Session, subjectsOf, writeReports } from '../command.ts'
import { withServers } from '../contest.ts'
import { ABUSE_FLAGS, parseAbuseOptions } from '../options/abuse.ts'
import type { Raw } from '../options/reader.ts'
import { isGood } from '../report/result.ts'
import { isBroken } from '../report/summary.ts'
import type { AbuseResult } from './result.ts'
import { runAbuse } from './run.ts'
import { renderAbuse } from './text.ts'

export const command: Command = {
  description: [
    'What one abusive client costs the others: a closed loop with and without it, in turn.',
    'The abuser holds connections, forges signatures, sends huge bodies, or dribbles bytes.',
    EXIT_CODES,
  ],
  examples: ['--start --clients 32 --workers 3 --server-cpus 0-2 --abuse slowloris,bad-signatures'],
  flags: ABUSE_FLAGS,
  run: abuseServers,
}

async function abuseServers(raw: Raw, { progress, interrupt, document }: Session): Promise<boolean> {
  const { options, abuse } = parseAbuseOptions(raw)
  return await withServers(options, progress, interrupt, async (contestants) => {
    const results: AbuseResult[] = []
    let broken = 0
    for (const contestant of contestants) {
      for (const scenario of options.scenarios) {
        for (const kind of abuse.kinds) {
          if (interrupt.aborted) break
          const result = await othersMayBreak(
            contestant,
            runAbuse(contestant, scenario, kind, abuse, progress, interrupt),
          )
          if (!result) {
            broken++
            continue
          }
          process.stdout.write(`${results.length > 0 ? '\n' : ''}${renderAbuse(result)}`)
          results.push(result)
        }
      }
    }
    const isWritten = writeReports(options, document(subjectsOf(contestants), { abuse: results }))
    const turns = results.flatMap(({ others }) => others.rounds.flat())
    return isWritten && broken === 0 && turns.every((turn) => !isBroken(turn) && isGood(turn))
  })
}
