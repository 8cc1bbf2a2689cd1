/** `chancery serve`: runs the service until a signal. */

import type { Logger } from 'pino'
import type { Config } from '../../config/schema.ts'
import { createLogger } from '../logging.ts'
import { type RunningService, serve } from '../serve.ts'
import { VERSION } from '../version.ts'

export interface ServeHooks {
  onStep(title: string): void
  onReady(service: RunningService): void
}

const NO_HOOKS: ServeHooks = { onStep() {}, onReady() {} }

/** @returns the exit code: 0 after an orderly stop, 1 when a part broke for good. */
export async function runService(config: Config, hooks: Partial<ServeHooks> = {}): Promise<number> {
  const { onStep, onReady } = { ...NO_HOOKS, ...hooks }
  const { log, flush } = createLogger(config.logging, 'main', false)
  const stop = nextStop(log)
  try {
    const service = await serve({
      config,
      version: VERSION,
      log,
      onStep(title) {
        log.debug(title)
        onStep(title)
      },
      onBroken: stop.broken,
    })
    log.info({ version: VERSION, directory: service.directoryUrl, pid: process.pid }, 'service ready')
    onReady(service)
    const { reason, exitCode } = await stop.wanted
    log.info({ reason }, 'service stopping')
    await service.stop()
    log.info('service stopped')
    return exitCode
  } finally {
    flush()
  }
}

/**
 * The first signal, a broken part, or an error nobody caught. A second signal ends the process at once, whatever is
 * left undone.
 */
function nextStop(log: Logger) {
  let settle: (stop: { reason: string; exitCode: number }) => void
  const wanted = new Promise<{ reason: string; exitCode: number }>((resolve) => {
    settle = resolve
  })
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.once(signal, () => {
      settle({ reason: signal, exitCode: 0 })
      // Not process.exit: threads that hold a server would abort it with a core dump.
      process.once(signal, () => process.kill(process.pid, 'SIGKILL'))
    })
  }
  // Without these Node would end the process under the threads' feet, and they abort it with a core dump.
  for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
    process.on(event, (error: unknown) => {
      log.fatal({ err: error }, `${event} in the supervisor`)
      settle({ reason: event, exitCode: 1 })
    })
  }
  return { wanted, broken: (reason: string) => settle({ reason, exitCode: 1 }) }
}
