/**
 * SIGHUP: the configuration file is read again, and what may change in a running service changes.
 *
 * A file that is not usable changes nothing. What differs and needs a restart is named in the log and stays as it runs,
 * so that a later SIGHUP names it again.
 */

import type { Logger } from 'pino'
import type { LoadedConfig } from '../config/load.ts'
import { formatErrors } from '../config/load.ts'
import { planReload } from '../config/reload.ts'
import type { Config } from '../config/schema.ts'

export interface LiveReload {
  /** Reads, compares, applies; one at a time, in the order of the signals. Never rejects. */
  run(): Promise<void>
}

/** @param log one that writes at any level: an operator who sends a signal waits for the line */
export function createLiveReload(
  running: Config,
  reread: () => Promise<LoadedConfig>,
  apply: (config: Config) => Promise<void>,
  log: Logger,
): LiveReload {
  let current = running
  let last = Promise.resolve()

  async function reload(): Promise<void> {
    const loaded = await reread()
    if (!loaded.ok) {
      log.error(
        { errors: formatErrors(loaded.errors).split('\n') },
        'the configuration file is not usable; nothing is changed',
      )
      return
    }
    const { config, live, restart } = planReload(current, loaded.config)
    await apply(config)
    current = config
    log.info({ applied: live, needRestart: restart }, 'configuration read again')
  }

  return {
    run() {
      last = last.then(reload).catch((error) => log.error({ err: error }, 'the configuration could not be applied'))
      return last
    },
  }
}
