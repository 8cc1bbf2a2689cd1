/** `chancery perspective`: serves checks for other instances until a signal. */

import { startPerspective } from '../../mpic/perspective-service.ts'
import { createLogger, lifeLog } from '../../ops/logging.ts'
import { perspectiveSettings } from '../../settings/validation-settings.ts'
import { ignoreUserSignals, STOP } from '../../shared/lib/environment.ts'
import { VERSION } from '../../shared/lib/program-files.ts'
import { perspectiveConfig } from '../checked-config.ts'
import type { CommonOptions } from '../values.ts'
import { CommandError } from '../values.ts'

/** Time for running checks to end after the signal; each has its own time-out. */
const GRACEFUL_MS = 30_000

/** @returns the exit code. @throws CommandError when it cannot start */
export async function runPerspective(options: CommonOptions): Promise<number> {
  const config = await perspectiveConfig(options)
  const { log, flush } = createLogger(config.logging, 'perspective')
  ignoreUserSignals(STOP, (sentence) => log.warn(sentence))
  const life = lifeLog(log)
  const stopped = new Promise<NodeJS.Signals>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, resolve)
  })
  try {
    const perspective = await startPerspective(perspectiveSettings(config, VERSION), log).catch((error: unknown) => {
      throw new CommandError((error as Error).message)
    })
    life.info({ version: VERSION, port: perspective.port, pid: process.pid }, 'perspective ready')
    const reason = await stopped
    life.info({ reason }, 'perspective stopping')
    await perspective.stop(GRACEFUL_MS)
    return 0
  } finally {
    flush()
  }
}
