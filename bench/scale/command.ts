/** `npm run bench -- scale`: what more front threads and more instances bring. */

import { availableParallelism } from 'node:os'
import { type Command, EXIT_CODES, type Session, subjectsOf, writeReports } from '../command.ts'
import { withServers } from '../contest.ts'
import type { Raw } from '../options/reader.ts'
import { parseScaleOptions, SCALE_FLAGS } from '../options/scale.ts'
import { isGood } from '../report/result.ts'
import { runScale } from './run.ts'
import { renderScale } from './text.ts'

export const command: Command = {
  description: [
    'Certificates a second, and for each core used, with 1, 2, 3 front threads and with several instances on one database.',
    'Starts all of them, loads them in turn (A B C D, A B C D), and takes them down.',
    EXIT_CODES,
  ],
  examples: ['--clients 64 --server-cpus 0-2 --challenge accept-all-01 --duration 10 --warmup 10'],
  flags: SCALE_FLAGS,
  run: scaleServers,
}

async function scaleServers(raw: Raw, { progress, interrupt, document }: Session): Promise<boolean> {
  const { options, scale } = parseScaleOptions(raw)
  return await withServers(options, progress, interrupt, async (contestants) => {
    const [host] = contestants
    if (!host?.server) throw new Error('the service that brings PostgreSQL did not start')
    const rows = await runScale(host.server, options, scale, progress, interrupt)
    process.stdout.write(renderScale(rows, availableParallelism()))
    const isWritten = writeReports(options, document(subjectsOf(contestants), { scale: rows }))
    return isWritten && rows.flatMap(({ rounds }) => rounds.flat()).every(isGood)
  })
}
