/**
 * SIGHUP: reads the configuration file again and applies the keys that may change at run time.
 *
 * An unusable file changes nothing. Keys that need a restart keep their running value. Each SIGHUP
 * logs their names again.
 */

import type { Logger } from 'pino'
import { formatErrors, type LoadedConfig } from '../config/load.ts'
import { planReload } from '../config/reload.ts'
import type { Config } from '../config/schema.ts'
import type { ReloadChanges } from './messages.ts'

export interface LiveReload {
  /** Reads, compares and applies. Signals are handled in order, one at a time. Never rejects. */
  run(): Promise<void>
}

/** @param log writes at any level, because an operator who sends a signal waits for the line */
export function createLiveReload(
  running: Config,
  reread: () => Promise<LoadedConfig>,
  apply: (config: Config, changes: ReloadChanges) => Promise<void>,
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
    const changes = { applied: live, needRestart: restart }
    await apply(config, changes)
    current = config
    log.info(changes, 'configuration read again')
  }

  return {
    run() {
      last = last.then(reload).catch((error) => log.error({ err: error }, 'the configuration could not be applied'))
      return last
    },
  }
}
