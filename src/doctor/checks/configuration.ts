/** Both configurations, and whether the running service has read what is in the file. */

import { existsSync } from 'node:fs'
import { missingModule } from '../../../signer/keys/pkcs11/native.ts'
import { formatErrors } from '../../config/load.ts'
import type { ConfigNotice } from '../../shared/config-file/notice.ts'
import { programFile } from '../../shared/lib/program-files.ts'
import { stateOf } from '../facts/files.ts'
import type { Check } from '../sources.ts'
import { failure, ok, orOk, unknown, type Verdict, warning } from '../verdict.ts'

const EDIT = 'correct the key; chancery -c FILE --validate-only shows all errors, docs/configuration.md every key'

export const CONFIGURATION: readonly Check[] = [
  {
    id: 'configuration.valid',
    title: 'The configuration of the service is valid',
    look({ options: { loaded, configFile } }) {
      if (loaded.ok) return ok(`${configFile} is valid`)
      return loaded.errors.slice(0, 20).map((error) => failure(`${configFile}: ${formatErrors([error])}`, EDIT))
    },
  },
  {
    id: 'configuration.intended',
    title: 'No setting is probably unintended',
    look({ options: { loaded, configFile } }) {
      const warnings = loaded.ok ? loaded.warnings : []
      const mendOf = (one: ConfigNotice) =>
        /others may read this file/.test(one.message)
          ? `chmod 640 ${configFile}; then replace the secret (${one.path})`
          : `set ${one.path} as you mean it`
      const found = warnings.map((one) => warning(formatErrors([one]), mendOf(one)))
      return loaded.ok ? orOk(found, 'no setting is known to be a mistake') : undefined
    },
  },
  {
    id: 'configuration.files',
    title: 'The files that the configuration names exist and have the right content',
    look({ config, options }) {
      const { errors, warnings } = options.inspectFiles(config)
      return orOk(
        [
          ...errors.map((one) =>
            /EACCES|permission denied/i.test(one.message) && process.getuid?.() !== 0
              ? unknown(`cannot tell, because ${formatErrors([one])}`, 'run chancery doctor as root')
              : failure(formatErrors([one]), `put the right file there, or correct ${one.path}`),
          ),
          ...warnings.map((one) => warning(formatErrors([one]), `replace or close the file of ${one.path}`)),
        ],
        'all can be read',
      )
    },
  },
  {
    id: 'configuration.signer',
    title: 'The configuration of the signer is valid',
    look(sources) {
      const { socket } = sources.config.ca.signer
      if (socket === null) return undefined
      const file = sources.signerConfigFile
      const state = file === undefined ? undefined : stateOf(file)
      if (file === undefined || state?.problem === 'closed') return void sources.signerConfig()
      try {
        const config = sources.signerConfig()
        if (config.socket === socket) return ok(`${file} is valid`)
        return warning(
          `${file} has the socket ${config.socket}, the service ${socket} (ca.signer.socket)`,
          'where a tunnel leads from one to the other, all is well; else name the same socket in both',
        )
      } catch (error) {
        return failure((error as Error).message, 'correct the file; chancery-signer --validate-only -c FILE checks it')
      }
    },
  },
  {
    id: 'configuration.token-module',
    title: 'What a key in a token needs is compiled',
    async look(sources) {
      // Only the installation of the signer knows it, and a package brings the module compiled.
      if (sources.signerConfigFile === undefined || !existsSync(programFile('signer/start.cjs'))) return undefined
      if (!sources.signerConfig().issuers.some(({ key }) => key.pkcs11 !== undefined)) return undefined
      const missing = await missingModule()
      return missing ? failure(missing.says, missing.mend) : ok('it is')
    },
  },
  {
    id: 'configuration.running',
    title: 'The service was started, or read its configuration again, after the last change of the file',
    look(sources) {
      const { configFile } = sources.options
      const found = sources.process()
      if (!found) return unknown('cannot tell, because no process of this configuration is seen on this host')
      return judgeRunning(stateOf(configFile).facts?.modifiedAt, found.startedAt, configFile)
    },
  },
]

/** The clock of starts is coarse. */
const SLACK_MS = 2_000

export function judgeRunning(changedAt: Date | undefined, startedAt: Date, file: string): Verdict {
  if (changedAt === undefined || changedAt.getTime() <= startedAt.getTime() + SLACK_MS)
    return ok(`the service runs since ${startedAt.toISOString()}, and the file is older`)
  return warning(
    `${file} was changed at ${changedAt.toISOString()}, and the service runs since ${startedAt.toISOString()}`,
    'restart the service (systemctl restart chancery); where only keys marked ↻ were changed, a reload was enough',
  )
}
