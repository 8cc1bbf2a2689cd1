/**
 * Both configurations, whether the running service has read what is in the file, and the rights of the files that they
 * name: who can read secrets, and who can change what the programs believe.
 */

import { existsSync } from 'node:fs'
import path from 'node:path'
import { missingModule } from '../../../signer/keys/pkcs11/native.ts'
import { hasSigner } from '../../config/backends.ts'
import { formatErrors } from '../../config/load.ts'
import type { Config } from '../../config/schema.ts'
import { changeableByOthers, openToAll, PLACES, readableByAll, tooOpen } from '../../installation/places.ts'
import { signerProgram } from '../../settings/signer-settings.ts'
import type { ConfigNotice } from '../../shared/config-file/notice.ts'
import { programFile } from '../../shared/lib/program-files.ts'
import { type FileFacts, octal, stateOf, userName } from '../facts/files.ts'
import type { Check, Sources } from '../sources.ts'
import {
  AS_ROOT,
  CannotTell,
  failure,
  ok,
  orOk,
  type Possible,
  unknown,
  unknownBecause,
  type Verdict,
  warning,
} from '../verdict.ts'

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
              ? unknownBecause(formatErrors([one]), AS_ROOT)
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
      const { startedAt } = sources.requireProcess()
      return judgeRunning(stateOf(configFile).facts?.modifiedAt, startedAt, configFile)
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

export const FILES: readonly Check[] = [
  {
    id: 'files.configuration',
    title: 'Only root and the owner can change the configurations, and no stranger reads a secret in them',
    look(sources) {
      const files = [sources.options.configFile, sources.signerConfigFile].filter((file) => file !== undefined)
      return together(files, (facts) => judgeConfiguration(facts, sources.process()?.uid))
    },
  },
  {
    id: 'files.environment',
    title: 'The files with variables for the units are closed',
    look(sources) {
      const folder = path.dirname(path.resolve(sources.options.configFile))
      const files = [PLACES.serviceEnv, PLACES.signerEnv].map((one) => path.join(folder, path.basename(one.path)))
      const there = files.filter((file) => stateOf(file).problem !== 'missing')
      return together(there, (facts) => judgeSecret(facts, PLACES.serviceEnv.mode))
    },
  },
  {
    id: 'files.signer-secret',
    title: 'The secret between service and signer is closed to others',
    look({ config }) {
      const file = config.ca.signer.secret_file
      if (config.ca.signer.socket === null || file === null) return undefined
      return together([path.resolve(file)], (facts) => judgeSecret(facts, PLACES.secret.mode))
    },
  },
  {
    id: 'files.issuer-key',
    title: 'Only the signer can read the keys of the issuers',
    look(sources) {
      return together(keyFiles(sources), (facts) => judgeKey(facts, ownSigner(sources)))
    },
  },
  {
    id: 'files.pin',
    title: 'Files with PINs and passphrases are closed',
    look(sources) {
      if (sources.config.ca.signer.socket === null) return undefined
      const { issuers } = sources.signerConfig()
      const files = issuers.flatMap(({ key }) => [key.passphrase_file, key.pkcs11?.pin_file])
      const named = files.filter((file) => file !== undefined)
      return together(named, (facts) => judgeSecret(facts, PLACES.tokenPin.mode))
    },
  },
  {
    id: 'files.private-keys',
    title: 'Private keys and secrets of the service are closed to others',
    look: ({ config }) => together(serviceSecrets(config), judgeServiceSecret),
  },
  {
    id: 'files.socket',
    title: 'The socket of the signer is there, and closed to others',
    look({ config }) {
      const { socket } = config.ca.signer
      return socket === null ? undefined : judgeSocket(socket)
    },
  },
  {
    id: 'files.state',
    title: 'The folders of audit chain and archive are closed to others',
    look(sources) {
      const { archive_dir: archive } = sources.config.retention
      const folders = archive === null ? [] : [path.resolve(archive)]
      const audit = auditFolder(sources)
      if (audit instanceof CannotTell)
        return [
          unknown(`cannot tell about the audit chain, because ${audit.message}`, audit.mend),
          ...(together(folders, judgeFolder) ?? []),
        ]
      return together([...new Set(audit === undefined ? folders : [audit, ...folders])], judgeFolder)
    },
  },
]

/** The folder of the audit chain; undefined where no certificate is signed here. */
function auditFolder(sources: Sources): string | CannotTell | undefined {
  const { config } = sources
  if (!hasSigner(config)) return undefined
  if (config.ca.signer.socket === null) return path.dirname(signerProgram(config).auditFile)
  try {
    return path.dirname(sources.signerConfig().audit.file)
  } catch (error) {
    if (error instanceof CannotTell) return error
    throw error
  }
}

/** Judges each file. A file that cannot be seen is unknown or missing; without files there is no verdict. */
function together(files: readonly string[], judge: (facts: FileFacts) => Possible): readonly Verdict[] | undefined {
  if (files.length === 0) return undefined
  const found = files.map((file) => {
    const { facts, problem, text } = stateOf(file)
    if (facts) return judge(facts)
    if (problem === 'closed') return unknownBecause(`${file} cannot be looked at: ${text}`, AS_ROOT)
    return failure(`${file} is not there`, `put it there, or correct the key that names it`)
  })
  return orOk(found, `${files.join(', ')}: closed as they should be`)
}

