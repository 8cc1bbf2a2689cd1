/** Operations of the Admin API on the database itself: with a configuration file, and without a service. */

import { LocalAdminApi } from '../../admin/local.ts'
import type { Config } from '../../config/schema.ts'
import { VERSION } from '../../main/version.ts'
import type { Command } from '../../shared/command-line/program.ts'
import { configured, JSON_OPTION } from '../command.ts'
import { withAdministration } from '../commands/administration.ts'
import { OperationCaller } from './caller.ts'
import { everyOperation, preparedCommands } from './prepare.ts'
import { NEEDS_USER, type Words } from './words.ts'

export function localOperations(wanted: readonly Words[]): Command[] {
  return preparedCommands(wanted).map(({ usage, about, options, run }) =>
    configured({
      ...{ usage, about, options: { ...options, ...JSON_OPTION } },
      examples: [`-c config.yaml ${usage.replaceAll(/<[^>]+>/g, '…')}`],
      run: (config, values, given) => withLocalApi(config, (caller) => run(caller, values, given)),
    }),
  )
}

export const everyLocalOperation = (): Command[] => localOperations(everyOperation(NEEDS_USER))

function withLocalApi(config: Config, work: (caller: OperationCaller) => Promise<number>): Promise<number> {
  return withAdministration(config, async ({ db, audit, actor }) => {
    const api = new LocalAdminApi({ config, version: VERSION, db, audit, operator: actor })
    const caller = new OperationCaller({
      ...{ baseUrl: api.baseUrl, fetch: api.fetch as typeof fetch, token: () => undefined },
      explain: (error) => error,
    })
    try {
      return await work(caller)
    } finally {
      await api.close()
    }
  })
}
