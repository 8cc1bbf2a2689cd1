/** `npm run bench -- overload`: more than a server can do. */

import { type Command, EXIT_CODES, othersMayBreak, type Session, subjectsOf, writeReports } from '../command.ts'
import { withServers } from '../contest.ts'
import { OVERLOAD_FLAGS, parseOverloadOptions } from '../options/overload.ts'
import type { Raw } from '../options/reader.ts'
import { isGood } from '../report/result.ts'
import type { OverloadResult } from './result.ts'
import { runOverload } from './run.ts'
import { renderOverload } from './text.ts'

export const command: Command = {
  description: [
    'Offer a server more than it can do: goodput, refusals and their cost, memory, recovery.',
    'A closed loop finds the maximum; then one open loop goes from calm to flood and back without a pause.',
    EXIT_CODES,
  ],
  examples: ['--start --clients 64 --workers 3 --server-cpus 0-2 --html overload.html'],
  flags: OVERLOAD_FLAGS,
  run: overloadServers,
}

async function overloadServers(raw: Raw, { progress, interrupt, document }: Session): Promise<boolean> {
  const { options, overload } = parseOverloadOptions(raw)
  return await withServers(options, progress, interrupt, async (contestants) => {
    const results: OverloadResult[] = []
    let broken = 0
    for (const scenario of options.scenarios) {
      for (const contestant of contestants) {
        if (interrupt.aborted) break
        const result = await othersMayBreak(
          contestant,
          runOverload(contestant, scenario, overload, progress, interrupt),
        )
        if (!result) {
          broken++
          continue
        }
        process.stdout.write(renderOverload(result))
        results.push(result)
      }
    }
    const isWritten = writeReports(options, document(subjectsOf(contestants), { overload: results }))
    return isWritten && broken === 0 && results.every(({ maximum, run }) => isGood(maximum) && isGood(run))
  })
}