const chmod = (mode: number, file: string) => `chmod ${octal(mode)} ${file}`
const named = ({ file, mode, uid }: FileFacts) => `${file} (mode ${octal(mode)}, owner ${userName(uid)})`

/** @param serviceUid the user of the running service */
function judgeConfiguration(facts: FileFacts, serviceUid: number | undefined): Possible {
  const { file, mode, uid } = facts
  if (changeableByOthers(mode))
    return failure(`${named(facts)} can be changed by others than its owner`, chmod(PLACES.config.mode, file))
  const isServices = serviceUid !== undefined && serviceUid !== 0 && uid === serviceUid
  return (
    isServices &&
    warning(
      `${named(facts)} belongs to the user of the service, which could change its own limits`,
      `chown root ${file}; its group is enough to read it`,
    )
  )
}

/** @param wanted the mode of such a file where setup makes it */
const judgeSecret = (facts: FileFacts, wanted: number): Possible =>
  tooOpen(wanted, facts.mode) && openSecret(facts, wanted)

/** The group of such a file is the operator's choice: a proxy may share the key. */
const judgeServiceSecret = (facts: FileFacts): Possible =>
  openToAll(facts.mode) && openSecret(facts, PLACES.config.mode)

const openSecret = (facts: FileFacts, wanted: number): Verdict =>
  failure(
    `${named(facts)} is a secret, and too many can read it`,
    `${chmod(wanted, facts.file)}; then replace the secret`,
  )

/** @param serviceUid the user of the running service, where the signer is a program of its own */
export function judgeKey(facts: FileFacts, serviceUid: number | undefined): Possible {
  const { file, mode, uid } = facts
  if (tooOpen(PLACES.issuerKey.mode, mode))
    return failure(
      `${named(facts)} is the key of an issuer, and others can read it`,
      `${chmod(PLACES.issuerKey.mode, file)}; think about who has read it`,
    )
  if (serviceUid === undefined || uid !== serviceUid) return undefined
  return failure(
    `${named(facts)} is the key of an issuer, and belongs to the user of the service`,
    `chown it to the user of the signer: chown ${PLACES.issuerKey.owner} ${file}`,
  )
}

function judgeFolder(facts: FileFacts): Possible {
  const { file, mode, kind } = facts
  if (kind !== 'folder') return failure(`${file} is no folder`, 'name a folder')
  const mend = chmod(PLACES.signerState.mode, file)
  if (changeableByOthers(mode)) return failure(`${named(facts)} can be written by others than its owner`, mend)
  return readableByAll(mode) && warning(`${named(facts)} can be read by every user`, mend)
}

function judgeSocket(socket: string): Verdict {
  const { facts, problem, text } = stateOf(socket)
  const folder = path.dirname(socket)
  if (problem === 'closed') return unknownBecause(`${socket} cannot be looked at: ${text}`, AS_ROOT)
  if (!facts)
    return failure(
      `${socket} (ca.signer.socket) is not there`,
      'start the signer: systemctl start chancery-signer, or its tunnel',
    )
  if (facts.kind !== 'socket') return failure(`${socket} is no socket`, 'correct ca.signer.socket')
  const around = stateOf(folder).facts
  if (around && openToAll(around.mode)) {
    const mend = chmod(PLACES.signerRun.mode, folder)
    return failure(`the folder of the socket, ${named(around)}, is open to every user`, mend)
  }
  if (openToAll(facts.mode)) return failure(`${named(facts)} is open to every user`, chmod(PLACES.socket.mode, socket))
  return ok(`${named(facts)} in a folder that is closed to others`)
}

/** The user of the service must not read keys. Undefined when the service starts the signer itself, or runs as root. */
function ownSigner(sources: Sources): number | undefined {
  const { uid } = sources.process() ?? {}
  return sources.config.ca.signer.socket === null || uid === 0 ? undefined : uid
}

function keyFiles(sources: Sources): string[] {
  const { socket } = sources.config.ca.signer
  const { root_key_path } = sources.config.ca.internal
  if (socket === null) return root_key_path === null ? [] : [path.resolve(root_key_path)]
  const keys = sources.signerConfig().issuers.flatMap(({ key }) => (key.file === undefined ? [] : [key.file]))
  // The files of a signer on another host are not here.
  const there = keys.filter((file) => stateOf(file).problem !== 'missing')
  if (keys.length > 0 && there.length === 0) throw new CannotTell('the keys of the signer are not on this host')
  return there
}

function serviceSecrets({ server, acme, admin_api, ca, challenges }: Config): string[] {
  const files = [
    server.tls.key_path,
    acme.eab_key_file,
    admin_api.audit_key_file,
    admin_api.listen?.key_file,
    ca.external.client_key_path,
    ...challenges.perspectives.map(({ client_key_path }) => client_key_path),
  ]
  return files.filter((file) => typeof file === 'string').map((file) => path.resolve(file))
}
